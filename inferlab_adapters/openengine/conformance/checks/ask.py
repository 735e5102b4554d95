"""What checks say of answers, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc

from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Metadata

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED


def must_refuse(call: Call, what: str, *codes: grpc.StatusCode) -> None:
    """Raise Broken unless the server refused; with one of ``codes``, where there are some."""
    if not call.refused:
        raise Broken(f"{what} is not refused: {call.told()}")
    # An error event in place of the status is broken too, by another rule.
    if codes and call.code not in (*codes, grpc.StatusCode.OK):
        names = " or ".join(code.name for code in codes)
        raise Broken(f"{what}: not {names} but {call.told()}")


def must_answer(call: Call) -> Any:
    """The answer of a unary call; raises Broken where there is none."""
    if not call.ok:
        raise Broken(call.told())
    return call.reply


def answer(call: Call) -> Any:
    """The answer of a unary call that a check needs; raises Skip where there is none."""
    if not call.ok:
        raise Skip(f"the call that it needs failed: {call.told()}")
    return call.reply


async def refuse(
    s: Subject, what: str, changes: Mapping[str, Any], *, metadata: Metadata = ()
) -> Call:
    """A Generate request that must be refused; raises Broken where it is not."""
    call = await s.generate(s.plain(changes), expect="refused", metadata=metadata)
    must_refuse(call, what)
    return call


def serves(call: Call, what: str) -> None:
    """Raise Skip where the server does not serve a call."""
    if call.code is UNIMPLEMENTED:
        raise Skip(f"the server does not serve {what}")
