"""The GPU deployments and the script that runs them, as far as no GPU is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from inferlab_adapters.control import inventory, wanted
from inferlab_adapters.control.client import connect
from inferlab_adapters.control.prepare import Prepared, prepare
from inferlab_adapters.control.types import Json
from tests.support import fake_vllm
from tests.support.adapters import ADAPTERS
from tests.support.engines import ROOT

GPU = ROOT / "examples" / "gpu"
DEPLOYMENTS = sorted(path.stem for path in GPU.glob("*.yaml"))
SCRIPT = ROOT / "scripts" / "gpu_smoke.sh"


def prepared(name: str) -> Prepared:
    """A deployment of examples/gpu on the machines that it is meant for."""
    found = wanted.load(str(GPU / f"{name}.yaml"), framework=None, stdin=BytesIO())
    version = ADAPTERS[found.framework].recorded_versions()[-1]
    machines = "two-nodes" if "two-node" in name else "one-node"
    return prepare(
        found,
        connect(found.framework, engine_version=version),
        inventory.load(str(GPU / "inventory" / f"{machines}.yaml")),
        native_router=True,
        strict=True,
    )


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_deployment_plans_and_renders(name: str) -> None:
    found = prepared(name)
    assert found.notes == ()
    assert found.wanted.name == f"gpu-smoke-{name}"
    used = [(one["machine"], device) for one in found.allocations for device in one["devices"]]
    assert len(used) == len(set(used))
    sizes = {"tp1": 1, "tp2": 2, "8gpu": 8, "tp16": 16}
    assert len(used) == sizes[name.rpartition("-")[2]]
    assert len(found.machines) == (2 if "two-node" in name else 1)


def test_both_engines_have_every_shape() -> None:
    shapes = {"tp1", "tp2", "1p1d-8gpu", "two-node-tp16"}
    assert {f"{e}-{s}" for e in ("vllm", "sglang") for s in shapes} < set(DEPLOYMENTS)


class Script:
    """The script on a machine with so many GPUs, which nothing looks at closer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engine_env = fake_vllm.environment(folder)
        paths = {"/reset_prefix_cache": 200, "/start_profile": 200, "/stop_profile": 200}
        self.engine: Json = {"paths": paths}

    def inventory(self, devices: int) -> list[str]:
        file = self.folder / "machines.yaml"
        machine = {"name": "here", "devices": devices, "ports": "20100-20199"}
        file.write_text(json.dumps({"machines": [machine]}), encoding="utf-8")
        return ["--inventory", str(file)]

    def run(self, *arguments: str, gpus: int = 0) -> tuple[int, dict[str, str]]:
        """Exit code, and the table: deployment to result and reason."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        nvidia_smi = tools / "nvidia-smi"
        numbers = "".join(f"echo {number}\n" for number in range(gpus))
        nvidia_smi.write_text(f"#!/bin/sh\n{numbers or 'exit 9'}", encoding="ascii")
        nvidia_smi.chmod(0o755)
        self.done = subprocess.run(
            [SCRIPT, *arguments],
            cwd=self.folder,
            env={
                "PATH": f"{tools}:/usr/bin:/bin",
                "HOME": str(self.folder),
                "TMPDIR": str(tools),
                "PYTHON": sys.executable,
                "FAKE_VLLM": json.dumps(self.engine),
            },
            capture_output=True,
            text=True,
        )
        _, _, table = self.done.stdout.partition("deployment  ")
        rows = (line.split(None, 1) for line in table.splitlines()[1:])
        return self.done.returncode, {row[0]: row[1] for row in rows if len(row) == 2}


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_the_list_says_why_nothing_runs_without_a_gpu(script: Script) -> None:
    code, rows = script.run("--list", "--engine-env", str(script.engine_env))
    assert code == 0
    assert sorted(rows) == DEPLOYMENTS
    assert rows["vllm-tp1"] == "skipped  no NVIDIA GPU here"
    assert rows["trtllm-tp1"] == "skipped  python3 has no tensorrt_llm; give --engine-env"


def test_the_list_says_what_fits(script: Script) -> None:
    names = ["vllm-tp1", "vllm-tp2", "vllm-two-node-tp16"]
    code, rows = script.run("--list", "--engine-env", str(script.engine_env), *names, gpus=1)
    assert code == 0
    assert rows["vllm-tp1"] == "can run"
    assert "needs 2 devices on one machine, the largest has 1" in rows["vllm-tp2"]
    assert "the tiny model has too few heads" in rows["vllm-two-node-tp16"]
    assert os.listdir(script.folder / "tools") == ["nvidia-smi"], "its scratch folder is gone"


def test_it_runs_what_fits_and_cleans_up(script: Script) -> None:
    engine = ["--engine-env", str(script.engine_env), "--model", "/models/llama"]
    options = [*engine, *script.inventory(1), "--out", "reports"]
    code, rows = script.run(*options, "vllm-tp1", "vllm-tp2", gpus=1)
    assert code == 0, script.done.stdout + script.done.stderr
    assert rows["vllm-tp1"].startswith("passed")
    assert rows["vllm-tp2"].startswith("skipped")
    folder = script.folder / "reports" / "vllm-tp1"
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["passed"]
    assert report["profile"]["start"]["server"]["ok"]
    assert (folder / "logs" / "server.log").exists()
    assert "oe: server: ready" in (folder / "oe.log").read_text(encoding="utf-8")
    assert os.listdir(script.folder / "tools") == ["nvidia-smi"]
    assert not list(script.folder.glob(".cache/oe/*"))


def test_a_failure_is_its_exit_code(script: Script) -> None:
    script.engine = {"fault": "exit"}
    engine = ["--engine-env", str(script.engine_env), "--model", "/models/llama"]
    code, rows = script.run(*engine, *script.inventory(1), "--out", "reports", "vllm-tp1", gpus=1)
    assert code == 3
    assert rows["vllm-tp1"].startswith("FAILED   exit code 3, see ")


def test_running_nothing_is_no_success(script: Script) -> None:
    code, rows = script.run("--engine-env", str(script.engine_env), "vllm-tp1")
    assert (code, rows) == (1, {"vllm-tp1": "skipped  no NVIDIA GPU here"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--liste"], "unknown option --liste"),
        (["--model"], "--model needs a value"),
        (["vllm-tp3"], "there is no examples/gpu/vllm-tp3.yaml"),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: list[str], said: str, script: Script) -> None:
    code, _ = script.run(*arguments)
    assert code == 2
    assert said in script.done.stderr
