"""Files that people write, read to plain data: three formats, strictly."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from inferlab_adapters import yaml_text
from inferlab_adapters.control import documents
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json

EXPECTED: Json = {
    "model": {"id": "tiny", "path": "./é"},
    "sizes": [1, 2],
    "rate": 0.5,
    "on": True,
}
TEXTS = {
    "json": '{"model": {"id": "tiny", "path": "./é"}, "sizes": [1, 2], "rate": 0.5, "on": true}',
    "yaml": 'model: {id: tiny, path: ./é}\nsizes: [1, 2]\nrate: 0.5\n"on": true\n',
    "toml": 'sizes = [1, 2]\nrate = 0.5\non = true\n[model]\nid = "tiny"\npath = "./é"\n',
}


def read(text: str | bytes, file: str = "-") -> Json:
    raw = text if isinstance(text, bytes) else text.encode()
    if file == "-":
        return documents.read("-", stdin=io.BytesIO(raw))
    Path(file).write_bytes(raw)
    return documents.read(file, stdin=io.BytesIO())


def refusal(text: str | bytes, file: str = "-") -> str:
    with pytest.raises(Refused) as caught:
        read(text, file)
    assert len(caught.value.faults) == 1
    return str(caught.value)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("json", "a.json"),
        ("json", "A.JSON"),
        ("json", "request"),
        ("json", "a.txt"),
        ("json", "-"),
        ("yaml", "a.yaml"),
        ("yaml", "a.YML"),
        ("yaml", "request"),
        ("yaml", "a.b.conf"),
        ("yaml", "-"),
        ("toml", "a.toml"),
    ],
)
def test_the_suffix_or_the_first_letter_says_what_it_is(kind: str, file: str) -> None:
    assert read(TEXTS[kind], file) == EXPECTED


def test_an_indented_brace_is_json_too() -> None:
    assert read(' \n{"a": 1}') == {"a": 1}
    # A suffix wins: this is YAML, and no JSON.
    assert read("{a: 1}", "a.yaml") == {"a": 1}
    assert "is not JSON" in refusal("{a: 1}")


def test_what_is_read_may_be_changed() -> None:
    first = read("a: {b: 1}", "a.yaml")
    first["a"]["b"] = 2
    assert read("a: {b: 1}", "a.yaml") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "file", "message"),
    [
        ('{"a": 1, "a": 2}', "a.json", "a.json: /a: the key is given twice; keep one"),
        ("a: 1\na: 2\n", "a.yaml", "a.yaml: line 2: a is given twice; keep one"),
        ("a = 1\na = 2\n", "a.toml", "a.toml: is not TOML: Cannot overwrite a value (at line 2,"),
        ('{"a": NaN}', "a.json", "a.json: /a: NaN is not a finite number"),
        ("a: .nan\n", "a.yaml", "a.yaml: line 1: a is not a finite number"),
        ("a = [nan]\n", "a.toml", "a.toml: /a/0: is not a finite number"),
        ("a = inf\n", "a.toml", "a.toml: /a: is not a finite number"),
        ("a: 2026-01-01\n", "a.yaml", "a.yaml: line 1: a is of the type timestamp; quote it"),
        ("[a]\n'b/c' = 2026-01-01\n", "a.toml", "a.toml: /a/b~1c: is not JSON but date; quote"),
        ("a = 07:30:00\n", "a.toml", "a.toml: /a: is not JSON but time; quote"),
        ("a: {1: x}\n", "a.yaml", "a.yaml: line 1: a.1 is a key that is no text; quote it"),
        ("a: !thing x\n", "a.yaml", "a.yaml: line 1: a is of the type !thing; quote it"),
        ("a = 9223372036854775808\n", "a.toml", "a.toml: /a: does not fit in 64 signed bits"),
        (f"a = 1{'0' * 5000}\n", "a.toml", "a.toml: holds an integer of thousands of digits"),
        (f"a = {'[' * 5000}\n", "a.toml", "a.toml: is nested too deep"),
        ('{"a": 1,\n}', "a.json", "a.json: the text is not JSON ("),
        ("{", "-", "stdin: the text is not JSON (Expecting property name"),
        ('{"a": 1} {}', "-", "stdin: the text holds a second document at column 10"),
        ("a: 1\n---\nb: 1\n", "-", "stdin: line 2: is not YAML: but found another document"),
        ("a: [1\n", "-", "stdin: line 2: is not YAML: "),
        ("[1]", "a.json", "a.json: must be an object, got array [1]"),
        ("null", "a.json", "a.json: must be an object, got null"),
        ("- 1\n", "a.yaml", "a.yaml: line 1: must be a mapping"),
        ("", "a.yaml", "a.yaml: is empty; check that it is the file you mean"),
        (" \n\t\n", "-", "stdin: is empty; check that it is the file you mean"),
        (b"a: 1\nb: \xe9\n", "a.yaml", "a.yaml: line 2: is not UTF-8 (byte 0xe9); save it as"),
        (b"\xff\xfea\x00", "-", "stdin: line 1: is not UTF-8 (byte 0xff); save it as UTF-8"),
        ("\ufeff{}", "a.json", "a.json: begins with a byte order mark; save it as UTF-8 without"),
    ],
)
def test_what_two_readers_could_understand_differently_is_refused(
    text: str | bytes, file: str, message: str
) -> None:
    assert refusal(text, file).startswith(message)


def test_length_is_bounded_before_anything_is_read() -> None:
    limit = documents.MAX_BYTES
    assert read(b"{" + b" " * (limit - 2) + b"}") == {}
    long = "is over 1 MiB; check that it is the file you mean"
    assert refusal(b"{" + b" " * (limit - 1) + b"}") == f"stdin: {long}"
    assert refusal(b"\xff" * (limit + 1), "a.yaml") == f"a.yaml: {long}"
    too_long_for_yaml = "#" * (yaml_text.MAX_LENGTH + 1)
    assert refusal(too_long_for_yaml) == f"stdin: is over {yaml_text.MAX_LENGTH} characters"


def test_an_exploding_anchor_is_stopped() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "over 100000 values; write less by anchors" in refusal("\n".join(lines))


def test_what_cannot_be_read_is_named() -> None:
    hint = "check that it is the file you mean"
    for file, why in (("no.yaml", "No such file or directory"), (".", "Is a directory")):
        with pytest.raises(Refused) as caught:
            documents.read(file, stdin=io.BytesIO())
        assert str(caught.value) == f"{file}: cannot be read ({why}); {hint}"
    with pytest.raises(Refused, match="is no name of a file"):
        documents.read("a\0b", stdin=io.BytesIO())
    with pytest.raises(Refused, match=r"stdin: cannot be read \(Input/output error\)"):
        documents.read("-", stdin=_Broken())


class _Broken(io.BytesIO):
    """A terminal that went away."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))
