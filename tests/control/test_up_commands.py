"""``oe up``, ``ps``, ``logs`` and ``down`` as a person runs them, with a program named vllm."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from inferlab_adapters.cli import progress
from inferlab_adapters.control import stop
from inferlab_adapters.control.events import Event
from inferlab_adapters.control.records import State
from inferlab_adapters.control.ssh import OPTIONS_VARIABLE
from inferlab_adapters.control.state import StateRoot
from tests.cli.invoke import Done, oe
from tests.control.fake_engine import PROGRAM, free_port, is_alive, with_mark
from tests.control.test_state import a_state

PROGRAM_CALL = """#!/bin/sh
while [ "$1" != --port ]; do shift; done
exec {python} -IS {program} "$2" {options}
"""


class Place:
    """A folder with a deployment file, an inventory and an engine environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "tiny.yaml"
        self.port = free_port()
        # The fake engine stands in for vllm itself, and serves no OpenEngine.
        self.file.write_text(
            "framework: vllm\nmodel: {id: tiny, path: /models/tiny}\n"
            "settings: {openengine: false}\n"
        )
        (folder / "machines.yaml").write_text(
            "machines:\n- name: here\n  devices: cpu\n  engine_env: engine\n  cache: cache\n"
            f"  ports: [{self.port}, {free_port()}, {free_port()}]\n"
        )
        (folder / "engine" / "bin").mkdir(parents=True)
        installed = folder / "engine" / "lib" / "python3.11" / "site-packages"
        (installed / "vllm-0.32.0.dist-info").mkdir(parents=True)
        metadata = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n"
        (installed / "vllm-0.32.0.dist-info" / "METADATA").write_text(metadata)
        self.engine()
        self.root = StateRoot(folder / "state")

    def engine(self, options: str = "") -> None:
        program = self.folder / "engine" / "bin" / "vllm"
        program.write_text(
            PROGRAM_CALL.format(python=sys.executable, program=PROGRAM, options=options)
        )
        program.chmod(0o755)

    def up(self, *options: object) -> list[str]:
        options = ("--inventory", self.folder / "machines.yaml", *options)
        return ["up", str(self.file), *map(str, options)]

    @property
    def state(self) -> State:
        return self.root.known("tiny")[1]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(stop, "HELPERS_SECONDS", 0.3)
    found = Place(tmp_path)
    monkeypatch.setenv("OE_STATE_DIR", str(found.root.folder))
    yield found
    assert oe("down", "--all").code == 0


