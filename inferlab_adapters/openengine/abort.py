"""Abort: one request, what reads or holds a KV session, or everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from inferlab_adapters.errors import shown
from inferlab_adapters.openengine.engine import EngineFault, KvSession, Role
from inferlab_adapters.openengine.errors import invalid
from inferlab_adapters.openengine.state import ServerState


class Aborted(NamedTuple):
    """``done`` False: it had ended before."""

    done: bool
    message: str = ""


async def abort_request(state: ServerState, request_id: str) -> Aborted:
    """End a request. Raises ``request_not_found`` for one that never was, or too long ago."""
    if not request_id:
        raise invalid("request_id: is empty; name the request, or use all_requests")
    entry = state.registry.find(request_id)
    if entry is not None:
        await state.registry.abort(entry)
        return Aborted(True)
    if state.registry.finished(request_id):
        return Aborted(False, "the request has ended")
    raise EngineFault("request_not_found", f"request_id: there is no request {shown(request_id)}")


async def abort_all(state: ServerState) -> Aborted:
    """End every request in flight."""
    count = await state.registry.abort_all()
    return Aborted(count > 0, f"{count} requests were in flight")


async def abort_session(state: ServerState, session: KvSession) -> Aborted:
    """End what reads a session, and free what it holds here.

    Raises ``kv_session_not_found`` for one that was never here. The engine gets the session as it
    was given out, never as a client spells it.
    """
    name = session.session_id
    if not name:
        raise invalid("kv_session.session_id: is empty; send the session of PrefillReady")
    readers = state.registry.of_session(name)
    for entry in readers:
        await state.registry.abort(entry)
    issued = state.issued.find(name)
    if issued is not None:
        try:
            await state.engine.abort_session(issued)
        except EngineFault as fault:
            if fault.code != "kv_session_not_found":
                raise
            state.issued.end(name)
            return Aborted(False, "the session has ended")
        state.issued.end(name)
        return Aborted(True)
    if readers:
        return Aborted(True)
    if state.issued.ended(name) or (state.role is Role.DECODE and state.seal.used(session)):
        return Aborted(False, "the session has ended")
    raise EngineFault("kv_session_not_found", f"kv_session: there is no session {shown(name)}")


async def free_sessions(
    state: ServerState, log: Callable[[KvSession, EngineFault], None]
) -> Sequence[KvSession]:
    """Free every session that was given out here and not fetched; those that were freed."""
    freed = []
    for session in state.issued.all():
        try:
            await state.engine.abort_session(session)
        except EngineFault as fault:
            if fault.code != "kv_session_not_found":
                log(session, fault)
                continue
        else:
            freed.append(session)
        state.issued.end(session.session_id)
    return freed
