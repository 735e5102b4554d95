"""Whole ``oe smoke`` runs of a stand-in engine that is started by what serves OpenEngine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferlab_adapters.control import openengine_checks
from inferlab_adapters.control.openengine_checks import TOKENS
from inferlab_adapters.control.state import StateRoot
from inferlab_adapters.control.types import Json
from tests.control.fake_engine import free_port
from tests.control.smoke_bench import Bench, opened


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Bench]:
    with opened(tmp_path, monkeypatch, capsys) as found:
        found.inventory(devices="cpu", ports=[found.port, free_port()])
        yield found


SPEAKS: Json = {"settings": {"openengine": True}}


def test_a_deployment_that_speaks_it_is_asked(bench: Bench) -> None:
    done = bench.smoke("--json", deployment=SPEAKS)
    report = done.report
    assert (done.code, report["passed"], report["reason"]) == (0, True, [])
    assert report["eval"]["status"] == "succeeded"
    told = report["openengine"]["replicas"]["server"]
    assert (told["role"], told["instance_id"]) == ("aggregated", "server")
    assert {one["tokens"] for one in told["generate"].values()} == {TOKENS}
    assert report["leftovers"] == []


def test_a_bad_answer_over_it_is_in_the_table(bench: Bench) -> None:
    done = bench.smoke(deployment=SPEAKS, openengine="no_text")
    assert done.code == 3
    rows = {line[:22].strip(): line[22:].strip() for line in done.out.splitlines()[1:]}
    assert rows["OpenEngine of server"].startswith("aggregated, HEALTH_STATE_READY, SERVING in ")
    assert (rows["requests"], rows["result"]) == ("succeeded", "failed")
    assert "oe: OpenEngine of server (seed): Generate: the text is empty\n" in done.err


def test_it_can_be_left_out(bench: Bench) -> None:
    # This engine would fail the checks.
    done = bench.smoke("--json", "--no-openengine", deployment=SPEAKS, openengine="no_text")
    assert (done.code, done.report["openengine"]) == (0, None)
    assert done.report["notes"] == ["OpenEngine is left out, though the deployment speaks it"]


def test_ctrl_c_ends_it_all(bench: Bench) -> None:
    # The engine takes the request and says nothing, so the signal comes while oe waits for it.
    arguments = bench.arguments("--json", deployment=SPEAKS, openengine="hang")
    command = [sys.executable, "-m", "inferlab_adapters.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as oe:
        assert oe.stderr is not None
        assert any(line.startswith(b"oe: asking over OpenEngine") for line in oe.stderr)
        oe.send_signal(signal.SIGINT)
        out, err = oe.communicate()
    assert (oe.returncode, out) == (128 + signal.SIGINT, b"")
    assert err.endswith(b"oe: everything is stopped\n")
    assert b"Traceback" not in err
    assert StateRoot(bench.folder / "state").deployments() == []


def test_without_grpc_nothing_is_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc", "grpc.aio"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, openengine_checks.__name__)
    done = bench.smoke("--json", deployment=SPEAKS)
    assert (done.code, done.out) == (1, "")
    assert "pip install 'inferlab-adapters[openengine]'" in done.err
    assert "--no-openengine" in done.err
    assert not (bench.folder / "state" / "fake" / "state.json").exists()


def test_what_does_not_speak_it_needs_no_grpc(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    monkeypatch.delitem(sys.modules, openengine_checks.__name__)
    report = bench.smoke("--json").report
    assert (report["passed"], report["openengine"]) == (True, None)
    assert json.loads((Path(report["artifacts"]) / "report.json").read_text()) == report
