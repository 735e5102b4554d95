"""Runs ``oe smoke`` on the CPU, in namespaces of its own, and checks what every run must show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.control_plane import Json
from tests.support.engines import ENGINES, ROOT, TINY_MODEL, engine_python, own_namespaces
from tests.support.schema import validator

EXAMPLES = ROOT / "examples"
READY_SECONDS = 420
ALL_ENDED_WELL = "ended with exit code 0"

# Addresses that no network has (RFC 5737); a loopback one would not do between two machines.
_ADDRESSES = ("192.0.2.1", "192.0.2.2")
_PORTS = 40


def oe_smoke(framework: str, engine: str, file: Path, folder: Path, ranks: int = 1) -> Json:
    """The report on a deployment, whose replicas are spread over so many processes.

    With several, each has a machine of its own, which are all this one.
    """
    engine_python(engine)
    if file.parent != folder:
        # Beside the deployment lies the working directory of its processes.
        file = Path(shutil.copy(file, folder))
    addresses = _ADDRESSES[:ranks] if ranks > 1 else ()
    options: dict[str, str | Path] = {
        "--framework": framework,
        "--inventory": _inventory(folder, addresses),
        "--engine-env": ENGINES / engine,
        "--artifacts": folder / "artifacts",
        "--timeout": str(READY_SECONDS),
    }
    left = folder / "left.json"
    command = [
        *own_namespaces(),
        *(sys.executable, "-m", "tests.smoke.inside", left),
        *(f"--address={address}" for address in addresses),
        "--",
        *(sys.executable, "-m", "inferlab_adapters.cli", "smoke", file, "--json"),
        *(f"{name}={value}" for name, value in options.items()),
    ]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "OE_STATE_DIR": str(folder / "state")}
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    print(done.stdout)
    report: Json = json.loads(done.stdout)
    assert (done.returncode, report["passed"], report["reason"]) == (0, True, [])
    check(report, folder)
    assert json.loads(left.read_text(encoding="utf-8")) == []
    return report


def check(report: Json, folder: Path) -> None:
    """What holds for every deployment that passed."""
    validator("EvalClientResult").validate(report["eval"])
    assert report["eval"]["status"] == "succeeded"
    assert report["leftovers"] == []
    assert report["exits"].keys() == report["processes"].keys()
    for name, key in (("completions", "text"), ("chat", "message")):
        answer = json.loads((folder / "artifacts" / f"{name}.response.json").read_text())
        said = answer["choices"][0][key]
        assert said["content"] if key == "message" else said


def _inventory(folder: Path, addresses: tuple[str, ...]) -> Path:
    # The CPUs of one machine take any number of ranks, so numbered devices spread them.
    machines: list[Json] = [
        {"name": f"here-{index}", "address": address, "devices": [index]}
        for index, address in enumerate(addresses)
    ]
    machines = machines or [{"name": "here", "address": "127.0.0.1", "devices": "cpu"}]
    for index, machine in enumerate(machines):
        first = 8000 + index * _PORTS
        machine |= {
            "ports": f"{first}-{first + _PORTS - 1}",
            "models": {"tiny": str(TINY_MODEL)},
            "cache": str(folder / "cache" / machine["name"]),
        }
    path = folder / "machines.json"
    path.write_text(json.dumps({"machines": machines}), encoding="utf-8")
    return path
