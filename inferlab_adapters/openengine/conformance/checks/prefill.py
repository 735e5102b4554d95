"""Prefill, and what each role refuses."""

from __future__ import annotations

from inferlab_adapters.addresses import host_problem
from inferlab_adapters.openengine.conformance.check import check, watch
from inferlab_adapters.openengine.conformance.checks.ask import must_refuse
from inferlab_adapters.openengine.conformance.checks.load import large_number
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Proto, Wire, arm

NO_PREFILL = "needs a prefill server"
_STRANGE = {
    "session_id": "conformance-no-such-session",
    "transfer_backend": "conformance",
    "endpoints": [{"host": "127.0.0.1", "port": 9, "protocol": "tcp"}],
}


@check("P1")
async def prefill_ends_ready(s: Subject) -> None:
    call = await _prefill(s).stream("Generate", s.plain(), expect="served")
    arms = [arm(message) for message in call.messages]
    if call.error is not None:
        raise Skip(f"the prefill failed: {call.told()}")
    if "token" in arms or "finished" in arms:
        raise Broken("a prefill server sent output")
    if arms.count("prefill_ready") != 1 or arms[-1] != "prefill_ready" or not call.ok:
        raise Broken(f"{arms.count('prefill_ready')} PrefillReady in {arms}: {call.told()}")


@check("P2")
async def session_is_named(s: Subject) -> None:
    _prefill(s)
    session = await s.session()
    if not session.session_id:
        raise Broken("PrefillReady has no session_id")
    if not session.transfer_backend:
        raise Broken("PrefillReady has no transfer_backend")


@check("R6")
async def another_role_is_refused(s: Subject) -> None:
    await _wrong_role(s)


@check("P4")
async def roles_refuse_each_other(s: Subject) -> None:
    await _wrong_role(s)
    if s.peer is None:
        return
    peer_decodes = s.role == "prefill"
    kv = {} if peer_decodes else {"kv": {"session": _STRANGE}}
    call = await s.peer.stream("Generate", s.plain(kv), expect="refused")
    must_refuse(call, "a request of another role, by the peer,")


async def _wrong_role(s: Subject) -> None:
    if s.role == "decode":
        call = await s.wire.stream("Generate", s.plain(), expect="refused")
        must_refuse(call, "a request without a session, by a decode server,")
        return
    session = {"kv": {"session": _STRANGE}}
    call = await s.wire.stream("Generate", s.plain(session), expect="refused")
    # An aggregated server may be able to attach; then this session does not exist.
    must_refuse(call, f"a session, by a server of the role {s.role},")


@watch("P6", unseen="no prefill failed after acceptance; that takes a fault inside the engine")
def failed_prefill(call: Call) -> bool:
    arms = [arm(message) for message in call.messages]
    if "error" in arms and "prefill_ready" in arms:
        raise Broken(f"a failed prefill sent {arms}")
    return arms == ["error"] and call.ok and call.expect == "served"


@watch("P8", unseen="no session was seen")
def attributes_survive(call: Call) -> bool:
    session = _session(call)
    if session is None:
        return False
    for name, value in session.attributes_struct.fields.items():
        if large_number(value):
            raise Broken(f"attribute {name} has a number beyond 2**53, not a string")
    return True


@watch("P9", unseen="no session was seen")
def endpoints_can_be_reached(call: Call) -> bool:
    session = _session(call)
    if session is None:
        return False
    for endpoint in session.endpoints:
        problem = host_problem(endpoint.host)
        if problem is not None:
            raise Broken(f"a session's endpoint: {problem[0]}")
    return True


def _session(call: Call) -> Proto | None:
    for message in call.messages:
        if arm(message) == "prefill_ready":
            return message.prefill_ready.kv_session
    return None


def _prefill(s: Subject) -> Wire:
    wire = s.prefill_side
    if wire is None:
        raise Skip(NO_PREFILL)
    return wire
