"""Recorded option lists: reading one, and choosing the right one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from oe_adapter_vllm import ADAPTER

from inferlab_adapters.catalogue import Grammar, Option, load, recorded, release, select
from tests.unit.fake import option


def record(folder: Path, version: str, *entries: dict[str, Any]) -> Path:
    path = folder / f"{version}.json"
    grammar = {"prefix_matching": True, "underscore_folding": False, "dotted_json": True}
    path.write_text(json.dumps({"version": version, **grammar, "options": list(entries)}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for version in ("0.9.0", "0.10.0", "0.10.2", "1.0.0"):
        record(tmp_path, version)
    return tmp_path


def test_a_catalogue_is_read_by_setting_name(tmp_path: Path) -> None:
    entry = {"names": ["--max-len", "-ml"], "dest": "model_len", "kind": "value", "choices": ["1"]}
    catalogue = load(record(tmp_path, "1.0.0", entry))
    assert catalogue.version == "1.0.0"
    assert catalogue.grammar == Grammar(
        prefix_matching=True, underscore_folding=False, dotted_json=True
    )
    expected = Option(names=("--max-len", "-ml"), dest="model_len", kind="value", choices=("1",))
    assert catalogue.options == {"max_len": expected}
    assert catalogue.has("max_len")
    assert not catalogue.has("model_len")


@pytest.mark.parametrize(
    ("observed", "chosen", "exact"),
    [
        ("0.10.1", "0.10.0", True),
        ("0.10.3", "0.10.2", True),
        ("0.10", "0.10.0", True),
        ("0.10.0rc1+cu129", "0.10.0", True),
        ("v1.0.7.dev3", "1.0.0", True),
        ("0.9.9", "0.9.0", True),
        ("0.11.0", "0.10.2", False),
        ("2.0", "1.0.0", False),
        ("0.8", "0.9.0", False),
        ("unavailable", "1.0.0", False),
        ("", "1.0.0", False),
    ],
)
def test_the_catalogue_of_a_version(folder: Path, observed: str, chosen: str, exact: bool) -> None:
    selection = select(folder, observed)
    assert (selection.catalogue.version, selection.exact) == (chosen, exact)


def test_recorded_versions_are_ordered_as_numbers(folder: Path) -> None:
    assert recorded(folder) == ["0.9.0", "0.10.0", "0.10.2", "1.0.0"]
    assert ADAPTER.recorded_versions() == recorded(ADAPTER.catalogues)


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.32.0", (0, 32, 0)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("1.2rc3", (1, 2)),
        ("v3", (3,)),
        ("unavailable", ()),
        ("", ()),
    ],
)
def test_release_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert release(version) == numbers


@pytest.mark.parametrize(
    ("negative", "off"),
    [
        (("--no-a",), "--no-a"),
        (("--disable-a", "--no-a"), "--no-a"),
        (("--disable-a",), "--disable-a"),
    ],
)
def test_the_negative_spelling_that_is_written(negative: tuple[str, ...], off: str) -> None:
    assert option("--a", kind="negatable", negative=negative).off == off


@pytest.mark.parametrize(
    ("fields", "repeats"),
    [
        ({"kind": "list", "style": "repeat"}, True),
        ({"kind": "list"}, False),
        ({"style": "repeat"}, False),
    ],
)
def test_only_repeated_lists_may_stand_several_times(fields: dict[str, Any], repeats: bool) -> None:
    assert option("--a", **fields).repeats is repeats
