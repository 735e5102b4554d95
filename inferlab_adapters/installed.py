"""The version of one installed distribution, without reading what others are installed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

_RUNS = re.compile(r"[-_.]+")


def installed_version(distribution: str, folders: Sequence[str] | None = None) -> str | None:
    """The version that the metadata of ``distribution`` states; ``None`` if there is none.

    Folders are searched in order, ``sys.path`` where none are given, as an import would be. The
    standard library's search does the same at several times the cost for a program that does
    nothing else.
    """
    wanted = _normalized(distribution)
    for folder in sys.path if folders is None else folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            stem, kind = os.path.splitext(name)
            if kind in (".dist-info", ".egg-info") and _normalized(stem.split("-")[0]) == wanted:
                version = _stated_version(os.path.join(folder, name))
                if version:
                    return version
    return None


def _stated_version(metadata: str) -> str | None:
    for file in ("METADATA", "PKG-INFO"):
        try:
            with open(os.path.join(metadata, file), encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if line.startswith("Version:"):
                        return line.partition(":")[2].strip()
                    if not line.strip():
                        break
        except OSError:
            continue
    return None


def _normalized(name: str) -> str:
    return _RUNS.sub("_", name).lower()
