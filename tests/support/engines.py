"""The engine environments that scripts/engine_env.sh makes, where they are present."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.control_plane import Json

ROOT = Path(__file__).parents[2]
ENGINES = ROOT / ".engines"
TINY_MODEL = ENGINES / "tiny-model"


def engine_python(name: str) -> Path:
    """The Python of an engine environment; skips where there is none, but never in CI."""
    python = ENGINES / name / "bin" / "python"
    if python.exists():
        return python
    reason = f"no engine environment: run scripts/engine_env.sh {name}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def parsed(engine: str, argvs: Mapping[str, list[str]]) -> dict[str, Json]:
    """What an engine's own parsers answer to command lines, by the same names.

    One process of the engine answers all: importing it takes longest.
    """
    python = engine_python(engine)
    done = subprocess.run(
        [python, ROOT / "tests" / "engine" / "command_line.py", TINY_MODEL],
        input=json.dumps(list(argvs.values())),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(zip(argvs, json.loads(done.stdout), strict=True))


def own_namespaces() -> list[str]:
    """The command that runs a program in network and process namespaces of its own.

    Only a loopback exists there, and whatever the program leaves behind ends with it.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("namespaces of its own need root, unshare and ip")
    isolate = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*isolate, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
