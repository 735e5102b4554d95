"""Real servers on GPUs: every deployment of examples/gpu, by ``oe smoke``.

- ``OE_GPU_VLLM_ENV``, ``OE_GPU_SGLANG_ENV``, ``OE_GPU_TRTLLM_ENV``: the virtual environments that
  hold the engines; without one, the engine must be on PATH.
- ``OE_GPU_MODEL``: the model; without it, ``.engines/tiny-model``, for at most four ranks.
- ``OE_GPU_INVENTORY``: machines for what needs more than this one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest

from inferlab_adapters.control import gpus, wanted
from inferlab_adapters.control.client import connect
from inferlab_adapters.control.prepare import planned
from tests.smoke.oe import EXAMPLES, check
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import Json
from tests.support.engines import TINY_MODEL

pytestmark = [pytest.mark.smoke, pytest.mark.gpu]

DEPLOYMENTS = sorted((EXAMPLES / "gpu").glob("*.yaml"))
TINY_HEADS = 4
READY_SECONDS = 1800


@cache
def gpus_here() -> int:
    return len(gpus.present())


def plan_of(file: Path) -> Json:
    found = wanted.load(str(file), framework=None, stdin=BytesIO())
    version = ADAPTERS[found.framework].recorded_versions()[-1]
    return planned(found, connect(found.framework, engine_version=version))


def engine_options(engine: str) -> list[str]:
    variable = f"OE_GPU_{engine.upper()}_ENV"
    if folder := os.environ.get(variable):
        return ["--engine-env", folder]
    module = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}[engine]
    if shutil.which("vllm") if engine == "vllm" else find_spec(module):
        return []
    pytest.skip(f"no {engine} on PATH: set {variable}")


def model_option(ranks: int) -> list[str]:
    if model := os.environ.get("OE_GPU_MODEL"):
        return ["--model", model]
    if ranks > TINY_HEADS:
        pytest.skip(f"the tiny model has no {ranks} heads: set OE_GPU_MODEL")
    if TINY_MODEL.exists():
        return ["--model", str(TINY_MODEL)]
    pytest.skip("no model: set OE_GPU_MODEL, or run scripts/make_tiny_model.py .engines/tiny-model")


def inventory_option(devices: int) -> list[str]:
    if file := os.environ.get("OE_GPU_INVENTORY"):
        return ["--inventory", file]
    here = gpus_here()
    if here >= devices:
        return []
    pytest.skip(f"needs {devices} GPUs, here are {here}: set OE_GPU_INVENTORY")


@pytest.mark.parametrize("file", DEPLOYMENTS, ids=lambda path: path.stem)
def test_a_deployment_answers_on_gpus(file: Path, tmp_path: Path) -> None:
    if not gpus_here() and "OE_GPU_INVENTORY" not in os.environ:
        pytest.skip("no NVIDIA GPU here")
    replicas = plan_of(file)["replicas"]
    options = [
        *inventory_option(sum(replica["device_count"] for replica in replicas)),
        *engine_options(file.stem.partition("-")[0]),
        *model_option(max(replica["device_count"] for replica in replicas)),
    ]
    # Beside the deployment lies the working directory of its processes.
    copy = shutil.copy(file, tmp_path / file.name)
    command = [sys.executable, "-m", "inferlab_adapters.cli", "smoke", copy, "--json", *options]
    command += ["--artifacts", tmp_path / "artifacts", "--timeout", str(READY_SECONDS)]
    env = {**os.environ, "OE_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(list(map(str, command)), env=env, stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    report: Json = json.loads(done.stdout)
    assert (done.returncode, report["passed"], report["reason"]) == (0, True, [])
    check(report, tmp_path)
