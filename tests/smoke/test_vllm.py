"""Real vLLM servers on the CPU build, launched exactly as rendered."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.smoke.launch import EXAMPLES, launch
from tests.support.control_plane import Json

pytestmark = pytest.mark.smoke

drive = partial(launch, "oe_adapter_vllm", "vllm")


def test_a_single_server_completes_on_each_path(tmp_path: Path) -> None:
    report = drive(EXAMPLES / "vllm-cpu-single.json", tmp_path)
    assert report["reset"] == {"success": True}
    assert report["exit_codes"] == {"server": 0}


def test_prefill_and_decode_behind_the_router_complete_on_each_path(tmp_path: Path) -> None:
    report = drive(EXAMPLES / "vllm-cpu-prefill-decode.json", tmp_path)
    assert report["exit_codes"] == {"router": 0, "decode": 0, "prefill": 0}


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
    drive(file, tmp_path, ranks=2)
