"""Decode: sessions taken, refused and freed."""

from __future__ import annotations

from collections.abc import Iterator

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import INVALID, UNIMPLEMENTED, must_refuse
from inferlab_adapters.openengine.conformance.checks.metadata import RANK
from inferlab_adapters.openengine.conformance.checks.prefill import NO_PREFILL
from inferlab_adapters.openengine.conformance.checks.running import becomes
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Proto, Wire, arm

NO_PAIR = "needs a prefill and a decode server: --peer"


@check("P3")
async def decode_takes_the_session(s: Subject) -> None:
    call = await _decode(s, await _pair_session(s))
    if call.refused:
        raise Broken(f"a session of the prefill server was not taken: {call.told()}")
    if not any(arm(message) == "token" for message in call.messages):
        raise Broken(f"a session of the prefill server gave no tokens: {call.told()}")


@check("P5")
async def strange_sessions(s: Subject) -> None:
    for what, session in _strange(await _pair_session(s)):
        call = await _decode(s, session, refused=True)
        if call.ended == "deadline":
            raise Broken(f"{what} hangs")
        must_refuse(call, what)


@check("P7")
async def sessions_are_freed(s: Subject) -> None:
    prefill, decode = s.prefill_side, s.decode_side
    if prefill is None or decode is None:
        raise Skip(NO_PAIR)
    base = await _sessions(prefill)
    session = await s.session()
    if await _sessions(prefill) <= base:
        raise Skip("an open session does not show in active_kv_sessions")
    call = await _decode(s, session)
    if call.refused:
        raise Skip(f"the session was not taken: {call.told()}")

    async def free() -> bool:
        return await _sessions(prefill) <= base

    if not await becomes(s, free):
        raise Broken("a session that was used still counts as active")


@check("P10")
async def the_session_decides(s: Subject) -> None:
    session = await _pair_session(s)
    metadata = ((RANK, str(session.dp_rank)),)
    call = await _decode(s, session, metadata)
    if call.refused:
        raise Broken(f"the session's own rank as a routing key: {call.told()}")
    session = await _pair_session(s)
    call = await _decode(s, session, ((RANK, str(session.dp_rank + 1)),), refused=True)
    must_refuse(call, "a routing key of another rank", INVALID)


@check("A7")
async def abort_of_a_session(s: Subject) -> None:
    prefill = s.prefill_side
    if prefill is None:
        raise Skip(NO_PREFILL)
    load = await prefill.unary("GetLoad")
    counted = load.ok and load.reply.HasField("active_kv_sessions")
    base = load.reply.active_kv_sessions if counted else 0
    asked = prefill.message("AbortRequest")
    asked.kv_session.CopyFrom(await s.session())
    call = await prefill.unary("Abort", asked)
    if call.code is UNIMPLEMENTED:
        if prefill is s.wire and s.info.kv_connector.supports_abort_cleanup:
            raise Broken("supports_abort_cleanup is true, and Abort of a session UNIMPLEMENTED")
        return
    if not call.ok:
        raise Broken(f"an open session: {call.told()}")

    async def free() -> bool:
        return not counted or await _sessions(prefill) <= base

    if not await becomes(s, free):
        raise Broken("a session that was aborted still counts as active")


def _strange(session: Proto) -> Iterator[tuple[str, Proto]]:
    def changed() -> Proto:
        made = type(session)()
        made.CopyFrom(session)
        return made

    one = changed()
    one.session_id = "conformance-no-such-session"
    yield "an unknown session", one
    one = changed()
    one.transfer_backend = "conformance"
    yield "a session of another transfer_backend", one
    one = changed()
    one.Clear()
    one.session_id, one.transfer_backend = session.session_id, session.transfer_backend
    yield "a session without endpoints and attributes", one
    yield "an empty session", type(session)()


async def _pair_session(s: Subject) -> Proto:
    if s.prefill_side is None or s.decode_side is None:
        raise Skip(NO_PAIR)
    return await s.session()


async def _decode(
    s: Subject,
    session: Proto,
    metadata: tuple[tuple[str, str], ...] = (),
    *,
    refused: bool = False,
) -> Call:
    """A request with the session. A strange session may also fail once it is accepted."""
    wire = s.decode_side
    assert wire is not None
    message = wire.message("GenerateRequest", s.plain())
    message.kv.session.CopyFrom(session)
    return await wire.stream(
        "Generate", message, expect="any" if refused else "served", metadata=metadata
    )


async def _sessions(wire: Wire) -> int:
    call = await wire.unary("GetLoad")
    if not call.ok or not call.reply.HasField("active_kv_sessions"):
        raise Skip("active_kv_sessions is not reported")
    return int(call.reply.active_kv_sessions)
