"""``oe-adapter-toy``, ``inferlab-adapter-toy`` and ``python -m oe_adapter_toy``."""

from inferlab_adapters.start import start


def main() -> int:
    """Answer one request; returns the exit code."""
    return start("oe_adapter_toy")


if __name__ == "__main__":
    raise SystemExit(main())
