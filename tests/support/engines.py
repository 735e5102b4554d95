"""The engine environments that scripts/engine_env.sh makes, where they are present."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from inferlab_adapters.control.real_parser import ask
from tests.support.adapters import ADAPTERS
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


def parsed(framework: str, argvs: Mapping[str, list[str]]) -> dict[str, Json]:
    """What an engine's own parsers answer to command lines, by the same names."""
    environment = engine_python(framework).parent.parent
    answers = ask(ADAPTERS[framework], environment, list(argvs.values()), TINY_MODEL)
    return dict(zip(argvs, answers, strict=True))


def own_namespaces() -> list[str]:
    """The command that runs a program in network and process namespaces of its own.

    Only a loopback exists there, and whatever the program leaves behind ends with it.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("namespaces of its own need root, unshare and ip")
    isolate = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*isolate, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
