"""A folder in which whole ``oe smoke`` runs of a stand-in engine happen."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from inferlab_adapters.cli.main import run
from inferlab_adapters.control import readiness, smoke, stop, supervisor
from inferlab_adapters.control.types import Json
from tests.control.fake_engine import free_port
from tests.support import fake_vllm


@dataclass(frozen=True, kw_only=True)
class Done:
    """What one run of the program did."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> Json:
        found: Json = json.loads(self.out)
        return found


class Bench:
    """A folder with an engine, an inventory and a deployment file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.engine_env = fake_vllm.environment(folder)
        self.port = free_port()
        self._capsys = capsys
        self.inventory(devices="cpu")

    def inventory(self, **machine: Any) -> None:
        here = {"name": "here", "ports": [self.port], "models": {"tiny": "/models/tiny"}}
        self._write("machines.json", {"machines": [{**here, **machine}]})

    def arguments(self, *options: str, deployment: Json | None = None, **engine: Any) -> list[str]:
        """The command line; ``engine`` is how the stand-in behaves."""
        variables = {"FAKE_VLLM": json.dumps(engine)}
        settings = {"openengine": False, "extra_env": variables}
        document: Json = {"framework": "vllm", "model": "tiny", "settings": settings}
        for key, value in (deployment or {}).items():
            document[key] = {**settings, **value} if key == "settings" else value
        file = self._write("fake.json", document)
        return [
            *("smoke", str(file), "--inventory", str(self.folder / "machines.json")),
            *("--engine-env", str(self.engine_env), "--timeout", "30", "--grace", "5"),
            *options,
        ]

    def smoke(self, *options: str, **how: Any) -> Done:
        """Run it."""
        code = run(self.arguments(*options, **how))
        said = self._capsys.readouterr()
        return Done(code=code, out=said.out, err=said.err)

    def _write(self, name: str, document: Json) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return path


@contextmanager
def opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Bench]:
    """The folder, with short waits; no test depends on how short."""
    monkeypatch.setenv("OE_STATE_DIR", str(folder / "state"))
    monkeypatch.setattr(smoke, "SETTLE_SECONDS", 0.3)
    monkeypatch.setattr(stop, "HELPERS_SECONDS", 0.3)
    for module, name in (
        *((smoke, "_POLL_SECONDS"), (stop, "_POLL_SECONDS")),
        *((readiness, "_POLL_SECONDS"), (supervisor, "POLL_SECONDS")),
    ):
        monkeypatch.setattr(module, name, 0.02)
    yield Bench(folder, capsys)
    stray = folder / "stray"
    if stray.exists():
        os.kill(int(stray.read_text()), signal.SIGKILL)
