"""``oe-adapter-sglang``, ``inferlab-adapter-sglang`` and ``python -m oe_adapter_sglang``."""

from inferlab_adapters.start import start


def main() -> int:
    """Answer one request; returns the exit code."""
    return start("oe_adapter_sglang")


if __name__ == "__main__":
    raise SystemExit(main())
