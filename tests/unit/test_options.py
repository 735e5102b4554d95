"""One reading of a command line, for every grammar a framework's parser may have."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fake import OPTIONS, table

ALL = table()
PLAIN = table(prefix=False, fold=False, dotted=False)

# token, then name, negated, path and value; None where no option is meant.
EVERYWHERE: list[tuple[str, Any]] = [
    ("--max-seqs", ("max_seqs", False, (), None)),
    ("--max-seqs=4", ("max_seqs", False, (), "4")),
    ("--max-seqs=", ("max_seqs", False, (), "")),
    ("--max-seqs=a=b", ("max_seqs", False, (), "a=b")),
    ("--max-sequences", ("max_seqs", False, (), None)),
    ("--cache", ("cache", False, (), None)),
    ("--no-cache", ("cache", True, (), None)),
    ("--disable-cache", ("cache", True, (), None)),
    ("-tp", ("tensor_size", False, (), None)),
    ("-tp=2", ("tensor_size", False, (), "2")),
    ("-l", ("level", False, (), None)),
    ("-l3", ("level", False, (), "3")),
    ("-l=3", ("level", False, (), "3")),
    ("-lx=3", ("level", False, (), "x=3")),
    ("-O2", ("level", False, (), "2")),
    ("-O=2", ("level", False, (), "2")),
    ("-t", ("tensor_size", False, (), None)),
    ("-t=2", ("tensor_size", False, (), "2")),
    ("-c", ("engine_config", False, (), None)),
    ("-tp2", None),
    ("-Z", None),
    ("-", None),
    ("--", None),
    ("---", None),
    ("--zzz", None),
    ("--Max-seqs", None),
    ("--max-seqsx", None),
    ("-L", None),
]
PREFIX: list[tuple[str, Any]] = [
    ("--dt", ("dtype", False, (), None)),
    ("--dt=half", ("dtype", False, (), "half")),
    ("--no-c", ("cache", True, (), None)),
    ("--max-seq", ("max_seqs", False, (), None)),
    ("--max", None),
    ("--e", None),
    ("--m", None),
]
FOLD: list[tuple[str, Any]] = [
    ("--max_seqs", ("max_seqs", False, (), None)),
    ("--max_seqs=a_b", ("max_seqs", False, (), "a_b")),
    ("--no_cache", ("cache", True, (), None)),
    ("--max_-seqs", None),
]
DOTTED: list[tuple[str, Any]] = [
    ("--engine-config.a", ("engine_config", False, ("a",), None)),
    ("--engine-config.a.b=1", ("engine_config", False, ("a", "b"), "1")),
    ("-cc.a_b", ("engine_config", False, ("a_b",), None)),
    ("--extra.a", ("extra", False, ("a",), None)),
    ("--dtype.a", None),
    ("--zzz.a", None),
    ("--engine-config=a.b", ("engine_config", False, (), "a.b")),
]


def reading(options: Any, token: str) -> Any:
    found = options.read(token)
    return found and (found.option.name, found.negated, found.path, found.value)


@pytest.mark.parametrize(("token", "expected"), EVERYWHERE + PREFIX + FOLD + DOTTED)
def test_a_token_means_what_the_parser_would_take_it_for(token: str, expected: Any) -> None:
    assert reading(ALL, token) == expected


@pytest.mark.parametrize(("token", "expected"), EVERYWHERE)
def test_some_spellings_are_read_by_every_parser(token: str, expected: Any) -> None:
    assert reading(PLAIN, token) == expected


@pytest.mark.parametrize(
    "token", [t for t, found in PREFIX + FOLD + DOTTED if found and t != DOTTED[-1][0]]
)
def test_a_grammar_that_is_off_reads_nothing_into_a_token(token: str) -> None:
    assert reading(PLAIN, token) is None


def test_an_abbreviation_may_be_folded_and_dotted() -> None:
    assert reading(ALL, "--max_sequ") == ("max_seqs", False, (), None)
    assert reading(table(fold=False), "--max_sequ") is None
    assert reading(ALL, "--engine_config.a_b") == ("engine_config", False, ("a_b",), None)
    # vLLM takes the children off first and lets argparse complete what is left.
    assert reading(ALL, "--transfer-conf.role") == ("transfer_config", False, ("role",), None)
    assert reading(ALL, "--engine-c.a=1") == ("engine_config", False, ("a",), "1")
    assert reading(table(prefix=False), "--engine-c.a") is None


class Parser(argparse.ArgumentParser):
    """The fake framework's options as argparse has them."""

    def __init__(self) -> None:
        super().__init__(add_help=False)
        for known in OPTIONS:
            self.add_argument(*known.names, dest=known.name, nargs="?", const=True)
            if known.negative:
                self.add_argument(*known.negative, dest=f"no {known.name}", nargs="?", const=True)

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


@given(st.sampled_from([name for known in OPTIONS for name in (*known.names, *known.negative)]))
def test_every_abbreviation_is_read_as_argparse_reads_it(name: str) -> None:
    for length in range(2, len(name) + 1):
        token = name[:length]
        try:
            parsed, _ = Parser().parse_known_args([token])
        except ValueError:
            continue  # Ambiguous: the parser refuses it, whatever we make of it.
        taken = [dest for dest, value in vars(parsed).items() if value]
        read = table().read(token)
        expected = [f"no {read.option.name}" if read.negated else read.option.name] if read else []
        assert taken == expected, token


