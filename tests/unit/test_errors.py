"""Faults and the words they are told in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferlab_adapters.errors import (
    AdapterError,
    Fault,
    Faults,
    did_you_mean,
    json_type,
    one_of,
    pointer,
    refuse,
    shown,
)
from tests.unit.fake import messages


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("/a", "is missing", "add it"), "/a: is missing; add it"),
        (Fault("/a", "is odd"), "/a: is odd"),
        (Fault("", "stdin is empty"), "stdin is empty"),
        (Fault("", "a\nb\u2028\x00é"), "a\\u000ab\\u2028\\u0000é"),
        (Fault("/\ud800", "x"), "/\\ud800: x"),
    ],
)
def test_a_fault_is_one_sentence_on_one_line(fault: Fault, text: str) -> None:
    assert str(fault) == text


@pytest.mark.parametrize(
    ("count", "parts", "last"), [(1, 1, "f0"), (5, 5, "f4"), (6, 6, "and 1 more"), (99, 6, "94")]
)
def test_five_faults_are_told_and_the_rest_counted(count: int, parts: int, last: str) -> None:
    error = AdapterError("invalid_request", *(Fault("", f"f{n}") for n in range(count)))
    told = error.message.split(" | ")
    assert len(told) == parts
    assert last in told[-1]
    assert str(error) == f"invalid_request: {error.message}"


def test_collected_faults_are_raised_once_and_in_order() -> None:
    faults = Faults("invalid_settings")
    faults.check()
    assert not faults
    faults.add("/b", "x")
    faults.extend([Fault("/a", "y", "z"), Fault("/b", "x")])
    assert faults
    assert messages(faults) == ["/b: x", "/a: y; z"]
    with pytest.raises(AdapterError) as caught:
        faults.check()
    assert caught.value.code == "invalid_settings"


def test_refuse_raises_one_fault() -> None:
    with pytest.raises(AdapterError) as caught:
        refuse("unsupported_operation", "/operation", "is odd", "stop")
    assert caught.value.code == "unsupported_operation"
    assert caught.value.faults == (Fault("/operation", "is odd", "stop"),)


@given(st.lists(st.text() | st.integers(0, 99)))
def test_a_pointer_can_be_read_back(parts: list[str | int]) -> None:
    tokens = pointer("", *parts).split("/")[1:]
    read = [token.replace("~1", "/").replace("~0", "~") for token in tokens]
    assert read == [str(part) for part in parts]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("é", '"é"'),
        ({"a": [1.5]}, '{"a": [1.5]}'),
        ("x" * 78, '"' + "x" * 78 + '"'),
        ("x" * 79, '"' + "x" * 78 + "…"),
        ({1}, "{1}"),
    ],
)
def test_values_are_shown_as_json_and_cut(value: Any, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("null", "null"),
        ("true", "boolean"),
        ("1", "number"),
        ("1.5", "number"),
        ('""', "string"),
        ("[]", "array"),
        ("{}", "object"),
    ],
)
def test_types_have_their_json_names(text: str, name: str) -> None:
    assert json_type(json.loads(text)) == name


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), ([1, 8], "1 or 8"), (iter("abc"), "a, b or c")],
)
def test_choices_are_joined_in_words(names: Any, text: str) -> None:
    assert one_of(names) == text


@pytest.mark.parametrize(
    ("name", "hint"),
    [("max_num_seq", 'did you mean "max_num_seqs"?'), ("zzz", ""), ("", "")],
)
def test_the_nearest_name_is_offered_only_when_near(name: str, hint: str) -> None:
    assert did_you_mean(name, {"seed", "max_num_seqs", "dtype"}) == hint
