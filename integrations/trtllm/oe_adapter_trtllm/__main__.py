"""``oe-adapter-trtllm``, ``inferlab-adapter-tensorrt-llm``, ``python -m oe_adapter_trtllm``."""

from inferlab_adapters.start import start


def main() -> int:
    """Answer one request; returns the exit code."""
    return start("oe_adapter_trtllm")


if __name__ == "__main__":
    raise SystemExit(main())
