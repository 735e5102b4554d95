"""The trace context of a call, as W3C Trace Context has it: what may be passed on to the engine."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_SIMPLE_KEY = r"[a-z][a-z0-9_\-*/]{0,255}"
_TENANT_KEY = r"[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_VALUE = r"[ -+\--<>-~]{0,255}[!-+\--<>-~]"
_MEMBER = re.compile(rf"({_SIMPLE_KEY}|{_TENANT_KEY})={_VALUE}")
_MAX_MEMBERS = 32
_MAX_PARENT = 512
_MAX_STATE = 8192


def trace_context(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """``traceparent`` and ``tracestate`` of a call's metadata, where they are well formed.

    A traceparent that is malformed or given twice is dropped, and a tracestate with it, for it
    says nothing alone; a malformed tracestate is dropped alone.
    """
    parents: list[str] = []
    states: list[str] = []
    for key, value in metadata:
        if key in ("traceparent", "tracestate") and isinstance(value, str):
            (parents if key == "traceparent" else states).append(value)
    if len(parents) != 1 or not _is_parent(parents[0]):
        return {}
    found = {"traceparent": parents[0]}
    if state := _joined(states):
        found["tracestate"] = state
    return found


def _is_parent(value: str) -> bool:
    if len(value) > _MAX_PARENT:
        return False
    match = _PARENT.fullmatch(value)
    if match is None:
        return False
    version, trace, span, _, more = match.groups()
    # A later version may say more; version 00 has nothing behind the flags, and ff is none.
    if version == "ff" or (version == "00" and more is not None):
        return False
    return bool(trace.strip("0") and span.strip("0"))


def _joined(states: list[str]) -> str:
    """One header of several, without empty members; empty where it is malformed."""
    if sum(map(len, states)) > _MAX_STATE:
        return ""
    stripped = (member.strip(" \t") for state in states for member in state.split(","))
    members = [member for member in stripped if member]
    if len(members) > _MAX_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return ""
    keys = {member.partition("=")[0] for member in members}
    return ",".join(members) if len(keys) == len(members) else ""
