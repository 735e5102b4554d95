"""The way into ``oe``: says what to install where the extra ``cli`` is missing."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

_NEEDED = {"click": "click", "rich": "rich", "yaml": "PyYAML"}


def main() -> int:
    """Run ``oe``; returns the exit code (see ``oe --help``)."""
    missing = [name for module, name in _NEEDED.items() if find_spec(module) is None]
    if missing:
        print(
            f"oe: {', '.join(missing)} not found; pip install 'inferlab-adapters[cli]'",
            file=sys.stderr,
        )
        return 2
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from inferlab_adapters.cli.main import run

    return run(sys.argv[1:])
