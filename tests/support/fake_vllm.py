"""A stand-in for an installed vLLM: an environment whose ``vllm serve`` answers as scripted.

The variable ``FAKE_VLLM`` holds JSON: ``fault`` and ``paths`` as in ``fake_openai``, and ``stray``,
a file for the id of a helper that nothing ties to the engine and that keeps its port open.

Its ``python3`` is this one; what serves OpenEngine gets the backend ``fake_openengine``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.support.fake_openai import FakeOpenAi, wait_forever

ROOT = Path(__file__).parents[2]
VERSION = "0.32.0"

_SCRIPT = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.fake_vllm import main
main(sys.argv[1:])
"""

_PYTHON = f"""#!/bin/sh
if [ "$2" = inferlab_adapters.openengine ]; then
  shift 3
  export PYTHONPATH="{ROOT}${{PYTHONPATH:+:$PYTHONPATH}}"
  set -- -m inferlab_adapters.openengine serve --backend tests.support.fake_openengine "$@"
fi
exec "{sys.executable}" "$@"
"""


def environment(folder: Path) -> Path:
    """Make a virtual environment with this engine in it; its folder."""
    engine_env = folder / "engine"
    metadata = f"lib/python3.11/site-packages/vllm-{VERSION}.dist-info/METADATA"
    for name, text in (
        ("bin/vllm", _SCRIPT),
        ("bin/python3", _PYTHON),
        (metadata, f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n"),
    ):
        path = engine_env / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    return engine_env


def main(arguments: list[str]) -> None:
    """Serve as ``vllm serve MODEL`` would."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    asked, _ = parser.parse_known_args(arguments)
    how: dict[str, Any] = json.loads(os.environ.get("FAKE_VLLM", "{}"))
    if how.get("fault") == "exit":
        print("RuntimeError: no such model", flush=True)
        sys.exit(7)
    with FakeOpenAi(
        host=asked.host,
        port=asked.port,
        model=asked.served_model_name,
        fault=how.get("fault", ""),
        paths=how.get("paths", {}),
    ) as server:
        if "stray" in how:
            _leave_behind(server, Path(how["stray"]))
        wait_forever(server)


def _leave_behind(server: FakeOpenAi, file: Path) -> None:
    """Start a process of another parent, session and environment that has our socket open."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    child = os.fork()
    if child:
        file.write_text(str(child), encoding="ascii")
        os._exit(0)
    os.set_inheritable(server.fileno(), True)
    os.execve(sys.executable, [sys.executable, "-ISc", "import time; time.sleep(600)"], {})
