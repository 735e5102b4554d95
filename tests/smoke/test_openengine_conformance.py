"""Real vLLM servers that ``oe up`` started keep to OpenEngine, and live through what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.smoke.openengine_served_pair_checks import PAIR
from tests.smoke.openengine_served_single_checks import SINGLE
from tests.support.engines import ROOT, engine_python, own_namespaces

pytestmark = pytest.mark.smoke


def run(shape: str, folder: Path) -> dict[str, str]:
    """What every check of a shape said; all that was started has ended."""
    engine_python("vllm")
    left = folder / "left.json"
    command = [
        *own_namespaces(),
        *(sys.executable, "-m", "tests.smoke.inside", str(left), "--"),
        *(sys.executable, "-m", "tests.smoke.openengine_served", str(folder), shape),
    ]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "OE_STATE_DIR": str(folder / "state")}
    done = subprocess.run(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(left.read_text(encoding="utf-8")) == []
    told: dict[str, str] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return told


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run("single", tmp_path_factory.mktemp("single"))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return run("pair", tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("name", list(SINGLE))
def test_one_server(name: str, single: dict[str, str]) -> None:
    if single[name]:
        pytest.fail(single[name], pytrace=False)


@pytest.mark.parametrize("name", list(PAIR))
def test_prefill_and_decode(name: str, pair: dict[str, str]) -> None:
    if pair[name]:
        pytest.fail(pair[name], pytrace=False)
