"""``oe catalogue`` lists and finds what is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.invoke import oe
from tests.support.adapters import ADAPTERS


def search(*arguments: str) -> list[dict[str, Any]]:
    done = oe("catalogue", "search", *arguments, "--json")
    assert done.code == 0
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def one(name: str, *arguments: str) -> dict[str, Any]:
    return next(entry for entry in search(*arguments) if entry["name"] == name)


def test_every_recorded_version_is_listed_with_its_options() -> None:
    listed = json.loads(oe("catalogue", "list", "--json").out)
    assert {(entry["framework"], entry["version"]): entry["options"] for entry in listed} == {
        (adapter.framework, version): len(adapter.option_table(version).options)
        for adapter in ADAPTERS.values()
        for version in adapter.recorded_versions()
    }
    lines = oe("catalogue", "list").out.splitlines()
    assert len(lines) == len(listed) + 2


@pytest.mark.parametrize("word", ["max-num-seqs", "--max-num-seqs", "MAX_NUM_SEQS", "num_seqs"])
def test_a_word_is_found_however_it_is_written(word: str) -> None:
    found = one("max_num_seqs", word)
    assert found["framework"] == "vllm"
    assert (found["kind"], found["type"]) == ("value", "int")
    assert found["versions"] == ADAPTERS["vllm"].recorded_versions()
    assert "--max-num-seqs" in found["spellings"]
    assert found["owner"] is None


def test_an_owned_option_names_what_decides_it() -> None:
    found = one("tensor_parallel_size", "tensor-parallel", "--framework", "vllm")
    assert found["owner"] == "outer.tensor_parallel_size of the parallelism"
    table = oe("catalogue", "search", "tensor-parallel", "--framework", "vllm").out
    assert "decided by outer.tensor_parallel_size of the parallelism" in table


def test_choices_and_settings_of_ours_are_told() -> None:
    mode = one("kv_transfer_protocol", "kv_transfer_protocol", "--framework", "sglang")
    assert mode["spellings"] == []
    assert mode["meaning"].endswith(".")
    assert one("load_format", "load-format", "--framework", "sglang")["choices"]


def test_an_option_that_came_or_went_says_which_versions_have_it() -> None:
    versions = ADAPTERS["sglang"].recorded_versions()
    tables = {version: ADAPTERS["sglang"].option_table(version) for version in versions}
    last = tables[versions[-1]]
    gone = next(name for name in tables[versions[0]].options if name not in last)
    found = one(gone, gone, "--framework", "sglang")
    having = [version for version in versions if gone in tables[version].options]
    assert found["versions"] == having != versions
    fate = last.removed(tables[versions[0]].options[gone].names[0])
    assert found["removed"] == (fate and {"since": fate.since, "fix": fate.fix})
    new = next(name for name in last.options if name not in tables[versions[0]])
    old = ("--framework", "sglang", "--engine-version", versions[0])
    assert new not in [entry["name"] for entry in search(new, *old)]
    assert new in [entry["name"] for entry in search(new, "--framework", "sglang")]


def test_an_option_that_no_catalogue_has_any_more_says_what_to_do() -> None:
    table = ADAPTERS["vllm"].option_table(ADAPTERS["vllm"].recorded_versions()[-1])
    fate = table.removed("--disable-log-requests")
    assert fate is not None
    found = one("disable_log_requests", "--disable-log-requests", "--framework", "vllm")
    assert found["removed"] == {"since": fate.since, "fix": fate.fix}


def test_what_is_not_found_gets_the_nearest_name() -> None:
    done = oe("catalogue", "search", "max-num-sequs", "--framework", "vllm")
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        'oe: no option is called like "max-num-sequs"; did you mean "max_num_seqs"?\n'
    )


def test_a_version_without_catalogue_says_which_one_is_read() -> None:
    done = oe("catalogue", "search", "seqs", "--framework", "vllm", "--engine-version", "9.9")
    assert done.code == 0
    last = ADAPTERS["vllm"].recorded_versions()[-1]
    assert done.err == f"oe: vllm 9.9 has no catalogue; {last} is the nearest\n"


def test_a_version_needs_its_engine_and_an_unknown_engine_is_refused() -> None:
    assert oe("catalogue", "search", "seqs", "--engine-version", "1").code == 2
    done = oe("catalogue", "search", "seqs", "--framework", "vlm")
    assert (done.code, done.err) == (
        1,
        'oe: no adapter is installed for framework "vlm"; did you mean "vllm"?\n',
    )
