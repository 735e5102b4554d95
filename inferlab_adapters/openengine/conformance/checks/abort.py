"""Aborts."""

from __future__ import annotations

import asyncio

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import (
    INVALID,
    NOT_FOUND,
    UNIMPLEMENTED,
    must_answer,
    must_refuse,
    serves,
)
from inferlab_adapters.openengine.conformance.checks.running import Running
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip, TooFast
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import (
    Call,
    Wire,
    arm,
    enum_name,
    error_name,
)

_ABORTED, _FINISHED = "ABORT_STATUS_ABORTED", "ABORT_STATUS_ALREADY_FINISHED"
_STREAMS = 3


@check("A1")
async def no_target(s: Subject) -> None:
    call = await s.wire.unary("Abort", expect="refused")
    serves(call, "aborts")
    must_refuse(call, "an abort without a target", INVALID)


@check("A2")
async def unknown_target(s: Subject) -> None:
    call = await s.wire.unary("Abort", {"request_id": s.new_id()}, expect="refused")
    serves(call, "aborts")
    must_refuse(call, "an abort of an unknown request", NOT_FOUND)
    session = {"session_id": "conformance-no-such-session", "transfer_backend": "conformance"}
    call = await s.wire.unary("Abort", {"kv_session": session}, expect="refused")
    must_refuse(call, "an abort of an unknown session", NOT_FOUND, UNIMPLEMENTED)


@check("A3", needs="decode")
async def running_request(s: Subject) -> None:
    request = await Running.start(s)
    try:
        if request.ended:
            raise TooFast
        status = await _abort(s, request.id)
        if request.ended and not cancelled(request.call):
            raise TooFast
        await _ended(s, request)
    finally:
        await request.stop()
    if status != _ABORTED:
        raise Broken(f"the abort of a running request says {status}")
    _check_ending(request.call)


@check("A4")
async def finished_request(s: Subject) -> None:
    call = await s.served()
    for _ in range(2):
        reply = await s.wire.unary("Abort", {"request_id": call.request.request_id})
        serves(reply, "aborts")
        status = enum_name(must_answer(reply), "status")
        if status != _FINISHED:
            raise Broken(f"the abort of a finished request says {status}")


@check("A5", needs="decode")
async def all_requests(s: Subject) -> None:
    serves(idle := await s.wire.unary("Abort", {"all_requests": {}}), "aborts")
    must_answer(idle)
    running = [await Running.start(s) for _ in range(_STREAMS)]
    try:
        if any(request.ended for request in running):
            raise TooFast
        must_answer(await s.wire.unary("Abort", {"all_requests": {}}))
        left = [request for request in running if not request.ended or cancelled(request.call)]
        if not left:
            raise TooFast
        await asyncio.gather(*(_ended(s, request) for request in left))
    finally:
        for request in running:
            await request.stop()
    for request in left:
        _check_ending(request.call)


@check("A6")
async def no_fake_success(s: Subject) -> None:
    call = await s.wire.unary("Abort", {"request_id": s.new_id()}, expect="refused")
    if call.ok:
        raise Broken("an abort of something that never was is a success")
    if call.code not in (NOT_FOUND, UNIMPLEMENTED):
        raise Skip(f"an abort says neither: {call.told()}")


async def _abort(s: Subject, id: str) -> str:
    wire: Wire = s.wire
    call = await wire.unary("Abort", {"request_id": id})
    serves(call, "aborts")
    return enum_name(must_answer(call), "status")


async def _ended(s: Subject, request: Running) -> None:
    try:
        async with asyncio.timeout(s.soon):
            await asyncio.shield(request.end())
    except TimeoutError:
        raise Broken("the stream of an aborted request goes on") from None


def cancelled(call: Call) -> bool:
    """Whether a stream ended because something cut its request off."""
    return any(
        arm(m) == "error"
        or (arm(m) == "finished" and enum_name(m.finished, "reason") == "FINISH_REASON_CANCELLED")
        for m in call.messages
    )


def _check_ending(call: Call) -> None:
    if not call.ok:
        raise Broken(f"an aborted request's stream: {call.told()}")
    if call.error is not None and error_name(call.error) != "ERROR_CODE_CANCELLED":
        raise Broken(f"an aborted request's stream: {call.told()}")
    if not cancelled(call):
        raise Broken("an aborted request ran to its end")
