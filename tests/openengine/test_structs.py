"""Struct and plain data."""

import math
from typing import Any

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.messages import build
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision

STRUCT = "google.protobuf.Struct"

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Text of a message is UTF-8, which has no halves of surrogate pairs.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def travelled(data: dict[str, Any], revision: Revision = SEED) -> dict[str, Any]:
    """The data after a trip in a message."""
    session = revision.message("KvSessionRef")()
    structs.fill(session.attributes_struct, data)
    again = revision.message("KvSessionRef").FromString(session.SerializeToString())
    return structs.plain(again.attributes_struct)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=4))
def test_data_arrive_as_settled_says(data: dict[str, Any]) -> None:
    assert travelled(data) == structs.settled(data)
    assert structs.settled(structs.settled(data)) == structs.settled(data)


@pytest.mark.parametrize("revision", [SEED, V0_1_0], ids=lambda revision: revision.name)
def test_types_survive(revision: Revision) -> None:
    data: dict[str, Any] = {
        "n": None,
        "b": False,
        "i": 0,
        "f": 0.5,
        "s": "",
        "l": [],
        "o": {},
        "d": [[{"x": [1]}]],
    }
    after = travelled(data, revision)
    assert after == data
    assert [type(after[key]) for key in data] == [type(value) for value in data.values()]


@pytest.mark.parametrize(
    ("number", "arrives"),
    [
        (2**53, 2**53),
        (2**53 + 1, "9007199254740993"),
        (-(2**53) - 1, "-9007199254740993"),
        (2**64, "18446744073709551616"),
        (3.0, 3),
        (1e300, 1e300),
        (0.1, 0.1),
        (True, True),
    ],
)
def test_numbers(number: float, arrives: object) -> None:
    after = travelled({"x": number})["x"]
    assert after == arrives
    assert type(after) is type(arrives)


def test_protobuf_s_own_struct_reads_the_same() -> None:
    struct = SEED.message(STRUCT)()
    structs.fill(struct, {"a": [1, {"b": None}], "c": "x", "t": True})
    theirs = struct_pb2.Struct.FromString(struct.SerializeToString())
    assert dict(theirs) == {"a": theirs["a"], "c": "x", "t": True}
    assert structs.plain(theirs) == {"a": [1, {"b": None}], "c": "x", "t": True}


def test_an_empty_one_is_present() -> None:
    session = SEED.message("KvSessionRef")()
    structs.fill(session.attributes_struct, {})
    assert session.HasField("attributes_struct")
    assert not SEED.message("KvSessionRef")().HasField("attributes_struct")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "numbers of a Struct are finite, not nan"),
        (-math.inf, "numbers of a Struct are finite, not -inf"),
        (b"x", "a Struct holds JSON data, not bytes"),
        ({1: 2}, "keys of a Struct are strings, not int"),
    ],
)
def test_what_is_no_json_is_refused_and_nothing_written(value: object, why: str) -> None:
    session = SEED.message("KvSessionRef")()
    with pytest.raises(ValueError, match=why):
        structs.fill(session.attributes_struct, {"first": 1, "x": value})
    assert not session.HasField("attributes_struct")


def test_a_number_that_is_not_finite_is_refused_when_read() -> None:
    struct = SEED.message(STRUCT)()
    struct.fields["x"].list_value.values.add().number_value = math.inf
    with pytest.raises(ValueError, match="finite"):
        structs.plain(struct)


def test_a_value_of_no_kind_is_null() -> None:
    struct = SEED.message(STRUCT)()
    struct.fields["x"].SetInParent()
    assert structs.plain(struct) == {"x": None}


def nested(depth: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(depth - 1):
        data = {"x": data}
    return data


def test_the_deepest_data_pass_a_parser() -> None:
    data = nested(structs.MAX_DEPTH)
    request = build(
        SEED.message("GenerateRequest"), {"kv": {"session": {"attributes_struct": data}}}
    )
    again = SEED.message("GenerateRequest").FromString(request.SerializeToString())
    assert structs.plain(again.kv.session.attributes_struct) == data


def test_deeper_data_are_refused() -> None:
    with pytest.raises(ValueError, match="nested more than 25 deep"):
        travelled(nested(structs.MAX_DEPTH + 1))
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(ValueError, match="nested"):
        travelled(endless)
