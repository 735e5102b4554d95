"""``google.protobuf.Struct`` and plain JSON data, both ways.

The fields of Struct are written and read one by one: what protobuf adds to its own Struct class
differs between its versions, and ours comes from a revision's pool.

Numbers of a Struct are doubles. Integers above 2**53 therefore travel as strings, and a whole
number comes back as an integer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""None, bool, int, float, str, a list or a dictionary with string keys of such."""

EXACT = 2**53
"""Up to here, a double holds every integer."""

MAX_DEPTH = 25
"""How deep data may be nested: parsers stop at 100 messages, and a level here takes three."""


def settled(data: Json, *, depth: int = MAX_DEPTH) -> Json:
    """What the data are once they have travelled in a Struct: what both ends can compare and sign.

    Raises ValueError where a Struct cannot hold them: a number that is not finite, a key that is
    no string, a value that is no JSON, deeper nesting than ``MAX_DEPTH``.
    """
    if data is None or isinstance(data, bool | str):
        return data
    if isinstance(data, int):
        return data if abs(data) <= EXACT else str(data)
    if isinstance(data, float):
        return _number(data)
    if depth == 0:
        raise ValueError(f"data nested more than {MAX_DEPTH} deep do not fit into a Struct")
    if isinstance(data, Mapping):
        for key in data:
            if not isinstance(key, str):
                raise ValueError(f"keys of a Struct are strings, not {type(key).__name__}")
        return {key: settled(value, depth=depth - 1) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [settled(value, depth=depth - 1) for value in data]
    raise ValueError(f"a Struct holds JSON data, not {type(data).__name__}")


def fill(struct: Any, data: Mapping[str, Json]) -> None:
    """Write ``data`` into an empty Struct message; it counts as present even if it is empty.

    Raises ValueError as :func:`settled` does, and then has written nothing.
    """
    checked = settled(data)
    struct.SetInParent()
    _fill_fields(struct, checked)


def plain(struct: Any) -> dict[str, Json]:
    """The data of a Struct message. Raises ValueError for a number that is not finite.

    A value of no kind, which a peer may send though it should not, is taken as null.
    """
    return {key: _plain_value(value) for key, value in struct.fields.items()}


def _fill_fields(struct: Any, data: dict[str, Json]) -> None:
    for key, value in data.items():
        _fill_value(struct.fields[key], value)


def _fill_value(value: Any, data: Json) -> None:
    if data is None:
        value.null_value = 0
    elif isinstance(data, bool):
        value.bool_value = data
    elif isinstance(data, str):
        value.string_value = data
    elif isinstance(data, int | float):
        value.number_value = data
    elif isinstance(data, dict):
        value.struct_value.SetInParent()
        _fill_fields(value.struct_value, data)
    else:
        value.list_value.SetInParent()
        for item in data:
            _fill_value(value.list_value.values.add(), item)


def _plain_value(value: Any) -> Json:
    kind = value.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    if kind == "number_value":
        return _number(value.number_value)
    if kind == "struct_value":
        return plain(value.struct_value)
    if kind == "list_value":
        return [_plain_value(item) for item in value.list_value.values]
    return getattr(value, kind)


def _number(number: float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"numbers of a Struct are finite, not {number}")
    # A larger whole number stays a double: as an integer it would leave as a string.
    return int(number) if number.is_integer() and abs(number) <= EXACT else number