SCANS: list[tuple[list[str], list[tuple[int, str, tuple[str, ...]]]]] = [
    ([], []),
    (["--max-seqs", "4"], [(0, "--max-seqs", ("4",))]),
    (["--max-seqs=4", "5"], [(0, "--max-seqs=4", ()), (1, "5", ())]),
    (["--max-seqs", "4", "5"], [(0, "--max-seqs", ("4",)), (2, "5", ())]),
    (["--max-seqs", "-4"], [(0, "--max-seqs", ("-4",))]),
    (["--max-seqs", "-"], [(0, "--max-seqs", ("-",))]),
    (["--max-seqs", ""], [(0, "--max-seqs", ("",))]),
    (["--max-seqs", "--cache"], [(0, "--max-seqs", ()), (1, "--cache", ())]),
    (["--verbose", "x"], [(0, "--verbose", ()), (1, "x", ())]),
    (["--no-cache", "x"], [(0, "--no-cache", ()), (1, "x", ())]),
    (["--sizes", "1", "-2", "3", "-v"], [(0, "--sizes", ("1", "-2", "3")), (4, "-v", ())]),
    (["--sizes=1", "2"], [(0, "--sizes=1", ()), (1, "2", ())]),
    (["--middleware", "a", "b"], [(0, "--middleware", ("a",)), (2, "b", ())]),
    (["--profile", "x", "y"], [(0, "--profile", ("x",)), (2, "y", ())]),
    (["--engine-config.a", "1", "2"], [(0, "--engine-config.a", ("1",)), (2, "2", ())]),
    (["--zzz", "1", "2", "--cache"], [(0, "--zzz", ("1", "2")), (3, "--cache", ())]),
    (["x", "--", "y"], [(0, "x", ()), (1, "--", ("y",))]),
]


@pytest.mark.parametrize(("tokens", "uses"), SCANS)
def test_tokens_are_split_into_options_and_their_values(
    tokens: list[str], uses: list[tuple[int, str, tuple[str, ...]]]
) -> None:
    found = [(use.start, use.token, use.values) for use in ALL.scan(tokens)]
    assert found == uses


@given(st.lists(st.sampled_from(["--max-seqs", "--sizes", "-v", "--zzz", "1", "-1", "", "x"])))
def test_no_token_is_lost_or_read_twice(tokens: list[str]) -> None:
    again = [token for use in ALL.scan(tokens) for token in (use.token, *use.values)]
    assert again == tokens


@pytest.mark.parametrize(
    ("token", "dotted", "plain"),
    [
        ("-1", False, False),
        ("-1.5", True, False),
        ("-.5", True, False),
        ("-x", True, True),
        ("--", True, True),
        ("-1x", True, True),
        ("-", False, False),
        ("", False, False),
        ("x", False, False),
    ],
)
def test_a_negative_number_is_a_value(token: str, dotted: bool, plain: bool) -> None:
    assert ALL.is_option_like(token) is dotted
    assert PLAIN.is_option_like(token) is plain


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("max-seqs", "max_seqs"),
        ("max_sequences", "max_seqs"),
        ("no_cache", "cache"),
        ("tp", "tensor_size"),
        ("O", "level"),
        ("engine_config.a", "engine_config"),
        # A short option glued to a value is no way to write a setting's name.
        ("log_stats", None),
        ("reasoning", None),
        ("vebrose", None),
        ("zzz", None),
    ],
)
def test_a_settings_key_may_be_another_spelling(key: str, name: str | None) -> None:
    found = ALL.find_setting(key)
    assert (found and found.option.name) == name


def test_who_owns_what() -> None:
    assert ALL.owner(ALL["rank"]) == "the allocations"
    assert ALL.owner(ALL["dtype"]) is None
    assert ALL.owner_of_spelling("--take_over=x") == "it hands everything to another program"
    assert ALL.owner_of_spelling("--zzz") is None
    assert "dtype" in ALL
    assert "zzz" not in ALL
    with pytest.raises(KeyError):
        ALL["zzz"]


@pytest.mark.parametrize("token", ["--log-requests", "--log-requests=1", "--log_requests"])
def test_a_removed_option_is_remembered(token: str) -> None:
    gone = ALL.removed(token)
    assert gone is not None
    assert gone.since == "fake 0.9"
    assert ALL.removed("--log") is None


@pytest.mark.parametrize(
    ("token", "hint"),
    [
        ("--max-seqz", 'did you mean "--max-seqs"?'),
        ("--dtpye", 'did you mean "--dtype"?'),
        ("-", ""),
    ],
)
def test_the_nearest_flag(token: str, hint: str) -> None:
    assert ALL.nearest_flag(token) == hint


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_seqs", 0, "must be at least 1, got 0"),
        ("max_seqs", "-1", "must be at least 1, got -1"),
        ("max_seqs", 1, None),
        ("max_seqs", "7", None),
        ("dtype", "x", None),
        # Legal values of a bounded option that are not plain integers.
        ("workers", "None", None),
        ("max_len", "4k", None),
    ],
)
def test_a_number_below_its_minimum_is_refused(name: str, value: Any, message: str) -> None:
    assert ALL.below_minimum(ALL[name], value) == message
