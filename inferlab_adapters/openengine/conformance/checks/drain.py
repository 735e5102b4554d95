"""Drains. Those that take no new requests leave the server drained, and come last."""

from __future__ import annotations

import asyncio

from inferlab_adapters.openengine.conformance.check import check, watch
from inferlab_adapters.openengine.conformance.checks.abort import cancelled
from inferlab_adapters.openengine.conformance.checks.ask import must_refuse
from inferlab_adapters.openengine.conformance.checks.running import Running
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip, TooFast
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, arm, enum_name

_ALL = ("Drain",)
_STARTED, _IN_PROGRESS, _COMPLETE = (
    "DRAIN_STATE_STARTED",
    "DRAIN_STATE_IN_PROGRESS",
    "DRAIN_STATE_COMPLETE",
)
_STATES = (_STARTED, _IN_PROGRESS, _COMPLETE)
_NOT_ALLOWED = "leaves the server drained; allow it with --drain"
_WAIT_SECONDS = 0.2
_TOKENS = 1024


@check("D1")
async def idle_drain(s: Subject) -> None:
    call = await s.wire.stream("Drain", {"deadline_ms": int(s.soon * 1000)})
    _served(call)
    states = _states(call)
    if call.error is not None:
        raise Skip(f"the drain failed: {call.told()}")
    if not states or states[0] != _STARTED or states.count(_STARTED) > 1:
        raise Broken(f"the states are {states}")
    if states.count(_COMPLETE) != 1 or states[-1] != _COMPLETE or not call.ok:
        raise Broken(f"the states are {states}: {call.told()}")


@watch("D2", _ALL, unseen="no drain failed; that takes a fault inside the engine")
def failed_drain(call: Call) -> bool:
    arms = [arm(message) for message in call.messages]
    if "error" in arms and (arms.count("error") > 1 or arms[-1] != "error"):
        raise Broken(f"a failed drain sent {arms}")
    return "error" in arms


@watch("D7", _ALL, unseen="the server does not serve drains")
def states_exist(call: Call) -> bool:
    unknown = [state for state in _states(call) if state not in _STATES]
    if unknown:
        raise Broken(f"a drain state is {unknown[0]}")
    return bool(call.messages)


@watch("D6", _ALL, unseen="no drain reported its counts")
def counts_reach_zero(call: Call) -> bool:
    for message in call.messages:
        if arm(message) == "state" and enum_name(message, "state") == _COMPLETE:
            for name in ("in_flight_requests", "open_kv_sessions"):
                # What was cut off at the deadline may still be counted.
                if getattr(message, name) and not call.request.HasField("deadline_ms"):
                    raise Broken(f"complete with {name}={getattr(message, name)}")
            return bool(message.HasField("in_flight_requests"))
    return False


@check("D3", needs="decode")
async def deadlines(s: Subject) -> None:
    request = await Running.start(s)
    waits = s.wire.open("Drain")
    reading = asyncio.create_task(waits.rest())
    try:
        await asyncio.wait([reading], timeout=min(_WAIT_SECONDS, s.soon))
        _served(waits.call)
        if reading.done() and waits.call.error is None and not request.ended:
            raise Broken(f"a drain without a deadline did not wait: {_states(waits.call)}")
        if request.ended:
            raise TooFast
        at_once = await s.wire.stream("Drain", {"deadline_ms": 0})
        if request.ended:
            raise TooFast
        if at_once.ended == "deadline":
            raise Broken("a drain with deadline_ms=0 waits")
    finally:
        waits.cancel()
        await asyncio.wait([reading])
        await request.stop()


@check("D4", needs="decode")
async def abort_at_the_deadline(s: Subject) -> None:
    request = await Running.start(s)
    try:
        call = await s.wire.stream("Drain", {"deadline_ms": 0, "abort_after_deadline": True})
        _served(call)
        if call.ended == "deadline":
            raise Broken("a drain that may abort does not end")
        left = not request.ended or cancelled(request.call)
        async with asyncio.timeout(s.soon):
            await asyncio.shield(request.end())
    except TimeoutError:
        raise Broken("a request runs on after the drain's deadline") from None
    finally:
        await request.stop()
    if not left:
        raise TooFast
    if not cancelled(request.call):
        raise Broken("a request ran to its end after the drain's deadline")


@check("D5", needs="decode")
async def no_new_requests(s: Subject) -> None:
    if not s.allowed.drain:
        raise Skip(_NOT_ALLOWED)
    count = min(_TOKENS, s.max_output)
    request = await Running.start(s, {"stopping": {"max_tokens": count, "min_tokens": count}})
    drain = s.wire.open("Drain", {"stop_accepting_new_requests": True})
    try:
        await drain.next()
        _served(drain.call)
        s.drain_health = await s.wire.unary("Health")
        call = await s.generate(s.plain(), expect="refused")
        if request.ended:
            raise TooFast
        must_refuse(call, "a request during a drain")
        done = await request.end()
        await drain.rest()
    finally:
        await request.stop()
        drain.cancel()
    if done.ended == "deadline":
        raise Skip("requests take too long here to be awaited")
    if not done.ok or done.error is not None:
        raise Broken(f"a request that ran when the drain began: {done.told()}")


@check("H5", needs="decode")
async def health_of_a_drain(s: Subject) -> None:
    call = s.drain_health
    if call is None:
        raise Skip(_NOT_ALLOWED)
    if not call.ok:
        raise Broken(call.told())
    state = enum_name(call.reply, "state")
    if state != "HEALTH_STATE_DRAINING":
        raise Broken(f"during a drain the state is {state}")


def _served(call: Call) -> None:
    if call.refused:
        raise Skip(f"the server does not drain: {call.told()}")


def _states(call: Call) -> list[str]:
    return [enum_name(message, "state") for message in call.messages if arm(message) == "state"]
