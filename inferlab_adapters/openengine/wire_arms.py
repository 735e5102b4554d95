"""Which arms of a oneof were sent: protobuf parsers keep the last and say nothing of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def arms(raw: bytes, numbers: Collection[int]) -> set[int]:
    """Those of the field numbers that occur in a message."""
    return {number for number, _, _ in _fields(raw) if number in numbers}


def inner(raw: bytes, number: int) -> Iterator[bytes]:
    """Every occurrence of a field that holds a message."""
    for found, start, end in _fields(raw):
        if found == number:
            yield raw[start:end]


def _fields(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of each field, as far as the bytes are a message without groups."""
    position, size = 0, len(raw)
    while position < size:
        tag, position = _varint(raw, position)
        kind, start = tag & 7, position
        if kind == _VARINT:
            _, position = _varint(raw, position)
        elif kind == _BYTES:
            length, start = _varint(raw, position)
            position = start + length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            return
        yield tag >> 3, start, position


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in raw[position : position + 10]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, position
