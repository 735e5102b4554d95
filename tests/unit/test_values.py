"""Setting values: what is legal for an option, and the tokens that express it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferlab_adapters.catalogue import Option
from inferlab_adapters.values import compact_json, problem, text_problem, tokens
from tests.unit.fake import OPTIONS, table

FAKE = table()
HUMAN = "must be an integer or a text such as 4k or 1.5M, got "
AUTO = 'must be an integer, a text such as 4k, or "auto", got '
EMPTY = "must not be empty: the engine would read it as None"

# setting, value, and why it is refused or the tokens that it becomes
VALUES: list[tuple[str, Any, str | list[str]]] = [
    ("verbose", True, ["--verbose"]),
    ("verbose", False, []),
    ("verbose", "true", 'must be true or false, got "true"'),
    ("cache", True, ["--cache"]),
    ("cache", False, ["--no-cache"]),
    ("cache", 0, "must be true or false, got 0"),
    ("max_seqs", 4, ["--max-seqs", "4"]),
    ("max_seqs", -4, ["--max-seqs=-4"]),
    ("max_seqs", "4", 'must be an integer, got "4"'),
    ("max_seqs", True, "must be an integer, got true"),
    ("max_seqs", 4.0, "must be an integer, got 4.0"),
    ("max_seqs", None, "must be an integer, got null"),
    ("max_seqs", "None", 'must be an integer, got "None"'),
    ("max_seqs", [4], "must be an integer, got [4]"),
    ("workers", "None", ["--workers", "None"]),
    ("workers", "", EMPTY),
    ("max_len", 4096, ["--max-len", "4096"]),
    ("max_len", "4k", ["--max-len", "4k"]),
    ("max_len", "1.5M", ["--max-len", "1.5M"]),
    ("max_len", "-1", ["--max-len=-1"]),
    ("max_len", "auto", f'{HUMAN}"auto"'),
    ("max_len", "4kk", f'{HUMAN}"4kk"'),
    ("max_len", 1.5, f"{HUMAN}1.5"),
    ("memory", "auto", ["--memory", "auto"]),
    ("memory", "8G", ["--memory", "8G"]),
    ("memory", "automatic", f'{AUTO}"automatic"'),
    ("ratio", 0.5, ["--ratio", "0.5"]),
    ("ratio", 1, ["--ratio", "1"]),
    ("ratio", -1e-9, ["--ratio=-1e-09"]),
    ("ratio", "0.5", 'must be a number, got "0.5"'),
    ("dtype", "half", ["--dtype", "half"]),
    ("dtype", "hafl", 'must be auto, half or float, got "hafl", did you mean "half"?'),
    ("dtype", "zzz", 'must be auto, half or float, got "zzz"'),
    ("dtype", 5, "must be a string, got 5"),
    ("level", 2, ["--level", "2"]),
    ("level", 4, 'must be 1, 2 or 3, got "4"'),
    ("template", "a b", ["--template", "a b"]),
    ("template", "--x", ["--template=--x"]),
    ("template", "", EMPTY),
    ("profile", True, ["--profile"]),
    ("profile", "x", ["--profile", "x"]),
    ("profile", False, "must be a string, got false"),
    ("engine_config", {"b": [1, "é"], "a": 1.5}, ["--engine-config", '{"a":1.5,"b":[1,"é"]}']),
    ("engine_config", {}, ["--engine-config", "{}"]),
    ("engine_config", [], "must be an object, got []"),
    ("engine_config", "{}", 'must be an object, got "{}"'),
    ("origins", ["*"], ["--origins", '["*"]']),
    ("origins", {}, "must be an array, got {}"),
    ("extra", "x", ["--extra", "x"]),
    ("extra", {"a": 1}, ["--extra", '{"a":1}']),
    ("extra", [1], ["--extra", "[1]"]),
    ("extra", 1, "must be a string, got 1"),
    ("middleware", ["a", "-b"], ["--middleware", "a", "--middleware=-b"]),
    ("middleware", "a", 'must be an array of strings, got "a"'),
    ("middleware", [], "must not be an empty array"),
    ("sizes", [1, -2], ["--sizes", "1", "-2"]),
    ("sizes", [1, "2"], 'must be an integer, got "2"'),
    ("sizes", 1, "must be an array of integers, got 1"),
    ("tags", ["b", "a"], ["--tags", "b", "a"]),
    ("tags", ["d"], 'must be a, b or -c, got "d"'),
    ("tags", ["-c"], 'the item "-c" would be read as an option'),
]


@pytest.mark.parametrize(("name", "value", "expected"), VALUES)
def test_a_value_becomes_tokens_or_is_refused(
    name: str, value: Any, expected: str | list[str]
) -> None:
    wrong = problem(FAKE[name], value)
    assert (wrong or tokens(FAKE[name], value)) == expected


TEXTS: list[tuple[str, str, str | None]] = [
    ("max_seqs", "4", None),
    ("max_seqs", "-4", None),
    ("max_seqs", "4.0", 'must be an integer, got "4.0"'),
    ("max_seqs", "", 'must be an integer, got ""'),
    ("max_seqs", "9" * 5000, f'must be an integer, got "{"9" * 78}…'),
    ("level", "4", 'must be 1, 2 or 3, got "4"'),
    ("level", "02", None),
    ("workers", "None", None),
    ("workers", "", EMPTY),
    ("workers", "none", 'must be an integer, got "none"'),
    ("ratio", "1e-3", None),
    ("ratio", "x", 'must be a number, got "x"'),
    ("max_len", "4k", None),
    ("max_len", "k", f'{HUMAN}"k"'),
    ("memory", "auto", None),
    ("dtype", "half", None),
    ("dtype", "zzz", 'must be auto, half or float, got "zzz"'),
    ("engine_config", '{"a": 1}', None),
    ("engine_config", "[]", "must be an object, got []"),
    ("engine_config", "{a: 1}", 'must be JSON, got "{a: 1}"'),
    ("engine_config", "[" * 100_000, f'must be JSON, got "{"[" * 78}…'),
    ("origins", "None", None),
    ("extra", "anything", None),
    ("sizes", "x", 'must be an integer, got "x"'),
]


@pytest.mark.parametrize(("name", "text", "message"), TEXTS)
def test_a_token_is_legal_where_the_parser_takes_it(
    name: str, text: str, message: str | None
) -> None:
    assert text_problem(FAKE[name], text) == message


TEXT = st.text(st.characters(codec="utf-8"))
JSON = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


def scalars(option: Option) -> st.SearchStrategy[Any]:
    if option.choices:
        return st.sampled_from(option.choices).map(int if option.type == "int" else str)
    human = st.integers() | st.sampled_from(["4k", "1.5M", "-1"])
    return {
        "int": st.integers(),
        "float": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        "human_int": human,
        "human_int_or_auto": human | st.just("auto"),
        "str": TEXT,
    }[option.type]


def legal(option: Option) -> st.SearchStrategy[tuple[Option, Any]]:
    """An option with a value that is legal for it."""
    found: st.SearchStrategy[Any] = scalars(option)
    if option.kind in ("switch", "negatable"):
        found = st.booleans()
    elif option.kind == "json":
        found = st.dictionaries(TEXT, JSON) if option.shape == "object" else st.lists(JSON)
    elif option.kind == "list":
        found = st.lists(found, min_size=1, max_size=3)
    if option.json:
        found |= st.dictionaries(TEXT, JSON)
    if option.optional_value:
        found |= st.just(True)
    if option.none and option.kind == "value":
        found |= st.just("None")
    return found.filter(lambda value: problem(option, value) is None).map(
        lambda value: (option, value)
    )


@given(st.sampled_from(OPTIONS).flatmap(legal))
def test_the_tokens_of_every_legal_value_are_read_back_as_legal(case: tuple[Option, Any]) -> None:
    option, value = case
    written = tokens(option, value)
    for use in FAKE.scan(written):
        assert use.reading is not None, written
        assert use.reading.option is option
        inline = [use.reading.value] if use.reading.value is not None else []
        for text in (*inline, *use.values):
            assert text_problem(option, text) is None, written


@given(st.dictionaries(TEXT, JSON))
def test_json_is_one_token_that_reads_back(value: dict[str, Any]) -> None:
    text = compact_json(value)
    assert json.loads(text) == value
    assert compact_json(dict(reversed(value.items()))) == text
    assert "\n" not in text
