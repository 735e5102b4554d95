"""Bytes to one JSON document, refusing everything that two readers could understand differently.

Refused: more than 64 MiB, other encodings than UTF-8, a byte order mark, a second document,
nesting over 100 levels, a key given twice, NaN and infinities, numbers that overflow a double,
escapes that are no Unicode text. Every refusal says which and where.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from inferlab_adapters.errors import pointer, refuse

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
        _refuse_depth(source)
    if (b"\\ud" in raw or b"\\uD" in raw) and not is_unicode(json.dumps(document, **_AS_IS)):
        _locate(text, source)
    return document


_AS_IS: dict[str, Any] = {"ensure_ascii": False}


def _parse(text: str, source: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        _refuse_syntax(text, source, error)
    except RecursionError:
        _refuse_depth(source)
    except (_Ambiguous, ValueError):
        # A ValueError alone is an integer of more digits than Python reads.
        _locate(text, source)


class _Ambiguous(Exception):
    """Something JSON readers disagree about; a second pass finds where."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Ambiguous
    return members


def _finite(text: str) -> float:
    number = float(text)
    if number in _INFINITIES:
        raise _Ambiguous
    return number


def _constant(text: str) -> NoReturn:
    raise _Ambiguous


_INFINITIES = (float("inf"), float("-inf"))
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant
)


class _Pairs(list[tuple[str, Any]]):
    """An object with its keys as written, doubled ones included."""


class _Number(str):
    """A number as written."""


def _locate(text: str, source: str) -> NoReturn:
    """Refuse a document that the first pass found ambiguous, with the place of the fault."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_Number
    )
    try:
        stack: list[tuple[str, Any]] = [("", decoder.decode(text))]
    except json.JSONDecodeError as error:
        _refuse_syntax(text, source, error)
    except RecursionError:
        _refuse_depth(source)
    while stack:
        where, value = stack.pop()
        if isinstance(value, _Number):
            _check_number(str(value), where)
        elif isinstance(value, str):
            _check_text(value, where)
        elif isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, _ in value:
                _check_text(key, pointer(where, key))
                if key in seen:
                    _refuse("the key is given twice", "keep one", pointer(where, key))
                seen.add(key)
            stack += [(pointer(where, key), item) for key, item in reversed(value)]
        elif isinstance(value, list):
            items = [(pointer(where, index), item) for index, item in enumerate(value)]
            stack += reversed(items)
    raise AssertionError("the first pass found a fault that the second did not")


def _check_number(text: str, where: str) -> None:
    if text.lstrip("-").isdigit():
        try:
            int(text)
        except ValueError:
            _refuse("an integer of thousands of digits fits nowhere", "", where)
    elif text in ("NaN", "Infinity", "-Infinity") or float(text) in _INFINITIES:
        _refuse(f"{text} is not a finite number", "", where)


def _check_text(text: str, where: str) -> None:
    if not is_unicode(text):
        _refuse("holds an escaped lone surrogate, which is no Unicode text", "", where)


def is_unicode(text: str) -> bool:
    """Whether a text holds no lone surrogate, so that it can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


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


def _refuse_depth(source: str) -> NoReturn:
    _refuse(f"{source} is nested over {MAX_DEPTH} levels deep")


def _refuse_syntax(text: str, source: str, error: json.JSONDecodeError) -> NoReturn:
    where = f"line {error.lineno} column {error.colno}"
    if "\n" not in text.strip():
        where = f"column {error.colno}"
    if error.msg == "Extra data":
        _refuse(f"{source} holds a second document at {where}", "send one request")
    _refuse(f"{source} is not JSON ({error.msg.removesuffix(' at')} at {where})")


def _refuse(what: str, hint: str = "", where: str = "") -> NoReturn:
    refuse("invalid_request", where, what, hint)
