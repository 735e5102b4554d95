"""Bytes to one JSON document, refusing everything that two readers could understand differently.

Refused: more than 64 MiB, other encodings than UTF-8, a byte order mark, a second document,
nesting over 100 levels, a key given twice, NaN and infinities, numbers that overflow a double,
escapes that are no Unicode text. Every refusal says which and where.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from inferlab_adapters.errors import AdapterError, Fault, pointer, refuse

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 100


def decode(raw: bytes, source: str) -> Any:
    """Read one document. ``source`` names the input in messages: ``stdin``, ``line 3``, a file.

    Raises :class:`AdapterError` with the code ``invalid_request``.
    """
    if len(raw) > MAX_BYTES:
        _refuse(f"{source} is over 64 MiB", "send one request")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = raw[error.start]
        _refuse(f"{source} is not UTF-8 (byte 0x{bad:02x} at offset {error.start})")
    if text.startswith("\ufeff"):
        _refuse(f"{source} begins with a byte order mark", "remove it")
    if not text.strip(" \t\r\n"):
        _refuse(f"{source} is empty", "send one JSON request")
    document = _parse(text, source)
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _deeper_than(document, MAX_DEPTH):
        _refuse(f"{source} is nested over {MAX_DEPTH} levels deep")
    if b"\\ud" in raw or b"\\uD" in raw:
        _check_surrogates(document, source)
    return document


def _parse(text: str, source: str) -> Any:
    try:
        return _DECODER.decode(text)
    except _Ambiguous:
        raise _located(text) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        if "\n" not in text.strip():
            where = f"column {error.colno}"
        if error.msg == "Extra data":
            _refuse(f"{source} holds a second document at {where}", "send one request")
        _refuse(f"{source} is not JSON ({error.msg} at {where})")
    except RecursionError:
        _refuse(f"{source} is nested over {MAX_DEPTH} levels deep")
    except ValueError:
        # Python reads no integer of more than 4,300 digits.
        _refuse(f"{source} holds an integer with thousands of digits")


class _Ambiguous(Exception):
    """Something JSON readers disagree about; a second pass finds where."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Ambiguous
    return members


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Ambiguous
    return number


def _constant(text: str) -> NoReturn:
    raise _Ambiguous


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant
)


class _Pairs(list[tuple[str, Any]]):
    """An object with its keys as written, doubled ones included."""


class _Number(str):
    """A number as written."""


def _located(text: str) -> Exception:
    """The error for a document that the first pass found ambiguous, with its place."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_Pairs, parse_float=_Number, parse_constant=_Number
    )
    stack: list[tuple[str, Any]] = [("", decoder.decode(text))]
    while stack:
        where, value = stack.pop()
        if isinstance(value, _Number):
            number = str(value)
            if number.lstrip("-")[0] in "NI" or float(number) in (float("inf"), float("-inf")):
                return _error(where, f"{number} is not a finite number")
        elif isinstance(value, _Pairs):
            keys = [key for key, _ in value]
            for key in keys:
                if keys.count(key) > 1:
                    return _error(pointer(where, key), "the key is given twice", "keep one")
            stack += [(pointer(where, key), item) for key, item in reversed(value)]
        elif isinstance(value, list):
            stack += [(pointer(where, index), item) for index, item in enumerate(value)]
    raise AssertionError("the first pass found a fault that the second did not")


def _deeper_than(document: Any, limit: int) -> bool:
    level = [document]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _check_surrogates(document: Any, source: str) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        _refuse(f"{source} holds an escaped lone surrogate, which is no Unicode text")


def _refuse(what: str, hint: str = "") -> NoReturn:
    refuse("invalid_request", "", what, hint)


def _error(where: str, what: str, hint: str = "") -> Exception:
    return AdapterError("invalid_request", Fault(where, what, hint))
