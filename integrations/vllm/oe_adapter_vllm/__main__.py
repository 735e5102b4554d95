"""``oe-adapter-vllm``, ``inferlab-adapter-vllm`` and ``python -m oe_adapter_vllm``."""

import gc
import os

# What a start-up makes lives until the end; looking through it for garbage only costs time.
gc.disable()
# A pydantic plugin installed in the serving environment has no business at the wire edge, and
# looking for one reads the metadata of every distribution there.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def main() -> int:
    """Answer one request; returns the exit code."""
    from inferlab_adapters.program import main as run
    from oe_adapter_vllm import ADAPTER

    return run(ADAPTER)


if __name__ == "__main__":
    raise SystemExit(main())
