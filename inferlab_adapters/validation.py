"""What is wrong with a request that the protocol's models refuse, in our own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from inferlab_adapters.errors import Fault, did_you_mean, one_of, pointer, shown, typed

_WANTED = {
    "string_type": "a string",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_BOUNDS = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}


def faults_of(error: ValidationError, model: type[BaseModel], document: Any) -> list[Fault]:
    """Turn the errors of one failed validation into faults, the worst first.

    A wrong type comes before what is missing, that before what is unknown, and a value out of
    range last: the earlier ones often cause the later.
    """
    ranked = [_fault(dict(details), model, document) for details in error.errors(include_url=False)]
    ranked.sort(key=lambda pair: pair[0])
    return [fault for _, fault in ranked]


def _fault(details: dict[str, Any], model: type[BaseModel], document: Any) -> tuple[int, Fault]:
    kind, loc, context = details["type"], details["loc"], details.get("ctx", {})
    value = details.get("input")
    where = _pointer(loc, document)
    if kind in _WANTED:
        return 0, Fault(where, f"must be {_WANTED[kind]}, got {typed(value)}")
    if kind == "missing":
        return 1, Fault(where, "is missing", "add it")
    if kind == "union_tag_not_found":
        tag = str(context["discriminator"]).strip("'")
        return 1, Fault(pointer(where, tag), "is missing", "add it")
    if kind == "extra_forbidden":
        hint = did_you_mean(str(loc[-1]), _known_fields(model, loc)) or "remove it"
        return 2, Fault(where, "unknown field", hint)
    if kind in ("literal_error", "union_tag_invalid"):
        legal = _quoted(context.get("expected") or context["expected_tags"])
        if kind == "union_tag_invalid":
            tag = str(context["discriminator"]).strip("'")
            where, value = pointer(where, tag), details["input"][tag]
        hint = did_you_mean(value, legal) if isinstance(value, str) else ""
        return 3, Fault(where, f"must be {one_of(map(shown, legal))}, got {typed(value)}", hint)
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return 3, Fault(where, f"must be {words} {context[bound]}, got {shown(value)}")
    if kind == "setting_value":
        return 3, Fault(pointer(where, *context["path"]), context["reason"])
    if kind == "string_unicode":
        return 3, Fault(where, "is not Unicode text")
    return 3, Fault(where, f"is not valid, got {shown(value)}")


def _pointer(loc: Iterable[str | int], document: Any) -> str:
    """The JSON pointer of an error; the tags that a union adds to its path are left out."""
    parts: list[str | int] = []
    node = document
    path = list(loc)
    for index, part in enumerate(path):
        last = index == len(path) - 1
        if isinstance(node, dict) and not last and part in (node.get("kind"), node.get("owner")):
            continue
        if isinstance(node, dict) and part in node:
            node = node[str(part)]
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        parts.append(part)
    return pointer("", *parts)


def _known_fields(model: type[BaseModel], loc: tuple[str | int, ...]) -> set[str]:
    """The fields that exist where an unknown one was found."""
    here: set[type[BaseModel]] = {model}
    for part in loc[:-1]:
        below = {
            inner
            for outer in here
            if isinstance(part, str) and part in outer.model_fields
            for inner in _models(outer.model_fields[part].annotation)
        }
        here = below or here
    return {name for outer in here for name in outer.model_fields}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _quoted(text: str) -> list[str]:
    return re.findall(r"'([^']*)'", text)
