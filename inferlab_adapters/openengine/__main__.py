"""``python3 -m inferlab_adapters.openengine``: says what to install where something is missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

_NEEDED = {
    "aiohttp": "aiohttp",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking",
    "grpc_reflection": "grpcio-reflection",
    "msgspec": "msgspec",
}


def main() -> int:
    """Run the program; returns the exit code."""
    missing = [name for module, name in _NEEDED.items() if not _present(module)]
    if missing:
        sys.stderr.write(
            f"openengine: {', '.join(missing)} not found; "
            "pip install 'inferlab-adapters[openengine]'\n"
        )
        return 2
    from inferlab_adapters.openengine.serve import main as serve

    return serve()


def _present(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
