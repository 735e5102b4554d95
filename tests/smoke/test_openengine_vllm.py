"""The vLLM backend on two real servers, started once for all checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.smoke.openengine_vllm import MODULES
from tests.smoke.openengine_vllm_support import CHECKS
from tests.support.engines import ROOT, engine_python, own_namespaces

pytestmark = pytest.mark.smoke

assert MODULES  # Importing them has filled CHECKS.


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What every check said: nothing, or what went wrong."""
    engine_python("vllm")
    folder = tmp_path_factory.mktemp("openengine_vllm")
    path = os.pathsep.join((str(ROOT), str(ROOT / "integrations" / "vllm")))
    done = subprocess.run(
        [*own_namespaces(), sys.executable, "-m", "tests.smoke.openengine_vllm", str(folder)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, str] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return told


@pytest.mark.parametrize("name", list(CHECKS))
def test_the_backend(name: str, results: dict[str, str]) -> None:
    assert results[name] == ""


def test_every_check_was_made(results: dict[str, str]) -> None:
    assert results.keys() == CHECKS.keys()
    assert len(CHECKS) >= 15
