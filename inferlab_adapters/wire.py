"""The wire edge: one JSON request in, one JSON response out.

:func:`respond` is the whole of it as a pure function from bytes to bytes.
``inferlab_adapters.program`` puts files, standard streams and exit codes around it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.errors import (
    AdapterError,
    Fault,
    did_you_mean,
    json_type,
    one_of,
    refuse,
    shown,
    typed,
)
from inferlab_adapters.protocol import PlanServeRequest
from inferlab_adapters.strict_json import decode

if TYPE_CHECKING:
    from inferlab_adapters.protocol.answers import AdapterResponse, AdapterResult

PROTOCOL_VERSION: Final = "6"
OPERATIONS = ("plan_serve", "render_serve")

Request = TypeVar("Request", bound=BaseModel)


def respond(raw: bytes, adapter: Adapter, context: Context, source: str = "stdin") -> bytes:
    """Answer one request: bytes of one JSON document in, one line of JSON out.

    Never raises: what is wrong with the request comes back as an ``error`` response, and what
    is wrong with us as one with the code ``internal``, its traceback through ``context.note``.
    """
    try:
        result = _handle(decode(raw, source), adapter, context)
        return _line({"status": "ok", "protocol_version": PROTOCOL_VERSION, "result": result})
    except AdapterError as error:
        if context.refused is not None:
            context.refused(error)
        return _refusal(error)
    except Exception as error:
        import traceback

        context.note(traceback.format_exc().rstrip())
        what = f"{type(error).__name__} in {adapter.name}; this is a fault of the adapter"
        return _refusal(AdapterError("internal", Fault("", what)))


def _handle(document: object, adapter: Adapter, context: Context) -> AdapterResult:
    if not isinstance(document, dict):
        refuse("invalid_request", "", f"the request must be an object, got {json_type(document)}")
    if "protocol_version" in document and document["protocol_version"] != PROTOCOL_VERSION:
        refuse(
            "unsupported_protocol_version",
            "/protocol_version",
            f'must be the string "{PROTOCOL_VERSION}", got {typed(document["protocol_version"])}',
        )
    operation = document.get("operation", "")
    if operation not in OPERATIONS:
        _refuse_operation(document)
    if operation == "render_serve":
        from inferlab_adapters.protocol import RenderServeRequest

        rendered = adapter.render(_validated(RenderServeRequest, document).input, context)
        return {"operation": "render_serve", "output": rendered}
    planned = adapter.plan(_validated(PlanServeRequest, document).input, context)
    return {"operation": "plan_serve", "output": planned}


def _refuse_operation(document: dict[str, object]) -> NoReturn:
    """Which operation it is decides what the rest must be, so nothing else is looked at."""
    if "operation" not in document:
        refuse("invalid_request", "/operation", "is missing", "add it")
    operation = document["operation"]
    legal = f"must be {one_of(map(shown, OPERATIONS))}"
    if isinstance(operation, str):
        hint = did_you_mean(operation, OPERATIONS)
        what = f"{legal}, got {shown(operation)}"
        refuse("unsupported_operation", "/operation", what, hint)
    refuse("invalid_request", "/operation", f"{legal}, got {typed(operation)}")


def _validated(model: type[Request], document: object) -> Request:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        from inferlab_adapters.validation import faults_of

        raise AdapterError("invalid_request", *faults_of(error, model, document)) from None


def _refusal(error: AdapterError) -> bytes:
    return _line(
        {
            "status": "error",
            "protocol_version": PROTOCOL_VERSION,
            "error": {"code": error.code, "message": error.message},
        }
    )


def _line(response: AdapterResponse) -> bytes:
    text = json.dumps(response, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8") + b"\n"
