"""The shortest text that a regular expression matches, for guided decoding in tests."""

from __future__ import annotations

import re
from re import _constants as names  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any


def shortest_match(pattern: str) -> str:
    """A short match; :class:`ValueError` for a pattern that is none."""
    try:
        return _sequence(parser.parse(pattern))
    except re.error as error:
        raise ValueError(f"is not a regular expression ({error})") from None


def _sequence(tree: Any) -> str:
    return "".join(_piece(op, argument) for op, argument in tree)


def _piece(op: Any, argument: Any) -> str:
    if op is names.LITERAL:
        return chr(argument)
    if op is names.ANY:
        return "a"
    if op is names.IN:
        return _member(argument)
    if op in (names.MAX_REPEAT, names.MIN_REPEAT):
        low, _, tree = argument
        return _sequence(tree) * int(low)
    if op is names.SUBPATTERN:
        return _sequence(argument[-1])
    if op is names.BRANCH:
        return _sequence(argument[1][0])
    if op is names.AT:
        return ""
    raise ValueError(f"has {op}, which is not supported")


def _member(items: Any) -> str:
    op, argument = items[0]
    if op is names.LITERAL:
        return chr(argument)
    if op is names.RANGE:
        return chr(argument[0])
    if op is names.CATEGORY:
        return {names.CATEGORY_DIGIT: "0", names.CATEGORY_SPACE: " "}.get(argument, "a")
    raise ValueError("has a negated set, which is not supported")
