"""Setting values against an option: is the value legal, and which tokens express it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from inferlab_adapters.catalogue import Option
from inferlab_adapters.errors import did_you_mean, json_type, one_of, shown

SettingMap: TypeAlias = Mapping[str, Any]
"""Settings as they stand in JSON: names to booleans, numbers, strings, arrays, objects."""

_HUMAN_INT = re.compile(r"-?\d+(\.\d+)?[kKmMgGtT]?$")
_SHAPES: dict[str, type] = {"object": dict, "array": list}


def problem(option: Option, value: Any) -> str | None:
    """Why ``value``, a JSON value, is not legal for ``option``; ``None`` if it is."""
    if option.kind in ("switch", "negatable"):
        return None if isinstance(value, bool) else f"must be true or false, got {shown(value)}"
    if option.kind == "json":
        return _json_problem(option, value)
    if option.kind == "list":
        if not isinstance(value, list):
            return f"must be an array of {_plural(option.type)}, got {shown(value)}"
        if not value:
            return "must not be an empty array"
        return next(filter(None, (_item_problem(option, item) for item in value)), None)
    if value is True and option.optional_value:
        return None
    if option.json and isinstance(value, dict | list):
        return None
    return _scalar_problem(option, value)


def text_problem(option: Option, text: str) -> str | None:
    """Why ``text``, a command line token, is not legal as a value of ``option``."""
    if option.none and text in ("None", ""):
        return None if text else "must not be empty: the engine would read it as None"
    if option.kind == "json":
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return f"must be JSON, got {shown(text)}"
        return _json_problem(option, value)
    if option.type in ("int", "float"):
        try:
            number: Any = int(text) if option.type == "int" else float(text)
        except ValueError:
            return f"must be {_singular(option.type)}, got {shown(text)}"
        if not math.isfinite(number):
            return f"must be a finite number, got {shown(text)}"
        return _choice_problem(option, str(number))
    return _scalar_problem(option, text)


def tokens(option: Option, value: Any) -> list[str]:
    """The command line tokens that set ``option`` to ``value``; ``value`` must be legal.

    A value that begins with ``-`` is written ``--name=value``, so that no parser takes it for
    an option. Objects become one compact JSON token with sorted keys. A ``false`` for a
    switch without a negative form is what the absent switch already says: no token.
    """
    flag = option.names[0]
    if option.kind == "switch":
        return [flag] if value else []
    if option.kind == "negatable":
        return [flag if value else option.off]
    if option.kind == "list":
        texts = [text_of(item) for item in value]
        if option.repeats:
            return [token for text in texts for token in _pair(flag, text)]
        return [flag, *texts]
    if value is True and option.optional_value:
        return [flag]
    if option.kind == "json" or isinstance(value, dict | list):
        return _pair(flag, compact_json(value))
    return _pair(flag, text_of(value))


def compact_json(value: Any) -> str:
    """JSON in one token, keys sorted, the same bytes for the same value."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def text_of(value: Any) -> str:
    """A scalar as the text a command line or an environment variable holds."""
    return value if isinstance(value, str) else json.dumps(value)


def _pair(flag: str, text: str) -> list[str]:
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _item_problem(option: Option, item: Any) -> str | None:
    found = _scalar_problem(option, item)
    starts = text_of(item).startswith("-") and not isinstance(item, int)
    if found is None and starts and not option.repeats:
        return f"the item {shown(item)} would be read as an option"
    return found


def _json_problem(option: Option, value: Any) -> str | None:
    wanted = _SHAPES.get(option.shape)
    if wanted and not isinstance(value, wanted):
        article = "an" if option.shape in ("object", "array") else "a"
        return f"must be {article} {option.shape}, got {shown(value)}"
    return None


def _scalar_problem(option: Option, value: Any) -> str | None:
    if option.none and value in ("None", ""):
        return None if value else "must not be empty: the engine would read it as None"
    if not _type_matches(option.type, value):
        got = shown(value) if value is not None else json_type(value)
        return f"must be {_singular(option.type)}, got {got}"
    return _choice_problem(option, text_of(value))


def _type_matches(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if kind == "int":
        return isinstance(value, int)
    if kind == "float":
        return isinstance(value, int | float)
    if kind.startswith("human_int"):
        if kind.endswith("auto") and value == "auto":
            return True
        return isinstance(value, int) or (isinstance(value, str) and bool(_HUMAN_INT.match(value)))
    return isinstance(value, str)


def _choice_problem(option: Option, text: str) -> str | None:
    if not option.choices or text in option.choices:
        return None
    hint = did_you_mean(text, option.choices)
    legal = one_of(option.choices)
    return f"must be {legal}, got {shown(text)}" + (f", {hint}" if hint else "")


def _singular(kind: str) -> str:
    return {
        "int": "an integer",
        "float": "a number",
        "human_int": "an integer or a text such as 4k or 1.5M",
        "human_int_or_auto": 'an integer, a text such as 4k, or "auto"',
    }.get(kind, "a string")


def _plural(kind: str) -> str:
    return {"int": "integers", "float": "numbers"}.get(kind, "strings")
