"""Seen on every call: where failures stand, and what they say."""

from __future__ import annotations

import grpc

from inferlab_adapters.openengine.conformance.check import watch
from inferlab_adapters.openengine.conformance.outcome import Broken
from inferlab_adapters.openengine.conformance.wire import Call, arm, error_name

_STREAMS = ("Generate", "SubscribeKvEvents", "SubscribeRuntimeEvents", "Drain")
_UNARY = (
    "GetModelInfo",
    "GetLoad",
    "Abort",
    "LoadLora",
    "UnloadLora",
    "ListLoras",
    "Embed",
    "Classify",
    "Score",
)
_NO_FAULT = "no request failed after acceptance; that takes a fault inside the engine"
_REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)
# What no repetition of the unchanged request mends.
_FINAL = frozenset(
    {
        "ERROR_CODE_INVALID_ARGUMENT",
        "ERROR_CODE_UNSUPPORTED_FEATURE",
        "ERROR_CODE_ROLE_MISMATCH",
        "ERROR_CODE_MODEL_NOT_FOUND",
    }
)


@watch("G1", _STREAMS)
def refused_by_status(call: Call) -> bool:
    if call.ended != "server":
        return False
    if call.messages and not call.ok and call.error is None and call.code in _REFUSALS:
        raise Broken(f"{call.told()}, after {len(call.messages)} messages")
    if call.expect != "refused":
        return not call.ok and not call.messages
    if call.messages and arm(call.messages[0]) == "error":
        raise Broken(f"a request that cannot be accepted got an event: {call.told()}")
    return not call.ok


@watch("G2", _STREAMS, unseen=_NO_FAULT)
def failed_by_event(call: Call) -> bool:
    if call.ended != "server" or not call.messages:
        return False
    if call.error is not None:
        if not call.ok:
            raise Broken(f"{call.code} came after the error event {error_name(call.error)}")
        return True
    lost = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    if not call.ok and call.code not in _REFUSALS and call.code not in lost:
        raise Broken(f"no error event after {len(call.messages)} messages: {call.told()}")
    return False


@watch("G3", _STREAMS, unseen=_NO_FAULT)
def nothing_after_an_error(call: Call) -> bool:
    arms = [arm(message) for message in call.messages]
    if "error" not in arms:
        return False
    after = len(arms) - 1 - arms.index("error")
    if after:
        raise Broken(f"{after} messages after the error event, the first is {arms[-after]}")
    if call.ended == "deadline":
        raise Broken("the stream stays open after the error event")
    return True


@watch("G4", _STREAMS, unseen="no call was broken off")
def no_made_up_error(call: Call) -> bool:
    # A deadline is not told apart from the server's own way of ending it in time.
    if call.ended == "server":
        return False
    error = call.error
    if error is not None and error_name(error) == "ERROR_CODE_INTERNAL":
        raise Broken(f"a call that we ended got {call.told()}")
    return True


@watch("G5", _UNARY)
def unary_failure_is_a_status(call: Call) -> bool:
    if call.expect != "refused":
        return False
    if call.ok and not call.reply.ByteSize():
        raise Broken(f"{call.method} answers OK and nothing to what must fail")
    return not call.ok


@watch("G7", _STREAMS, unseen="no error event was seen")
def retry_delay_only_where_retryable(call: Call) -> bool:
    error = call.error
    if error is None or "retry_after_ms" not in error.DESCRIPTOR.fields_by_name:
        return False
    if error.HasField("retry_after_ms") and not error.retryable:
        raise Broken(f"{call.told()}: retry_after_ms={error.retry_after_ms}, not retryable")
    return True


@watch("G8", _STREAMS, unseen="no error event had details")
def details_are_namespaced(call: Call) -> bool:
    error = call.error
    if error is None or "details" not in error.DESCRIPTOR.fields_by_name:
        return False
    keys = list(error.details.fields)
    for key in keys:
        if "." not in key and "/" not in key:
            raise Broken(f"the details key {key!r} has no namespace")
    return bool(keys)


@watch("G9", _STREAMS, unseen="no error event was seen whose retry is certain")
def retryable_is_true_to_the_code(call: Call) -> bool:
    error = call.error
    if error is None:
        return False
    name = error_name(error)
    if name in _FINAL and error.retryable:
        raise Broken(f"{name} is retryable")
    if name == "ERROR_CODE_OVERLOADED" and not error.retryable:
        raise Broken(f"{name} is not retryable")
    return name in _FINAL or name == "ERROR_CODE_OVERLOADED"
