"""From a fault to what a client sees: a gRPC status before acceptance, an EngineError after it."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

import grpc

from inferlab_adapters.openengine.engine import Code, EngineFault
from inferlab_adapters.openengine.revisions import Revision

_log = logging.getLogger(__name__)

STATUS: dict[Code, grpc.StatusCode] = {
    "invalid_argument": grpc.StatusCode.INVALID_ARGUMENT,
    "unsupported_feature": grpc.StatusCode.INVALID_ARGUMENT,
    "role_mismatch": grpc.StatusCode.FAILED_PRECONDITION,
    "model_not_found": grpc.StatusCode.NOT_FOUND,
    "overloaded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "request_not_found": grpc.StatusCode.NOT_FOUND,
    "duplicate_request": grpc.StatusCode.ALREADY_EXISTS,
    "kv_session_not_found": grpc.StatusCode.NOT_FOUND,
    "kv_transfer_failed": grpc.StatusCode.FAILED_PRECONDITION,
    "cancelled": grpc.StatusCode.CANCELLED,
    "draining": grpc.StatusCode.UNAVAILABLE,
    "internal": grpc.StatusCode.INTERNAL,
    "not_ready": grpc.StatusCode.UNAVAILABLE,
    "already_exists": grpc.StatusCode.ALREADY_EXISTS,
    "not_found": grpc.StatusCode.NOT_FOUND,
    "failed_precondition": grpc.StatusCode.FAILED_PRECONDITION,
    "unimplemented": grpc.StatusCode.UNIMPLEMENTED,
}

# Codes for which EngineError has no value of their own name.
_OTHER_NAMES: dict[Code, str] = {
    "not_ready": "INTERNAL",
    "already_exists": "DUPLICATE_REQUEST",
    "not_found": "REQUEST_NOT_FOUND",
    "failed_precondition": "UNSUPPORTED_FEATURE",
    "unimplemented": "UNSUPPORTED_FEATURE",
}

_MAX_DETAILS = 2000
"""Characters of a status message: it travels in a header, of which peers take some 8 KiB."""


def invalid(message: str) -> EngineFault:
    """A refusal of what the client sent."""
    return EngineFault("invalid_argument", message)


def unexpected(error: BaseException) -> EngineFault:
    """A bug, here or in a backend: logged with its traceback, told to the client by its kind."""
    _log.error("unexpected error", exc_info=error)
    return EngineFault("internal", f"the server failed unexpectedly ({type(error).__name__})")


async def refuse(context: Any, fault: EngineFault) -> NoReturn:
    """End a call with the status of a fault, before anything was accepted."""
    message = fault.message
    if len(message) > _MAX_DETAILS:
        message = f"{message[: _MAX_DETAILS - 1]}…"
    await context.abort(STATUS[fault.code], message)
    raise AssertionError("abort returned")


def fill_error(message: Any, fault: EngineFault, revision: Revision) -> None:
    """Write a fault into an EngineError message of a revision."""
    values = revision.enum("ErrorCode")
    name = f"ERROR_CODE_{_OTHER_NAMES.get(fault.code, fault.code.upper())}"
    if name not in values.keys():  # noqa: SIM118 - the wrapper of an enum is no mapping
        # v0.1.0 knows no draining: what it ends is cancelled.
        name = "ERROR_CODE_CANCELLED"
    message.code = values.Value(name)
    message.message = fault.message
    message.retryable = fault.retryable
    wait = fault.retry_after_ms
    if fault.retryable and wait is not None and hasattr(message, "retry_after_ms"):
        message.retry_after_ms = wait
