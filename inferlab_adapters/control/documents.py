"""Files that people write, JSON, YAML or TOML, read to the plain data of one JSON object.

Whatever two readers could understand differently is refused, as on the wire: keys given twice,
values that JSON cannot hold (dates, NaN, keys that are no text), other encodings than UTF-8.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from inferlab_adapters import strict_json
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import AdapterError, Fault, pointer, typed

MAX_BYTES = 1 << 20
"""No file that a person wrote is longer, in bytes; of YAML ``yaml_text`` reads less."""

STDIN = "-"
_CHECK = "check that it is the file you mean"
_BYTE_ORDER_MARK = "\ufeff"


def read(file: str, *, stdin: BinaryIO) -> Json:
    """The object in ``file``, or in ``stdin`` where ``file`` is ``-``.

    The suffix ``.json``, ``.yaml``, ``.yml`` or ``.toml`` says what it is; of anything else, text
    that begins with ``{`` is JSON and other text YAML. Raises :class:`Refused` with the line
    where the reader knows it.
    """
    try:
        text = _text(_bytes(file, stdin))
        document = _reader(Path(file).suffix.lower(), text)(text)
    except AdapterError as error:
        raise Refused(*error.faults, source=label(file)) from None
    except _Unusable as error:
        raise Refused(error.fault, source=label(file)) from None
    if not isinstance(document, dict):
        what = f"must be an object, got {typed(document)}"
        raise Refused(Fault("", what), source=label(file))
    return document


def label(file: str) -> str:
    """What messages call a file."""
    return "stdin" if file == STDIN else file


class _Unusable(Exception):
    def __init__(self, what: str, hint: str = "", where: str = "") -> None:
        super().__init__(what)
        self.fault = Fault(where, what, hint)


def _bytes(file: str, stdin: BinaryIO) -> bytes:
    try:
        if file == STDIN:
            raw = stdin.read(MAX_BYTES + 1)
        else:
            with open(file, "rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _Unusable(f"cannot be read ({error.strerror})", _CHECK) from None
    except ValueError:
        raise _Unusable("is no name of a file", _CHECK) from None
    if len(raw) > MAX_BYTES:
        raise _Unusable("is over 1 MiB", _CHECK)
    return raw


def _text(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"line {line}: is not UTF-8 (byte 0x{raw[error.start]:02x})"
        raise _Unusable(what, "save it as UTF-8") from None
    if text.startswith(_BYTE_ORDER_MARK):
        raise _Unusable("begins with a byte order mark", "save it as UTF-8 without one")
    if not text.strip():
        raise _Unusable("is empty", _CHECK)
    return text


def _reader(suffix: str, text: str) -> Callable[[str], object]:
    by_suffix = {".json": _json, ".yaml": _yaml, ".yml": _yaml, ".toml": _toml}
    return by_suffix.get(suffix) or (_json if text.lstrip().startswith("{") else _yaml)


def _json(text: str) -> object:
    return strict_json.decode(text.encode(), "the text")


def _yaml(text: str) -> object:
    from inferlab_adapters import yaml_text

    try:
        # The reader keeps what it gave and gives it again.
        return copy.deepcopy(yaml_text.read(text))
    except yaml_text.Unreadable as error:
        raise _Unusable(error.what, error.hint) from None


def _toml(text: str) -> object:
    import tomllib

    from inferlab_adapters.protocol._setting_value import find_fault

    try:
        document = tomllib.loads(text)
        fault = find_fault(document)
    except tomllib.TOMLDecodeError as error:
        raise _Unusable(f"is not TOML: {error}") from None
    except ValueError:
        # All that is left: Python reads no integer of thousands of digits.
        raise _Unusable("holds an integer of thousands of digits") from None
    except RecursionError:
        raise _Unusable("is nested too deep") from None
    if fault is not None:
        path, reason = fault
        raise _Unusable(reason, "quote it if it is text", pointer("", *path))
    return document
