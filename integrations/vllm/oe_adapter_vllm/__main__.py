"""``oe-adapter-vllm``, ``inferlab-adapter-vllm`` and ``python -m oe_adapter_vllm``."""

from inferlab_adapters.start import start


def main() -> int:
    """Answer one request; returns the exit code."""
    return start("oe_adapter_vllm")


if __name__ == "__main__":
    raise SystemExit(main())
