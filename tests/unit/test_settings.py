"""A role's settings against an option table."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.settings import Settings, SettingsReader
from tests.unit.fake import OWN_SETTINGS, RESERVED, VERSION, messages, table

EXACT = table()
OTHER = table(exact=False)


class Read(NamedTuple):
    settings: Settings
    faults: list[str]
    notes: list[str]


def read(raw: dict[str, Any], options: OptionTable = EXACT, **absent: str) -> Read:
    faults, notes = Faults("invalid_settings"), list[str]()
    reader = SettingsReader(options, OWN_SETTINGS, RESERVED, faults, notes.append)
    settings = reader.read(raw, "/s", absent)
    return Read(settings, messages(faults), notes)


def args(*tokens: str, options: OptionTable = EXACT, **settings: Any) -> Read:
    return read({**settings, "extra_args": list(tokens)}, options)


# Effective settings


def test_defaults_are_filled_in_and_everything_is_sorted() -> None:
    settings, faults, notes = read({"wire": "tcp", "max_seqs": 4, "dtype": "half"})
    assert (faults, notes) == ([], [])
    assert list(settings.to_wire().items()) == [
        ("dev", False),
        ("dtype", "half"),
        ("extra_args", []),
        ("extra_env", {}),
        ("max_seqs", 4),
        ("wire", "tcp"),
    ]
    assert read(settings.to_wire()).settings == settings
    assert settings.at("a/b") == "/s/a~1b"


def test_what_does_not_apply_is_neither_filled_in_nor_taken() -> None:
    assert "dev" not in read({}, dev="there is none").settings.own
    found = read({"dev": True}, dev="there is none")
    assert found.faults == ["/s/dev: does not apply: there is none; remove it"]


def test_argv_has_options_by_name_and_then_the_extra_arguments() -> None:
    raw = {"verbose": True, "max_seqs": 4, "cache": False, "extra_args": ["--level", "2"]}
    settings = read(raw).settings
    assert settings.argv(EXACT) == [
        *("--no-cache", "--max-seqs", "4", "--verbose", "--level", "2"),
    ]
    assert settings.argv(EXACT, frozenset({"max_seqs", "cache"}))[0] == "--verbose"


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (True, ["--new-thing"]),
        (3, ["--new-thing", "3"]),
        ("-x", ["--new-thing=-x"]),
        ([1, "a"], ["--new-thing", "1", "a"]),
        ({"a": 1}, ["--new-thing", '{"a":1}']),
    ],
)
def test_without_a_catalogue_of_the_version_new_options_pass_with_a_warning(
    value: Any, tokens: list[str]
) -> None:
    found = read({"new_thing": value}, OTHER)
    assert found.faults == []
    assert found.notes == [
        f"/s/new_thing: not in the catalogue of version {VERSION}; passed on unchecked"
    ]
    assert found.settings.argv(OTHER) == tokens


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "new_thing",
            False,
            "cannot be switched off: the option is not in a catalogue; "
            "put its negative form into extra_args",
        ),
        ("New-Thing", 1, f"is no option of version {VERSION}"),
        ("max-seqs", 1, 'is another spelling; write "max_seqs"'),
        ("tp", 1, "is decided by outer.tensor_parallel_size; remove it"),
        ("max_seqs", "x", 'must be an integer, got "x"'),
    ],
)
def test_without_a_catalogue_of_the_version_what_is_known_is_still_checked(
    name: str, value: Any, message: str
) -> None:
    found = read({name: value}, OTHER)
    assert (found.faults, found.notes) == ([f"/s/{name}: {message}"], [])


@pytest.mark.parametrize("name", ["rope_scaling", "log_stats", "release_memory", "voice"])
def test_a_new_option_may_begin_like_a_short_one(name: str) -> None:
    found = read({name: 1}, OTHER)
    assert found.faults == []
    assert len(found.notes) == 1


# Settings one by one

REFUSED: list[tuple[str, Any, str]] = [
    ("dev", 1, "must be true or false, got 1"),
    ("wire", 5, "must be a string, got 5"),
    ("wire", "ucx", 'must be tcp or rdma, got "ucx"'),
    ("threads", True, "must be an integer, got true"),
    ("threads", 0, "must be at least 1, got 0"),
    ("further", [], "must be an object, got []"),
    ("extra_args", "--x", 'must be an array of strings, got "--x"'),
    ("extra_args", ["--max-seqs", 4], 'must be an array of strings, got ["--max-seqs", 4]'),
    ("extra_env", [], "must be an object of strings, got []"),
    ("max_seqs", 0, "must be at least 1, got 0"),
    ("max_seqs", "x", 'must be an integer, got "x"'),
    ("template", "a\0", "must not contain a NUL character"),
    ("middleware", ["a", "b\0"], "must not contain a NUL character"),
    ("rank", 0, "is decided by the allocations; remove it"),
    ("transfer_config", {}, "is decided by kv_transfer; remove it"),
    ("tp", 1, "is decided by outer.tensor_parallel_size; remove it"),
    ("tensor-size", 1, "is decided by outer.tensor_parallel_size; remove it"),
    ("transfer_conf", {}, "is decided by kv_transfer; remove it"),
    ("transfer_config.role", 1, "is decided by kv_transfer; remove it"),
    ("engine_config.a", 1, "is a dotted name; give engine_config an object"),
    ("no_cache", True, "is a negative form; write cache: false"),
    ("max_sequences", 1, 'is another spelling; write "max_seqs"'),
    ("log_requests", True, "was removed in fake 0.9; drop it"),
    ("max_seqz", 1, f'is no option of version {VERSION}; did you mean "max_seqs"?'),
    ("extra_arg", [], f'is no option of version {VERSION}; did you mean "extra_args"?'),
    ("log_stats", True, f"is no option of version {VERSION}"),
    ("zzz", 1, f"is no option of version {VERSION}"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_a_wrong_setting_is_refused(name: str, value: Any, message: str) -> None:
    assert read({name: value}).faults == [f"/s/{name}: {message}"]


@pytest.mark.parametrize(
    "raw",
    [
        {"threads": 1, "wire": "rdma", "further": {"a": 1}, "dev": True},
        {"workers": "None", "max_len": "4k", "profile": True, "memory": "auto"},
        {"engine_config": {"a\0": "b\0"}},
        {"extra": {"a": "b\0"}, "extra_env": {"A": "b"}},
    ],
)
def test_a_right_setting_is_taken_as_it_is(raw: dict[str, Any]) -> None:
    found = read(raw)
    assert found.faults == []
    assert raw.items() <= found.settings.to_wire().items()


def test_a_removed_option_is_known_by_its_setting_name_in_every_grammar() -> None:
    found = read({"log_requests": True}, table(fold=False))
    assert found.faults == ["/s/log_requests: was removed in fake 0.9; drop it"]


def test_a_deprecated_option_is_taken_with_a_warning() -> None:
    found = read({"old": True})
    assert found.faults == []
    assert found.notes == ["/s/old: the framework calls this option deprecated"]


# Extra arguments

ARGUMENTS: list[tuple[list[str], str | None]] = [
    ([], None),
    (["--max-seqs", "4", "--cache", "--sizes", "1", "-2"], None),
    (["--middleware", "a", "--middleware", "b"], None),
    (["--engine-config.a", "1", "--engine-config.b", "2"], None),
    (["--profile", "--verbose"], None),
    (["--profile", "x"], None),
    (["--workers", "None"], None),
    (["--max-len", "4k"], None),
    (["--max-seqs=-1"], '0: "--max-seqs=-1" must be at least 1, got -1'),
    (["--max-seqs", "x"], '0: "--max-seqs" must be an integer, got "x"'),
    (["--max-seqs"], '0: "--max-seqs" needs a value'),
    (["--max-seqs", "1", "2"], '2: "2" belongs to no option; remove it'),
    (["--cache=1"], '0: "--cache=1" takes no value; remove the value'),
    (["--verbose", "x"], '1: "x" belongs to no option; remove it'),
    (["--dt", "hafl"], '0: "--dt" must be auto, half or float, got "hafl", did you mean "half"?'),
    (["--sizes", "1", "x"], '0: "--sizes" must be an integer, got "x"'),
    (["--engine-config", "[]"], '0: "--engine-config" must be an object, got []'),
    (["--engine-config.a", "x"], None),
    (["--engine-config.a"], '0: "--engine-config.a" needs a value'),
    (["-"], '0: "-" belongs to no option; remove it'),
    ([""], '0: "" belongs to no option; remove it'),
    (["--"], '0: "--" ends the options; remove it'),
    (["--template", "a\0b"], "0: must not contain a NUL character"),
    (["--template=a\0"], "0: must not contain a NUL character"),
    (["--zzz", "1"], f'0: "--zzz" is no option of version {VERSION}'),
    (["--dtpye=x"], f'0: "--dtpye" is no option of version {VERSION}; did you mean "--dtype"?'),
    (["--log_requests"], '0: "--log_requests" was removed in fake 0.9; drop it'),
    (
        ["--take-over=x"],
        '0: "--take-over" is refused: it hands everything to another program; remove it',
    ),
    (
        ["--max-seqs", "1", "--max-sequ=2"],
        '2: "--max-sequ=2" sets max_seqs a second time: "1" before, "2" here; keep one',
    ),
    (
        ["--cache", "--no-cache"],
        '1: "--no-cache" sets cache a second time: true before, false here; keep one',
    ),
    (
        ["--sizes", "1", "--sizes", "2", "3"],
        '2: "--sizes" sets sizes a second time: "1" before, ["2", "3"] here; keep one',
    ),
    (
        ["--engine-config.a", "1", "--engine-config.a=2"],
        '2: "--engine-config.a=2" sets engine_config a second time: "1" before, "2" here; keep one',
    ),
    (
        ["--engine-config.a", "1", "-cc={}"],
        '2: "-cc={}" sets engine_config a second time: "1" before, "{}" here; keep one',
    ),
    (
        ["-cc={}", "--engine-config.a", "1"],
        '1: "--engine-config.a" sets engine_config a second time: "{}" before, "1" here; keep one',
    ),
]


@pytest.mark.parametrize(("tokens", "message"), ARGUMENTS)
def test_extra_arguments_are_read_as_the_parser_would(
    tokens: list[str], message: str | None
) -> None:
    found = args(*tokens)
    assert found.faults == ([f"/s/extra_args/{message}"] if message else [])
    assert found.notes == []


OWNED_SPELLINGS = [
    ("--tensor-size", "tensor_size"),
    ("--tensor_size", "tensor_size"),
    ("--tensor-size=2", "tensor_size"),
    ("--tensor", "tensor_size"),
    ("--tens=2", "tensor_size"),
    ("-tp", "tensor_size"),
    ("-tp=2", "tensor_size"),
    ("-t=2", "tensor_size"),
    ("-r0", "rank"),
    ("-r=0", "rank"),
    ("--transfer-config.role", "transfer_config"),
    ("--transfer_config.role=x", "transfer_config"),
    ("--transfer-conf.role", "transfer_config"),
]


@pytest.mark.parametrize("options", [EXACT, OTHER], ids=["exact", "other"])
@pytest.mark.parametrize(("token", "name"), OWNED_SPELLINGS)
def test_an_owned_option_is_refused_in_every_spelling(
    token: str, name: str, options: OptionTable
) -> None:
    (fault,) = args(token, "2", options=options).faults[:1]
    assert fault.startswith(f'/s/extra_args/0: "{token}" sets {name}, which is decided by ')


@pytest.mark.parametrize(
    ("settings", "tokens", "message"),
    [
        (
            {"max_seqs": 1},
            ["--max-sequences", "2"],
            '"--max-sequences" sets max_seqs a second time: 1 in the settings, "2" here; keep one',
        ),
        (
            {"cache": True},
            ["--disable-cache"],
            '"--disable-cache" sets cache a second time: true in the settings, '
            "false here; keep one",
        ),
        (
            {"engine_config": {"a": 1}},
            ["--engine-config.b", "2"],
            '"--engine-config.b" sets engine_config a second time: {"a": 1} in the settings, '
            '"2" here; keep one',
        ),
    ],
)
def test_a_setting_and_an_extra_argument_for_the_same_are_refused(
    settings: dict[str, Any], tokens: list[str], message: str
) -> None:
    assert args(*tokens, **settings).faults == [f"/s/extra_args/0: {message}"]


@pytest.mark.parametrize(
    ("tokens", "notes"),
    [
        (["--zzz", "1"], ['0: "--zzz" is not in a catalogue; passed on unchecked']),
        (
            ["--log-requests"],
            [
                '0: "--log-requests" is not in a catalogue; passed on unchecked '
                "(removed in fake 0.9: drop it)"
            ],
        ),
    ],
)
def test_without_a_catalogue_of_the_version_unknown_arguments_pass_with_a_warning(
    tokens: list[str], notes: list[str]
) -> None:
    found = args(*tokens, options=OTHER)
    assert found.faults == []
    assert found.notes == [f"/s/extra_args/{note}" for note in notes]
    assert found.settings.argv(OTHER) == tokens
