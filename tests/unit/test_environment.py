"""Environment variables: ours, and those that a person adds."""

from __future__ import annotations

from typing import Any

import pytest

from inferlab_adapters.environment import (
    CACHE_VARIABLES,
    DEVICE_VARIABLES,
    cache_environment,
    check_extra_env,
)
from inferlab_adapters.errors import Faults
from tests.unit.fake import RESERVED, messages


@pytest.mark.parametrize("cache", ["/cache/a", "/cache/a/", "/cache/a//"])
def test_every_cache_lies_below_the_cache_root(cache: str) -> None:
    env = cache_environment(cache, {"FAKE_CACHE": "fake"})
    assert env["FAKE_CACHE"] == "/cache/a/fake"
    assert env["TRITON_CACHE_DIR"] == "/cache/a/triton"
    assert set(env) == {*CACHE_VARIABLES, "FAKE_CACHE"}
    assert len(set(env.values())) == len(env)


def test_what_the_control_plane_sets_is_reserved() -> None:
    assert {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "PWD"} <= set(DEVICE_VARIABLES)
    assert not set(DEVICE_VARIABLES) & set(CACHE_VARIABLES)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, None),
        ({"A": "", "_b1": "x=y\n"}, None),
        ("A=1", ': must be an object of strings, got "A=1"'),
        (["A"], ': must be an object of strings, got ["A"]'),
        ({"A": 1}, '/A: must be a string, got 1; write "1"'),
        ({"A": True}, '/A: must be a string, got true; write "True"'),
        ({"A": "a\0b"}, "/A: must not contain a NUL character"),
        ({"1A": "x"}, "/1A: is not a name of an environment variable"),
        ({"": "x"}, "/: is not a name of an environment variable"),
        ({"A=B": "x"}, "/A=B: is not a name of an environment variable"),
        ({"A\n": "x"}, "/A\\u000a: is not a name of an environment variable"),
        ({"é": "x"}, "/é: is not a name of an environment variable"),
        (
            {"CUDA_VISIBLE_DEVICES": "0"},
            "/CUDA_VISIBLE_DEVICES: is decided by the devices; remove it",
        ),
        ({"FAKE_PORT": "1"}, "/FAKE_PORT: is decided by the fake; remove it"),
        ({"FAKE": "1", "A_FAKE_B": "1"}, None),
    ],
)
def test_extra_env_takes_names_texts_and_nothing_owned(value: Any, message: str | None) -> None:
    faults = Faults("invalid_settings")
    check_extra_env(value, "/e", RESERVED.names, RESERVED.prefixes, faults)
    assert messages(faults) == ([f"/e{message}"] if message else [])


def test_every_variable_is_checked() -> None:
    faults = Faults("invalid_settings")
    check_extra_env({"A B": "x", "C": 1, "FAKE_D": []}, "", {}, {"FAKE_": "us"}, faults)
    assert [text.partition(":")[0] for text in messages(faults)] == [
        "/A B",
        "/C",
        "/FAKE_D",
        "/FAKE_D",
    ]
