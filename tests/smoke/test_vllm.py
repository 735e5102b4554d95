"""Real vLLM servers on the CPU build, launched exactly as rendered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.control_plane import Json
from tests.support.engines import ROOT, TINY_MODEL, engine_python, own_namespaces

pytestmark = pytest.mark.smoke


def drive(example: str, folder: Path) -> Json:
    """Run an example deployment in namespaces of its own; the driver's report."""
    engine_bin = engine_python("vllm").parent
    request = ROOT / "examples" / example
    command = [sys.executable, "-m", "tests.smoke.drive", request, engine_bin, TINY_MODEL, folder]
    done = subprocess.run(
        [*own_namespaces(), *map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0
    report: Json = json.loads(done.stdout)
    print(json.dumps(report, indent=2))
    return report


def test_a_single_server_completes_on_each_path_and_leaves_nothing(tmp_path: Path) -> None:
    report = drive("vllm-cpu-single.json", tmp_path)
    assert all(report["texts"].values())
    assert report["reset"] == {"success": True}
    assert report["left_running"] == []


def test_prefill_and_decode_behind_the_router_complete_on_each_path(tmp_path: Path) -> None:
    report = drive("vllm-cpu-prefill-decode.json", tmp_path)
    assert all(report["texts"].values())
    assert report["left_running"] == []
