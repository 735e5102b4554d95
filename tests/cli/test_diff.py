"""``oe diff`` tells what differs, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.invoke import oe
from tests.cli.prepared import case
from tests.support.control_plane import Json

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a deployment file with one server: a name and settings, and more keys."""

    def file(name: str, settings: Json | None = None, **keys: Any) -> Path:
        roles = {"serve": {"parallelism": {"tensor": 2}, "settings": settings or {}}}
        document = {"framework": "vllm", "model": {"id": "llama", "path": "/m"}, "roles": roles}
        path = tmp_path / name
        path.write_text(yaml.safe_dump({**document, **keys}), encoding="utf-8")
        return path

    return file


def data(*arguments: object) -> Json:
    done = oe("diff", *arguments, "--json")
    assert done.code == 0, done.err
    found: Json = json.loads(done.out)
    return found


VERSION = ("--engine-version", "0.33.0")


def test_equal_deployments_have_no_difference_whatever_their_names(write: Write) -> None:
    one, other = write("one.yaml"), write("other.yaml")
    done = oe("diff", one, other, *VERSION)
    assert (done.code, done.out) == (0, f"no difference between {one} and {other}\n")
    assert data(one, other, *VERSION)["same"] is True


def test_a_setting_shows_in_the_plan_and_in_the_process(write: Write) -> None:
    one = write("one.yaml", {"max_num_seqs": 4, "enforce_eager": True})
    other = write("other.yaml", {"max_num_seqs": 8, "extra_env": {"A": "b c"}})
    assert oe("diff", one, other, *VERSION).out == (
        f"- {one}\n"
        f"+ {other}\n"
        "\n"
        "role serve\n"
        "- settings.enforce_eager: true\n"
        "- settings.extra_env: {}\n"
        "- settings.max_num_seqs: 4\n"
        "+ settings.max_num_seqs: 8\n"
        '+ settings.extra_env.A: "b c"\n'
        "\n"
        "process server\n"
        "  command\n"
        "- --enforce-eager\n"
        "- --max-num-seqs 4\n"
        "+ --max-num-seqs 8\n"
        "  environment\n"
        "+ A='b c'\n"
    )


def test_options_are_paired_by_name_not_by_position(write: Write) -> None:
    one = write("one.yaml", {"extra_args": ["--seed", "1", "--max-num-seqs=4"]})
    other = write("other.yaml", {"extra_args": ["--max-num-seqs", "4", "--seed=-1"]})
    (process,) = data(one, other, *VERSION)["processes"]
    seeds = [["--seed", "1"]], [["--seed", "-1"]]
    assert process["argv"] == [{"name": "--seed", "before": seeds[0], "after": seeds[1]}]


def test_true_is_not_one(write: Write) -> None:
    one = write("one.yaml", {"speculative_config": {"a": True}})
    other = write("other.yaml", {"speculative_config": {"a": 1}})
    (part,) = data(one, other, *VERSION)["plan"]
    change = {"name": "settings.speculative_config.a", "before": True, "after": 1}
    assert part["changes"] == [change]


def test_renamed_roles_and_added_replicas_are_paired_by_what_they_are(tmp_path: Path) -> None:
    request = case("sglang", "1p1d-nixl-builtin").request
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps(request), encoding="utf-8")
    changed = json.loads(json.dumps(request))
    changed["input"]["roles"][0]["id"] = "first"
    changed["input"]["roles"][1]["replica_count"] = 2
    other.write_text(json.dumps(changed), encoding="utf-8")
    found = data(one, other, "--framework", "sglang", "--engine-version", "0.5.23")
    prefill = next(part for part in found["plan"] if part["part"] == "role prefill")
    assert prefill["changes"] == [{"name": "id", "before": "prefill", "after": "first"}]
    pairs = [(process["before"], process["after"]) for process in found["processes"]]
    assert (None, "decode-001") in pairs
    # The prefill process, renamed, and the decode process differ in ports at most.
    changed_options = {
        change["name"]
        for process in found["processes"]
        if process["before"] and process["after"]
        for change in process["argv"]
    }
    assert changed_options <= {"--port", "--nccl-port", "--disaggregation-bootstrap-port"}