@contextmanager
def running(place: Place, *options: object) -> Iterator[subprocess.Popen[str]]:
    """``oe up`` as a program, ready; killed at the end if it still runs."""
    command = [sys.executable, "-m", "inferlab_adapters.cli", *place.up(*options)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        try:
            assert any(f"ready at http://127.0.0.1:{place.port}" in line for line in lines)
            yield process
        finally:
            process.kill()


def table(done: Done) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_up_holds_until_it_is_asked_to_stop(place: Place) -> None:
    with running(place) as process:
        with urllib.request.urlopen(f"http://127.0.0.1:{place.port}/v1/models") as answer:
            assert answer.status == 200
        (deployment,) = table(oe("ps", "--json"))
        assert (deployment["name"], deployment["status"]) == ("tiny", "ready")
        assert deployment["supervisor"]["pid"] == process.pid
        run = deployment["run"]
        again = oe(*place.up())
        assert again.code == 1
        assert f"tiny is up already, supervised by process {process.pid}" in again.err
        command = [sys.executable, "-m", "inferlab_adapters.cli", "logs", "tiny", "-f"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as logs:
            assert logs.stdout is not None
            assert logs.stdout.readline() == f"engine on port {place.port}\n"
            with open(place.state.processes[0].log, "a") as log:
                log.write("one more\n")
            assert logs.stdout.readline() == "one more\n"
            process.send_signal(signal.SIGTERM)
            assert logs.stdout.read() == ""
        assert logs.returncode == 0
        rest = process.communicate()[0].splitlines()
        assert rest == ["server: stopping", "everything is stopped"]
        assert process.returncode == 0
    assert with_mark(run) == []
    assert oe("ps").out == "no deployment is up\n"
    assert oe("logs", "tiny", "server").out == f"engine on port {place.port}\none more\n"


def test_down_cleans_what_a_killed_oe_left(place: Place) -> None:
    place.engine(f"--stray {place.folder / 'stray'}")
    with running(place) as process:
        process.kill()
        process.wait()
        state = place.state
        stray = int((place.folder / "stray").read_text())
        assert sorted(with_mark(state.run)) == sorted(
            [stray, *(one.leader.pid for one in state.processes if one.leader)]
        )
        assert table(oe("ps", "--json"))[0]["status"] == "crashed"
        again = oe(*place.up())
        assert again.code == 1
        assert "tiny was left behind by an oe that crashed; run: oe down tiny" in again.err
        assert oe("down", "tiny").code == 0
        assert not is_alive(stray)
        assert with_mark(state.run) == []
    assert oe("down", "tiny").code == 1


def test_down_spares_who_got_an_id_again(place: Place) -> None:
    """The state of a crash names an id that is somebody else's now."""
    with running(place) as process:
        process.kill()
        process.wait()
        state = place.state
        (one,) = state.processes
        assert one.leader is not None
        os.killpg(one.leader.pid, signal.SIGKILL)
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
            text = (place.root.folder / "tiny" / "state.json").read_text()
            other = text.replace(f'"pid": {one.leader.pid},', f'"pid": {stranger.pid},')
            assert other != text
            (place.root.folder / "tiny" / "state.json").write_text(other)
            assert oe("down", "tiny").code == 0
            assert stranger.poll() is None
            stranger.kill()


def test_a_failed_start_is_told_with_its_log(place: Place) -> None:
    place.engine("--exit 3")
    done = oe(*place.up())
    assert done.code == 3
    assert done.err.startswith("oe: server ended with exit code 3 before all was ready\n")
    assert done.err.endswith("oe:   line 29 of a traceback\n")
    shown = oe("ps")
    assert "failed" in shown.out
    assert "oe: tiny: server ended with exit code 3" in shown.err
    # It holds nothing, so nothing keeps another one from starting.
    assert oe(*place.up()).code == 3


def test_a_port_in_use_is_told(place: Place) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", place.port))
        thief.listen()
        done = oe(*place.up())
    assert done.code == 3
    assert f"port {place.port} (endpoint of server) is in use on machine here" in done.err


def test_a_missing_engine_is_refused(place: Place) -> None:
    (place.folder / "engine" / "bin" / "vllm").rename(place.folder / "elsewhere")
    done = oe(*place.up(), "--name", "other")
    assert done.code == 1
    assert "server cannot be started on machine here: vllm is not found in " in done.err
    assert oe("ps").out == "no deployment is up\n"


def test_in_the_background(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    arguments = ["up", "-", "--inventory", "machines.yaml", "--name", "tiny", "--detach"]
    done = oe(*arguments, stdin=place.file.read_text())
    assert (done.code, done.err) == (0, "")
    ready, held = done.out.splitlines()[-2:]
    assert ready == f"ready at http://127.0.0.1:{place.port}"
    assert held == "tiny is held in the background: oe logs tiny, oe down tiny"
    state = place.state
    assert os.getsid(state.supervisor.pid) == state.supervisor.pid
    shown = oe("ps")
    assert f"tiny  ready   server     http://127.0.0.1:{place.port}  " in shown.out
    assert oe(*place.up("--detach")).code == 1
    assert oe("down", "tiny").out.splitlines() == [
        f"asking its supervisor, process {state.supervisor.pid}, to stop tiny",
        "tiny is down",
    ]
    assert with_mark(state.run) == []


def test_a_failure_in_the_background_is_told(place: Place) -> None:
    place.engine("--exit 3")
    done = oe(*place.up("--detach"))
    assert done.code == 3
    assert "oe: server ended with exit code 3 before all was ready" in done.err
    assert "server: starting on machine here" in done.out


def test_logs_of_several_processes_say_whose(place: Place) -> None:
    deployment = place.root.deployment("old")
    with deployment.locked():
        deployment.log("router").write_text("a\nb\nc\n")
        deployment.log("decode-001").write_text("d")
    assert oe("logs", "old", "-n", "2").out == "decode-001 | d\nrouter     | b\nrouter     | c\n"
    assert oe("logs", "old", "router", "-n", "1").out == "c\n"
    assert oe("logs", "old", "-n", "0").out == ""
    done = oe("logs", "old", "decode-01")
    assert (done.code, done.err) == (
        1,
        'oe: old has no process decode-01; did you mean "decode-001"?\n',
    )
    assert oe("logs", "none").err == (
        "oe: there are no logs of none; oe ps lists the deployments\n"
    )


def test_what_down_is_given(place: Place) -> None:
    assert oe("down").code == 2
    assert oe("down", "tiny", "--all").code == 2
    done = oe("down", "nobody")
    assert (done.code, done.err) == (
        1,
        "oe: there is no deployment nobody; oe ps lists those there are\n",
    )


def test_an_interrupted_start_in_the_background_is_stopped(place: Place) -> None:
    place.engine("--silent")
    command = [sys.executable, "-c", _INTERRUPTIBLE, *place.up("--detach")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("server: started as process" in line for line in lines)
        run = place.state.run
        assert with_mark(run)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert with_mark(run) == []
    assert oe("ps").out == "no deployment is up\n"


# Where tests run in the background, SIGINT is ignored from the start.
_INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from inferlab_adapters.cli.start import main
sys.exit(main())
"""


def test_a_deployment_of_another_host_is_not_touched(place: Place) -> None:
    deployment = place.root.deployment("away")
    with deployment.locked():
        deployment.save(replace(a_state("away"), host="elsewhere"))
    done = oe("down", "away")
    assert (done.code, done.err) == (
        1,
        "oe: away was started on elsewhere, not here; run on elsewhere: oe down away\n",
    )
    deployment.forget()


def test_a_machine_that_is_gone_can_be_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, "-F /dev/null")
    deployment = place.root.deployment("lost")
    with deployment.locked():
        state = a_state("lost")
        far = replace(state.processes[0], machine="far", ssh="no-such-host.invalid")
        deployment.save(replace(state, processes=(far,)))
    done = oe("down", "lost")
    assert done.code == 3
    assert "oe: lost is not down: machine far: cannot list its processes by ssh: " in done.err
    assert "could not be stopped as a whole" in oe(*place.up("--name", "lost")).err
    done = oe("down", "lost", "--forget")
    assert done.code == 0
    assert "machine far: cannot list its processes by ssh: " in done.out
    assert place.root.deployments() == []


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    terminal = Console(file=screen, force_terminal=True, width=60, color_system=None)
    monkeypatch.setattr(progress, "console", lambda: terminal)
    with progress.progress() as report:
        report(Event(stage="waiting", process="decode-001", text="waiting for [it]"))
        report(Event(stage="ready", process="decode-001", text="ready"))
        report(Event(stage="up", text="ready at http://127.0.0.1:1"))
    text = screen.getvalue()
    for line in (
        "decode-001  waiting for [it]",
        "decode-001  ready",
        "ready at http://127.0.0.1:1",
    ):
        assert line in text
