"""Routing keys and trace context beside a call, unknown enum values, extra."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import INVALID, answer, must_refuse
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Metadata

PRIORITY = "openengine-priority"
RANK = "openengine-target-dp-rank"
_TRACE = (
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("tracestate", "conformance=1"),
)
_MALFORMED: tuple[Metadata, ...] = (
    ((PRIORITY, "1"), (PRIORITY, "1")),
    ((PRIORITY, "x"),),
    ((PRIORITY, str(2**31)),),
    ((RANK, "0"), (RANK, "0")),
    ((RANK, "x"),),
    ((RANK, "-1"),),
    ((RANK, str(2**32)),),
)
_CONTROL = ("GetServerInfo", "GetModelInfo", "GetLoad", "Health", "ListLoras", "GetKvEventSources")


@check("G11")
async def malformed_keys(s: Subject) -> None:
    for metadata in _MALFORMED:
        call = await s.generate(s.plain(), expect="refused", metadata=metadata)
        must_refuse(call, " and ".join(f"{key}: {value}" for key, value in metadata), INVALID)


@check("G12")
async def keys_on_control(s: Subject) -> None:
    await _unchanged(s, ((PRIORITY, "1"), (RANK, "0")))


@check("G13")
async def trace_context(s: Subject) -> None:
    await _unchanged(s, _TRACE)
    call = await s.generate(s.plain(), expect="served", metadata=_TRACE)
    if call.refused and not call.messages:
        raise Broken(f"with trace context, {call.told()}")


@check("G15")
async def priority_without_priorities(s: Subject) -> None:
    if s.generation.supports_priority:
        raise Skip("the model has priorities")
    call = await s.generate(s.plain(), metadata=((PRIORITY, "5"),))
    if not call.refused and not call.ok:
        raise Broken(f"with a priority, {call.told()}")


@check("G16")
async def unknown_enum_values(s: Subject) -> None:
    asked = s.wire.message("HealthRequest")
    asked.role = 99
    call = await s.wire.unary("Health", asked)
    if not call.ok:
        raise Broken(f"with the role 99, {call.told()}")


@check("G17")
async def extra(s: Subject) -> None:
    for extra in ({}, {"conformance.no-such-key": 1}):
        call = await s.generate(s.plain({"extra": extra}), expect="served")
        if call.refused and not call.messages:
            raise Broken(f"with extra {extra}, {call.told()}")


@check("G14")
async def rank_and_session(s: Subject) -> None:
    if s.role != "decode":
        raise Skip("needs a decode server")
    rank = (await s.session()).dp_rank + 1
    call = await s.generate(s.plain(), expect="refused", metadata=((RANK, str(rank)),))
    must_refuse(call, f"{RANK}: {rank} beside a session of rank {rank - 1}", INVALID)


async def _unchanged(s: Subject, metadata: Metadata) -> None:
    for method in _CONTROL:
        data = {"model": s.model} if method == "GetModelInfo" else None
        if not (await s.wire.unary(method, data)).ok:
            continue
        call = await s.wire.unary(method, data, metadata=metadata)
        if not call.ok:
            raise Broken(f"with {metadata[0][0]}, {call.told()}")
    answer(await s.wire.unary("GetServerInfo"))