def test_launch_files_are_compared_line_by_line(write: Write) -> None:
    pair = {
        "framework": "tensorrt-llm",
        "kv_transfer": "nixl",
        "roles": {"prefill": {}, "decode": {"settings": {"max_batch_size": 4}}},
    }
    one = write("one.yaml", **pair)
    pair["roles"] = {
        "prefill": {
            "settings": {"extra_llm_api_options_patch": {"kv_cache_config": {"host_cache_size": 9}}}
        },
        "decode": {"settings": {"max_batch_size": 4}},
    }
    other = write("other.yaml", **pair)
    done = oe("diff", one, other, "--engine-version", "1.4.0rc")
    assert done.code == 0, done.err
    tail = done.out[done.out.index("process prefill") :]
    assert tail.startswith("process prefill\n  launch file extra_llm_api_options.yaml\n@@ ")
    assert "\n+  host_cache_size: 9\n" in tail
    # The digest in the file's path is no difference of its own.
    assert "--extra_llm_api_options" not in tail


def test_two_versions_of_one_engine(write: Write) -> None:
    file = write("one.yaml")
    found = data(file, "--versions", "0.32.0", "0.33.0")
    (engine,) = found["plan"]
    versions = {"name": "framework_version", "before": "0.32.0", "after": "0.33.0"}
    assert engine == {"part": "engine", "changes": [versions]}
    assert found["processes"] == []


def test_an_option_that_only_one_version_has_is_the_difference(write: Write) -> None:
    file = write("one.yaml", {"bananas": 1})
    # 0.1 has no catalogue, so that an unknown option is passed on there.
    done = oe("diff", file, "--versions", "0.1.0", "0.33.0")
    assert done.code == 0
    assert done.out == (
        "- 0.1.0\n+ 0.33.0\n"
        "+ refused by 0.33.0: /roles/serve/settings/bananas: is no option of version 0.33.0\n"
    )
    found = data(file, "--versions", "0.1.0", "0.33.0")
    assert (found["compared"], found["after"]["refused"], found["same"]) == (False, True, False)


def test_what_both_sides_refuse_is_refused(write: Write) -> None:
    file = write("one.yaml", {"bananas": 1})
    done = oe("diff", file, "--versions", "0.32.0", "0.33.0")
    assert done.code == 1
    assert [line.split(":")[1] for line in done.err.splitlines()] == [" 0.32.0", " 0.33.0"]


def test_two_engines_for_one_request(write: Write) -> None:
    file = write("one.yaml", {"max_num_seqs": 4})
    done = oe("diff", file, "--frameworks", "vllm", "sglang")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[2].startswith("+ refused by sglang: /roles/serve/settings/max_num_seqs: ")
    assert lines[2].endswith(" (compared without it)")
    assert "- settings.max_num_seqs: 4" in lines
    assert "- --tensor-parallel-size 2" in lines
    assert "+ --tp-size 2" in lines


def test_an_engine_that_refuses_more_than_settings_is_told_so(write: Write) -> None:
    roles: Json = {"prefill": {}, "decode": {}}
    file = write("one.yaml", framework=None, roles=roles, kv_transfer="mooncake")
    done = oe("diff", file, "--frameworks", "vllm", "tensorrt-llm")
    assert done.code == 0
    assert done.out.startswith(
        '- vllm\n+ tensorrt-llm\n+ refused by tensorrt-llm: /kv_transfer: "mooncake" is not'
    )


def test_an_inventory_places_both_sides(write: Write, tmp_path: Path) -> None:
    inventory = tmp_path / "machines.yaml"
    machine = {"name": "big", "address": "10.0.0.9", "devices": [0], "ports": "8000-8001"}
    inventory.write_text(yaml.safe_dump({"machines": [machine]}), encoding="utf-8")
    smaller = write("other.yaml", roles={"serve": {}})
    done = oe("diff", write("one.yaml"), smaller, *VERSION, "--inventory", inventory)
    assert done.code == 0, done.err
    assert "needs 2 devices" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"],
        ["a", "b", "c"],
        ["-", "-"],
        ["a", "b", "--versions", "1", "2"],
        ["a", "--versions", "1", "2", "--frameworks", "vllm", "sglang"],
        ["a", "--versions", "1", "2", "--engine-version", "1"],
        ["a", "--frameworks", "vllm", "sglang", "--framework", "vllm"],
    ],
)
def test_wrong_command_lines(arguments: list[str]) -> None:
    done = oe("diff", *arguments)
    assert (done.code, done.out) == (2, "")
