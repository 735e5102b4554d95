"""Faults: what is wrong, where, and what to do, in one line each.

Every refusal of an adapter is an :class:`AdapterError` that carries one or more
:class:`Fault`. A fault names the place as a JSON pointer (RFC 6901) into the request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, NoReturn

ErrorCode = Literal[
    "invalid_request",
    "unsupported_protocol_version",
    "invalid_settings",
    "internal",
    "unsupported_operation",
]

SHOWN_FAULTS = 5
_VALUE_WIDTH = 80


class Fault(NamedTuple):
    """One thing that is wrong.

    ``pointer`` is a JSON pointer, empty for the whole document; ``what`` says what is
    wrong there, ``hint`` what to do about it (may be empty).
    """

    pointer: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.pointer}: " if self.pointer else ""
        text = f"{where}{self.what}; {self.hint}" if self.hint else f"{where}{self.what}"
        return _one_line(text)


class AdapterError(Exception):
    """A structured refusal: the wire error code and the faults behind it, worst first."""

    def __init__(self, code: ErrorCode, *faults: Fault) -> None:
        super().__init__(code, *faults)
        self.code: ErrorCode = code
        self.faults = faults

    @property
    def message(self) -> str:
        """The faults joined to one line; beyond the first five only their number is given."""
        shown = [str(fault) for fault in self.faults[:SHOWN_FAULTS]]
        rest = len(self.faults) - len(shown)
        if rest:
            shown.append(f"and {rest} more")
        return " | ".join(shown)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Faults:
    """Collects faults so that one answer names all of them."""

    def __init__(self, code: ErrorCode) -> None:
        self._code = code
        self._found: dict[Fault, None] = {}

    def add(self, pointer: str, what: str, hint: str = "") -> None:
        """Record one fault; the same fault twice counts once."""
        self._found.setdefault(Fault(pointer, what, hint))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Record faults that were found elsewhere."""
        for fault in faults:
            self.add(fault.pointer, fault.what, fault.hint)

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self, *more: Faults) -> None:
        """Raise what was collected here and in ``more``, under the code of the first."""
        collected = [faults for faults in (self, *more) if faults]
        if collected:
            found = dict.fromkeys(fault for faults in collected for fault in faults._found)
            raise AdapterError(collected[0]._code, *found)


def refuse(code: ErrorCode, pointer: str, what: str, hint: str = "") -> NoReturn:
    """Raise an :class:`AdapterError` with one fault."""
    raise AdapterError(code, Fault(pointer, what, hint))


def pointer(base: str, *parts: str | int) -> str:
    """Extend a JSON pointer, escaping ``~`` and ``/`` in keys."""
    tail = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "/".join([base, *tail])


def shown(value: Any) -> str:
    """A value as JSON, shortened so that an error stays one readable line."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _VALUE_WIDTH else f"{text[: _VALUE_WIDTH - 1]}…"


def typed(value: Any) -> str:
    """A value with the JSON name of its type, for messages about a wrong type."""
    return "null" if value is None else f"{json_type(value)} {shown(value)}"


def json_type(value: Any) -> str:
    """The JSON name of a value's type, with its article left to the caller."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def one_of(names: Iterable[object]) -> str:
    """``a``, ``a or b``, ``a, b or c``: for naming the legal values in a message."""
    words = [str(name) for name in names]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} or {words[-1]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or an empty string when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f'did you mean "{near[0]}"?' if near else ""


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
