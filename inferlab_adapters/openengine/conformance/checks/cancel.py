"""Calls that the client gives up."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.running import Running, becomes
from inferlab_adapters.openengine.conformance.outcome import Broken, TooFast
from inferlab_adapters.openengine.conformance.subject import Subject

_DEADLINE_SECONDS = 0.3


@check("O23", needs="decode")
async def giving_up_ends_the_work(s: Subject) -> None:
    base = await _running(s)
    request = await Running.start(s)
    if request.ended:
        raise TooFast
    await request.stop()
    await _ended(s, request.id, base, "cancelled")
    stream = await s.open(s.long(), timeout=min(_DEADLINE_SECONDS, s.soon))
    call = await stream.rest()
    if call.ended == "deadline":
        await _ended(s, call.request.request_id, base, "timed out")


async def _ended(s: Subject, id: str, base: int | None, how: str) -> None:
    async def free() -> bool:
        return bool((await s.generate(s.plain({"request_id": id}))).ok)

    async def idle() -> bool:
        now = await _running(s)
        return base is None or now is None or now <= base

    if not await becomes(s, free):
        raise Broken(f"the id of a {how} request stays taken")
    if not await becomes(s, idle):
        raise Broken(f"a {how} request still counts as running")


async def _running(s: Subject) -> int | None:
    call = await s.wire.unary("GetLoad")
    if not call.ok or not call.reply.HasField("running_requests"):
        return None
    return int(call.reply.running_requests)
