"""Runs the smoke tests' control plane on a request, in namespaces of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.control_plane import Json
from tests.support.engines import ROOT, TINY_MODEL, engine_python, own_namespaces

EXAMPLES = ROOT / "examples"


def launch(adapter: str, engine: str, request: Path, folder: Path, ranks: int = 1) -> Json:
    """Run a deployment on the CPU; the driver's report."""
    engine_bin = engine_python(engine).parent
    module = [sys.executable, "-m", "tests.smoke.drive"]
    command = [*own_namespaces(), *module, adapter, request, ranks, engine_bin, TINY_MODEL, folder]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    report: Json = json.loads(done.stdout)
    print(json.dumps(report, indent=2))
    assert all(report["texts"].values())
    assert report["left_running"] == []
    return report
