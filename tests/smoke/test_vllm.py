"""Real vLLM servers on the CPU build, by ``oe smoke``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.smoke.oe import ALL_ENDED_WELL, EXAMPLES, oe_smoke
from tests.support.control_plane import Json
from tests.support.engines import ROOT

pytestmark = pytest.mark.smoke

drive = partial(oe_smoke, "vllm", "vllm")


def test_a_single_server_completes_on_each_path(tmp_path: Path) -> None:
    report = drive(EXAMPLES / "vllm-cpu-single.json", tmp_path)
    assert report["reset"]["answer"] == {"success": True}
    assert report["exits"] == {"server": ALL_ENDED_WELL}


def test_prefill_and_decode_behind_the_router_complete_on_each_path(tmp_path: Path) -> None:
    report = drive(EXAMPLES / "vllm-cpu-prefill-decode.json", tmp_path)
    assert report["exits"] == dict.fromkeys(("router", "decode", "prefill"), ALL_ENDED_WELL)


def test_prefill_and_decode_over_mooncake_complete_on_each_path(tmp_path: Path) -> None:
    request = json.loads((EXAMPLES / "vllm-cpu-prefill-decode.json").read_text(encoding="utf-8"))
    request["input"]["kv_transfer"] = "mooncake"
    for role in request["input"]["roles"]:
        if role["kind"] != "router":
            role["settings"]["extra_env"]["PYTHONPATH"] = str(ROOT / "tests/smoke/accelerator")
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request), encoding="utf-8")
    report = drive(file, tmp_path)
    assert report["openengine"]["handoff"]["tokens"] > 0
    assert report["exits"] == dict.fromkeys(("router", "decode", "prefill"), ALL_ENDED_WELL)


@pytest.mark.parametrize(
    "shape",
    [{"outer": {"tensor_parallel_size": 2}}, {"attention": {"data_parallel_size": 2}}],
    ids=["tensor", "data"],
)
def test_a_replica_of_two_processes_completes(shape: Json, tmp_path: Path) -> None:
    request = json.loads((EXAMPLES / "vllm-cpu-single.json").read_text(encoding="utf-8"))
    request["input"]["roles"][0]["parallelism"] = shape
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request), encoding="utf-8")
    report = drive(file, tmp_path, ranks=2)
    assert len(report["processes"]) == len(set(report["processes"].values())) == 2
