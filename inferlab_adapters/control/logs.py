"""The end of log files."""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = 65536


def tail(path: Path, lines: int, end: int | None = None) -> list[str]:
    """The last lines of a file without their ends, ``end`` bytes counting; none without a file."""
    if lines <= 0:
        return []
    try:
        with open(path, "rb") as file:
            position = file.seek(0, os.SEEK_END) if end is None else end
            data = b""
            while position and data.count(b"\n") <= lines:
                step = min(_BLOCK, position)
                position -= step
                file.seek(position)
                data = file.read(step) + data
    except FileNotFoundError:
        return []
    text = data.decode(errors="replace")
    return [line.rstrip("\r") for line in text.rstrip("\n").split("\n")][-lines:] if text else []
