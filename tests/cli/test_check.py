"""``oe check``: all faults at once, and the engine's own word."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.invoke import oe
from tests.support.engines import TINY_MODEL, engine_python

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = ROOT / "examples" / "deployments"
BAD = "\n".join(
    [
        "framework: vllm",
        "model: {id: m, path: /m, served_name: -x}",
        "kv_transfer: nixl",
        "settings: {a: 1, b: 2, c: 3, d: 4, e: 5, f: 6}",
        "roles: {serve: {parallelism: {tensor: 2, expert: 3}}}",
    ]
)


def test_all_faults_in_one_go() -> None:
    done = oe("check", "-", "--engine-version", "0.33.0", stdin=BAD)
    assert (done.code, done.out) == (1, "")
    lines = done.err.splitlines()
    assert all(line.startswith("oe: stdin: /") for line in lines)
    for where in (
        *(f"/settings/{name}" for name in "abcdef"),
        "/model/served_name",
        "/kv_transfer",
        "/roles/serve/parallelism/expert",
    ):
        assert len([line for line in lines if line.startswith(f"oe: stdin: {where}: ")]) == 1


def test_the_same_as_data() -> None:
    done = oe("check", "-", "--json", "--engine-version", "0.33.0", stdin=BAD)
    assert (done.code, done.err) == (1, "")
    report = json.loads(done.out)
    assert report["framework_version"] == "0.33.0"
    assert len(report["faults"]) == 9
    assert {"pointer", "what", "fix"} == set(report["faults"][0])


def test_what_only_placement_sees(tmp_path: Path) -> None:
    inventory = tmp_path / "m.yaml"
    inventory.write_text("machines: [{name: a, address: 10.0.0.1, devices: 1}]")
    text = "framework: vllm\nmodel: {id: m, path: /m}\nroles: {serve: {parallelism: {tensor: 2}}}"
    assert oe("check", "-", stdin=text).code in (0, 1)
    done = oe("check", "-", "--inventory", inventory, stdin=text)
    assert done.code == 1
    assert "needs 2 devices on one machine, the largest has 1" in done.err


def test_fine_is_said_with_the_version() -> None:
    file = DEPLOYMENTS / "vllm-cpu-single.yaml"
    done = oe("check", file, "--model", "/m", "--engine-version", "0.32.0")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{file}: fine for vllm 0.32.0, would start 1 process\n"


def test_a_placed_request_is_checked_too() -> None:
    render = ROOT / "examples" / "render-single.json"
    assert oe("check", render, "--framework", "vllm").code == 0
    assert oe("check", render, "--framework", "vllm", "--inventory", "x").code == 2


def fake_engine(folder: Path, program: str) -> Path:
    """An environment whose Python answers as the engine's would."""
    site = folder / "lib" / "python3.11" / "site-packages" / "vllm-0.32.0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Name: vllm\nVersion: 0.32.0\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!{sys.executable}\n{program}")
    python.chmod(0o755)
    return folder


def test_what_the_engine_says_is_a_fault_or_a_note(tmp_path: Path) -> None:
    says = (
        "import json, sys\n"
        "argvs = json.load(sys.stdin)\n"
        "print(json.dumps([{'error': 'I will not'}, {'values': {}, 'note': 'half of it'}]"
        "[:len(argvs)]))\n"
    )
    engine = fake_engine(tmp_path / "engine", says)
    text = "framework: vllm\nmodel: {id: m, path: /m}\nroles: {serve: {replicas: 2}}"
    done = oe("check", "-", "--against", engine, stdin=text)
    assert done.code == 1
    assert "the engine refuses the command of server-000: I will not" in done.err
    assert "oe: server-001: half of it" in done.err


def test_an_engine_that_cannot_be_asked(tmp_path: Path) -> None:
    engine = fake_engine(tmp_path / "engine", "raise SystemExit('no module named vllm')")
    text = "framework: vllm\nmodel: {id: m, path: /m}"
    done = oe("check", "-", "--against", engine, stdin=text)
    assert done.code == 1
    assert "could not be asked: no module named vllm" in done.err
    (engine / "bin" / "python").unlink()
    assert "it has no bin/python" in oe("check", "-", "--against", engine, stdin=text).err


@pytest.mark.engine
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_real_engine_takes_what_is_rendered(engine: str) -> None:
    environment = engine_python(engine).parent.parent
    file = DEPLOYMENTS / f"{engine}-cpu-single.yaml"
    done = oe("check", file, "--against", environment, "--model", TINY_MODEL)
    assert done.code == 0, done.err
    assert "its own parser takes 1 process" in done.out


@pytest.mark.engine
def test_the_real_engine_refuses_what_passed_here() -> None:
    environment = engine_python("vllm").parent.parent
    # What options need together, the engine checks; no catalogue knows it.
    text = "framework: vllm\nmodel: {id: m, path: /m}\nsettings: {enable_auto_tool_choice: true}"
    assert oe("check", "-", stdin=text).code == 0
    done = oe("check", "-", "--against", environment, stdin=text)
    assert done.code == 1
    assert "the engine refuses the command of server: " in done.err
    assert "tool-call-parser" in done.err
