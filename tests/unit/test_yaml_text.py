"""YAML text: read as ``yaml.safe_load`` does but strictly, and written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inferlab_adapters.yaml_text import MAX_DEPTH, MAX_LENGTH, Unreadable, read, write

TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(
        ["on", "1:30", "~", "=", "<<", "2026-01-01", "a\x85b", "\u2028", "\ufeff", " "]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def refused(text: str) -> str:
    with pytest.raises(Unreadable) as caught:
        read(text)
    return f"{caught.value.what}; {caught.value.hint}"


@given(st.dictionaries(TEXTS, VALUES))
def test_what_is_written_loads_back_to_the_same(data: dict[str, Any]) -> None:
    text = write(data)
    assert same(yaml.safe_load(text), data)
    assert same(read(text), data)
    assert write(dict(reversed(data.items()))) == text


def same(one: Any, other: Any) -> bool:
    """Equal, types included: 1, 1.0 and true are three values."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def test_the_style_is_plain_block_yaml() -> None:
    shared = [1, 2]
    data = {"b": {"y": shared, "x": shared}, "a": "é", "long": "word " * 60, "empty": {}}
    assert write(data) == (
        f"a: é\nb:\n  x:\n  - 1\n  - 2\n  y:\n  - 1\n  - 2\nempty: {{}}\nlong: '{'word ' * 60}'\n"
    )
    assert write({"lines": "one\ntwo"}) == 'lines: "one\\ntwo"\n'


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}"])
def test_an_empty_text_holds_nothing(text: str) -> None:
    assert read(text) == {}


def test_values_are_what_the_engine_reads() -> None:
    text = "a: 1e-3\nb: 1.0e-3\nc: yes\nd: 0x10\ne: 1_000\nf: null\ng: 'on'\nh: !!str 5\n"
    assert read(text) == yaml.safe_load(text)


def test_anchors_and_merges_are_followed() -> None:
    text = "a: &a {x: 1, y: 2}\nb: &b {x: 3, z: 4}\nc: {<<: [*a, *b], y: 5}\nd: *a\ne: {<<: *b}\n"
    assert read(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "line 4: b.c is given twice; keep one"),
        ("a: 1\n'a': 1\n", "line 2: a is given twice; keep one"),
        ("- 1\n", "line 1: must be a mapping; "),
        ("text\n", "line 1: must be a mapping; "),
        ("!!set {a}\n", "line 1: must be a mapping; "),
        ("a: {1: x}\n", "line 1: a.1 is a key that is no text; quote it"),
        ("on: 1\n", "line 1: on is a key that is no text; quote it"),
        ("~: 1\n", "line 1: ~ is a key that is no text; quote it"),
        ("? [a, b]\n: 1\n", "line 1: a collection is a key that is no text; quote it"),
        ("a: [0, .nan]\n", "line 1: a.1 is not a finite number; "),
        ("a: -.inf\n", "line 1: a is not a finite number; "),
        ("a: 1.0e+999\n", "line 1: a is not a finite number; "),
        ("a: 0xffffffffffffffffff\n", "line 1: a does not fit in 64 signed bits; "),
        ("a: 2026-10-01\n", "line 1: a is of the type timestamp; quote it"),
        ("a: !!binary aGk=\n", "line 1: a is of the type binary; quote it"),
        ("a: !thing x\n", "line 1: a is of the type !thing; quote it"),
        (
            "a: !!python/object:os.system x\n",
            "line 1: a is of the type python/object:os.system; quote it",
        ),
        ("a: !!int x\n", "line 1: a does not read as what its tag says; "),
        ('a: !!int ""\n', "line 1: a does not read as what its tag says; "),
        ('a: !!float ""\n', "line 1: a does not read as what its tag says; "),
        (f"a: 1{'0' * 100}\n", "line 1: a is a number of over 100 characters; "),
        ("a: !!bool x\n", "line 1: a does not read as what its tag says; "),
        ("a: !!set {x}\n", "line 1: a must be a mapping; "),
        ('a: "\\ud800"\n', "line 1: a holds a lone surrogate, which is no Unicode text; "),
        ("a: 1\n---\nb: 1\n", "line 2: is not YAML: but found another document; "),
        ("a: *b\n", "line 1: is not YAML: found undefined alias 'b'; "),
        ("a: [1\n", "line 2: is not YAML: "),
        ("a:\tb: c\n", "line 1: is not YAML: "),
        ("a: \x01\n", "is not YAML: "),
        ("%YAML 9.9\n--- {}\n", "line 1: is not YAML: "),
        ("a: &a [*a]\n", "line 1: a.0.0 is nested over 50 deep, or holds itself; "),
        ("a: &a\n  <<: *a\n", "is nested over"),
    ],
)
def test_what_two_readers_could_understand_differently_is_refused(text: str, message: str) -> None:
    assert refused(text).startswith(message)


def test_an_exploding_anchor_is_stopped() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "over 100000 values; write less by anchors" in refused("\n".join(lines))
    merges = ["a0: &a0 {}"]
    merges += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 30)]
    assert "over 100000 values; write less by anchors" in refused("\n".join(merges))


def test_depth_and_length_are_bounded() -> None:
    deep = MAX_DEPTH + 1
    assert "is nested over" in refused("a: " + "[" * deep + "]" * deep)
    assert "is nested over" in refused("a: " + "[" * 5000 + "]" * 5000)
    assert refused("#" * (MAX_LENGTH + 1)).startswith("is over")
