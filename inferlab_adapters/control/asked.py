"""Origins in the words of the person who asked, instead of those of the plan."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from inferlab_adapters.control.types import Json
from inferlab_adapters.control.wanted import Wanted
from inferlab_adapters.deployment import ASKED, PLANNED
from inferlab_adapters.origins import Origin

_ROLE = re.compile(r"(/input/roles/\d+)/([^/]+)(.*)")
_ALLOCATION = re.compile(r"/input/allocations/(\d+)/(.*)")
_BACK = {getattr(PLANNED, name): getattr(ASKED, name) for name in ASKED._fields}


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why something is in a command.

    ``source`` is one of request, parallelism, setting, allocation, adapter and default; ``place``
    a JSON pointer into the file that was given, or for an allocation what it is of which process.
    """

    source: str
    place: str
    why: str


def reason(origin: Origin, wanted: Wanted, request: Json, allocations: list[Json]) -> Reason:
    """The reason behind an origin in the render request that followed from ``request``.

    What the effective roles hold and ``request`` does not is a default, or follows from the sizes
    that were asked for.
    """
    allocation = _ALLOCATION.fullmatch(origin.pointer)
    if allocation:
        process = allocations[int(allocation[1])]["process"]
        place = f"{allocation[2]} of {process}"
        return Reason(source=origin.source, place=place, why=origin.why)
    role = _ROLE.fullmatch(origin.pointer)
    if role is None or request["operation"] == "render_serve":
        return Reason(source=origin.source, place=wanted.locate(origin.pointer), why=origin.why)
    pointer = f"{role[1]}/{_BACK.get(role[2], role[2])}{role[3]}"
    if _has(request, pointer):
        return Reason(source=origin.source, place=wanted.locate(pointer), why=origin.why)
    if origin.source == "parallelism":
        why = f"{origin.why}; not asked for, it follows from the other sizes"
        return Reason(source="parallelism", place="", why=why)
    return Reason(source="default", place="", why=f"{origin.why}; the adapter's default")


def _has(document: Any, pointer: str) -> bool:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and key.isdigit() and int(key) < len(document):
            document = document[int(key)]
        elif isinstance(document, dict) and key in document:
            document = document[key]
        else:
            return False
    return True
