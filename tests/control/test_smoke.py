"""Whole ``oe smoke`` runs of a stand-in engine: real processes, real HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferlab_adapters.control import gpus
from inferlab_adapters.control.state import StateRoot
from inferlab_adapters.control.types import Json
from tests.control.smoke_bench import Bench, opened
from tests.support import fake_vllm
from tests.support.schema import validator

CONTROL_PATHS = {"/reset_prefix_cache": 200, "/start_profile": 200, "/stop_profile": 200}


@pytest.fixture
def bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Bench]:
    with opened(tmp_path, monkeypatch, capsys) as found:
        yield found


FULL: Json = {"profiling": True, "settings": {"dev_endpoints": True}}


def test_a_good_deployment_passes(bench: Bench) -> None:
    folder = bench.folder / "out"
    done = bench.smoke(
        *("--json", "--artifacts", str(folder), "--prompt", "tell me", "--max-tokens", "3"),
        deployment=FULL,
        paths=CONTROL_PATHS,
    )
    report = done.report
    assert (done.code, report["passed"], report["reason"]) == (0, True, [])
    assert (report["name"], report["framework"]) == ("fake", "vllm")
    assert report["framework_version"] == fake_vllm.VERSION
    assert list(report["ready_seconds"]) == ["server"]
    assert report["processes"] == {"server": "here"}
    assert report["endpoint"] == f"http://127.0.0.1:{bench.port}"
    assert report["reset"]["answer"] == {"success": True}
    assert report["profile"]["start"]["server"]["ok"]
    assert report["profile"]["work"]["answer"]["choices"][0]["text"] == "one two three"
    assert report["profile"]["stop"]["server"]["ok"]
    assert list(report["exits"]) == ["server"]
    assert report["leftovers"] == []
    assert json.loads((folder / "report.json").read_text(encoding="utf-8")) == report
    validator("EvalClientResult").validate(report["eval"])
    assert report["eval"]["status"] == "succeeded"
    asked = json.loads((folder / "completions.request.json").read_text(encoding="utf-8"))
    assert (asked["prompt"], asked["max_tokens"]) == ("tell me", 3)
    whole = json.loads((folder / "eval-request.json").read_text(encoding="utf-8"))
    validator("EvalClientRequest").validate(whole)
    assert whole["model"] == {"locator": "/models/tiny", "served_name": "tiny"}


def test_only_what_is_planned_is_called(bench: Bench) -> None:
    report = bench.smoke("--json").report
    assert report["passed"], report["reason"]
    assert (report["reset"], report["profile"]) == (None, None)


def test_a_table_tells_the_same(bench: Bench) -> None:
    done = bench.smoke(deployment=FULL, paths=CONTROL_PATHS)
    rows = {line[:22].strip(): line[22:].strip() for line in done.out.splitlines()[1:]}
    assert done.out.startswith("smoke test of fake:\n")
    assert rows["engine"] == f"vllm {fake_vllm.VERSION}"
    assert rows["requests"] == "succeeded"
    assert rows["completions"].startswith("3 tokens in ")
    assert ", the first after " in rows["chat stream"]
    assert rows["streamed texts"] == "as the whole answers"
    assert rows["prefix cache reset"].startswith("POST /reset_prefix_cache answered HTTP 200")
    assert rows["profile"] == "taken"
    assert rows["left behind"] == "nothing"
    assert rows["result"] == "passed"
    assert "oe: server: ready" in done.err
    assert Path(rows["artifacts"], "report.json").exists()


def test_an_answer_that_is_wrong_fails(bench: Bench) -> None:
    done = bench.smoke("--json", fault="no_done")
    assert (done.code, done.report["passed"]) == (3, False)
    assert done.report["eval"]["failure_kind"] == "probe_malformed_response"
    assert "ends without [DONE]" in done.report["reason"][0]
    assert done.report["leftovers"] == []


def test_a_failed_start_is_a_report_too(bench: Bench) -> None:
    done = bench.smoke("--json", fault="exit")
    report = done.report
    assert (done.code, report["passed"], report["eval"]) == (3, False, None)
    assert report["reason"][0].startswith("server ended with exit code 7 before all was ready")
    assert "  RuntimeError: no such model" in report["reason"]
    assert report["framework_version"] == fake_vllm.VERSION
    assert (report["ready_seconds"], report["leftovers"]) == ({}, [])


def test_a_failed_start_is_a_table_too(bench: Bench) -> None:
    done = bench.smoke(fault="exit")
    assert done.code == 3
    assert done.out.rstrip().endswith("failed")
    assert "oe: server ended with exit code 7" in done.err


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/reset_prefix_cache", "prefix cache reset: POST /reset_prefix_cache answered HTTP 500"),
        ("/start_profile", "start of the profile of server: POST /start_profile answered HTTP"),
        ("/stop_profile", "stop of the profile of server: POST /stop_profile answered HTTP 500"),
    ],
)
def test_a_control_call_that_is_not_done_fails(path: str, said: str, bench: Bench) -> None:
    done = bench.smoke("--json", deployment=FULL, paths={**CONTROL_PATHS, path: 500})
    assert done.code == 3
    assert len(done.report["reason"]) == 1
    assert said in done.report["reason"][0]


def test_a_reset_that_says_no_fails(bench: Bench) -> None:
    # 200, and {"success": false} in the body.
    paths = {**CONTROL_PATHS, "/reset_prefix_cache": 201}
    report = bench.smoke("--json", deployment=FULL, paths=paths).report
    assert report["reset"]["status"] == 201
    assert report["reason"] == [f"prefix cache reset: {report['reset']['said']}"]


def test_an_engine_that_leaves_a_process_behind_fails(bench: Bench) -> None:
    done = bench.smoke("--json", stray=str(bench.folder / "stray"))
    report = done.report
    assert report["eval"]["status"] == "succeeded"
    assert (done.code, report["passed"]) == (3, False)
    port = f"port {bench.port} (endpoint of server) is in use on machine here"
    assert report["leftovers"] == [port]
    assert report["reason"] == [f"left behind: {port}"]


@pytest.mark.parametrize(("more", "passed"), [(0, True), (1 << 30, False)])
def test_gpu_memory_must_be_given_back(
    more: int, passed: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The stand-in uses no GPU; what the driver tells is made up.
    bench.inventory(devices=[1])
    told = iter([{0: 5, 1: 7}])
    after = {0: 5 + (1 << 40), 1: 7 + more}
    monkeypatch.setattr(gpus, "memory_used", lambda: next(told, after))
    report = bench.smoke("--json").report
    assert report["passed"] is passed
    assert report["gpu_memory"] == {"1": {"before": 7, "after": 7 + more}}
    assert report["leftovers"] == ([] if passed else ["GPU 1 has 1024 MiB more in use than before"])


def test_what_is_refused_starts_nothing(bench: Bench) -> None:
    done = bench.smoke("--json", deployment={"settings": {"max_num_seq": 4}})
    assert (done.code, done.out) == (1, "")
    assert "max_num_seq" in done.err
    assert not (bench.folder / "state" / "fake" / "state.json").exists()


def test_artifacts_that_cannot_be_kept_are_refused(bench: Bench) -> None:
    done = bench.smoke("--json", "--artifacts", str(bench.folder / "fake.json" / "out"))
    assert (done.code, done.out) == (1, "")
    assert "cannot make the folder" in done.err


def test_a_report_that_cannot_be_kept_fails(bench: Bench) -> None:
    folder = bench.folder / "out"
    (folder / "report.json").mkdir(parents=True)
    done = bench.smoke("--json", "--artifacts", str(folder))
    assert done.code == 3
    assert done.report["reason"] == [f"cannot write {folder / 'report.json'}: Is a directory"]


def test_ctrl_c_ends_it_all(bench: Bench) -> None:
    # The engine does not answer, so the signal comes while the client waits for it.
    arguments = bench.arguments("--json", fault="hang")
    command = [sys.executable, "-m", "inferlab_adapters.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as oe:
        assert oe.stderr is not None
        assert any(line.startswith(b"oe: sending") for line in oe.stderr)
        oe.send_signal(signal.SIGINT)
        out, err = oe.communicate()
    assert (oe.returncode, out) == (128 + signal.SIGINT, b"")
    assert err.endswith(b"oe: everything is stopped\n")
    assert StateRoot(bench.folder / "state").deployments() == []


def test_a_name_that_is_up_is_refused(bench: Bench) -> None:
    with StateRoot(bench.folder / "state").deployment("other").locked():
        done = bench.smoke("--json", "--name", "other")
    assert (done.code, done.out) == (1, "")
    assert "other is up already" in done.err


@pytest.mark.parametrize("options", [["--max-tokens", "0"], ["--timeout", "0"], ["--grace", "-1"]])
def test_impossible_numbers_are_usage_errors(options: list[str], bench: Bench) -> None:
    assert bench.smoke(*options).code == 2
