"""The call metadata of v0.1.0: priority and rank come by header there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from inferlab_adapters.errors import shown
from inferlab_adapters.openengine.errors import invalid

PRIORITY = "openengine-priority"
RANK = "openengine-target-dp-rank"

_INTEGER = re.compile(r"-?[0-9]{1,11}")


class Routing(NamedTuple):
    """What a client asks of the scheduler, and where it said so."""

    priority: int | None = None
    dp_rank: int | None = None
    priority_field: str = "priority"
    rank_field: str = "kv.data_parallel_rank"


def routing(metadata: Iterable[tuple[str, str | bytes]]) -> Routing:
    """Read the keys of a call. Raises ``invalid_argument`` for one that is malformed or doubled."""
    found: dict[str, str | bytes] = {}
    for key, value in metadata:
        if key in (PRIORITY, RANK):
            if key in found:
                raise invalid(f"metadata {key}: is given twice; send it at most once")
            found[key] = value
    return Routing(
        _number(found, PRIORITY, -(2**31), 2**31 - 1),
        _number(found, RANK, 0, 2**32 - 1),
        f"metadata {PRIORITY}",
        f"metadata {RANK}",
    )


def _number(found: dict[str, str | bytes], key: str, low: int, high: int) -> int | None:
    value = found.get(key)
    if value is None:
        return None
    if isinstance(value, str) and _INTEGER.fullmatch(value) and low <= int(value) <= high:
        return int(value)
    raise invalid(f"metadata {key}: {shown(value)} is no integer from {low} to {high}")
