"""One document, or a refusal that says where."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferlab_adapters.errors import AdapterError
from inferlab_adapters.strict_json import decode

TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


def refusal(raw: bytes) -> str:
    with pytest.raises(AdapterError) as caught:
        decode(raw, "stdin")
    assert caught.value.code == "invalid_request"
    assert len(caught.value.faults) == 1
    return caught.value.message


@given(JSON, st.booleans(), st.sampled_from([None, 1]))
def test_valid_documents_are_read_as_json_reads_them(
    value: Any, ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent)
    assert repr(decode(text.encode(), "stdin")) == repr(json.loads(text))


FRAGMENTS = [*"{}[],:-1 ", '"a"', '"\\ud800"', "1e999", "NaN", "9" * 4400]


@given(st.binary(max_size=40) | st.lists(st.sampled_from(FRAGMENTS)).map("".join).map(str.encode))
def test_any_bytes_are_read_or_refused_and_nothing_else(raw: bytes) -> None:
    with suppress(AdapterError):
        decode(raw, "stdin")


@given(JSON, TEXT, st.lists(TEXT | st.integers(0, 3), max_size=4))
def test_a_key_given_twice_is_found_wherever_it_is(
    value: Any, key: str, path: list[str | int]
) -> None:
    name = json.dumps(key)
    text = f"{{{name}:{json.dumps(value)},{name}:0}}"
    where = [key]
    for part in reversed(path):
        if isinstance(part, int):
            text = f"[{'0,' * part}{text}]"
        else:
            text = f"{{{json.dumps(part)}:{text}}}"
        where.insert(0, str(part))
    with pytest.raises(AdapterError) as caught:
        decode(text.encode(), "stdin")
    tokens = caught.value.faults[0].pointer.split("/")[1:]
    assert [token.replace("~1", "/").replace("~0", "~") for token in tokens] == where


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"[1e308,1e309]", "/1: 1e309 is not a finite number"),
        (b'[null,true,"x",-Infinity]', "/3: -Infinity is not a finite number"),
        (b'[0,{"a/b":[NaN]}]', "/1/a~1b/0: NaN is not a finite number"),
        (b'[0,"\\ud800"]', "/1: "),
        (b"[0,1" + b"0" * 5000 + b"]", "/1: "),
    ],
)
def test_the_place_of_a_fault(raw: bytes, message: str) -> None:
    assert message in refusal(raw)


@pytest.mark.parametrize("raw", [b"1e308", b"-0", b"0.1", b"1E-400", b'"\\ud83d\\ude00"'])
def test_what_a_double_or_a_text_can_hold_is_taken(raw: bytes) -> None:
    assert repr(decode(raw, "stdin")) == repr(json.loads(raw))


@pytest.mark.parametrize("opener", ["[", '{"a":'])
def test_depth_counts_arrays_and_objects_alike(opener: str) -> None:
    closer = "]" if opener == "[" else "}"
    inner = "1" if opener != "[" else ""
    fine = opener * 100 + inner + closer * 100
    assert decode(fine.encode(), "stdin") is not None
    deep = opener * 101 + inner + closer * 101
    assert refusal(deep.encode()) == "stdin is nested over 100 levels deep"


def test_many_shallow_containers_are_not_deep() -> None:
    assert decode(b"[" + b"{}," * 500 + b"[]]", "stdin")[-1] == []


def test_a_number_as_text_is_no_number() -> None:
    assert decode(b'{"NaN":"Infinity"}', "stdin") == {"NaN": "Infinity"}
