"""Deployments that go well: started as rendered, ready as planned, gone at the end."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from inferlab_adapters.control.events import Event
from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.leftovers import leftovers
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.run import launched
from inferlab_adapters.control.state import taken
from tests.control.fake_engine import (
    MACHINE,
    PROGRAM,
    Launcher,
    engine,
    is_alive,
    prepared,
    with_mark,
)


def test_a_deployment_is_ready_in_its_body_and_gone_after_it(
    launcher: Launcher, tmp_path: Path
) -> None:
    server = engine("server")
    deployment, port = prepared(tmp_path, server), server["port"]
    with launcher.up(deployment) as running:
        running.check()
        assert running.endpoint == ("127.0.0.1", port)
        (pid,) = launcher.pids()
        assert with_mark(running.run) == [pid]
        assert os.getsid(pid) == os.getpgid(pid) == pid
        assert running.log_tail("server") == [f"engine on port {port}"]
        process, address = leftovers(deployment, running.run)
        assert process.startswith(f"process {pid} (")
        assert address == f"port {port} (endpoint of server) is in use on machine here"
        state = launcher.root.deployment("fake").load()
        assert state is not None
        assert state.status == "ready"
    assert not is_alive(pid)
    assert leftovers(deployment, running.run) == []
    assert launcher.root.deployments() == []
    assert f"ready at http://127.0.0.1:{port}" in launcher.lines
    assert launcher.lines[-1] == "everything is stopped"


def test_processes_start_after_those_they_depend_on(launcher: Launcher, tmp_path: Path) -> None:
    router = engine("router", after=("prefill", "decode"))
    with launcher.up(prepared(tmp_path, router, engine("prefill"), engine("decode"))):
        pass
    started = [event.process for event in launcher.events if event.stage == "started"]
    assert started == ["prefill", "decode", "router"]
    stopped = [event.process for event in launcher.events if event.text == "stopping"]
    assert stopped == started[::-1]


def test_what_is_waited_for_is_said_once(launcher: Launcher, tmp_path: Path) -> None:
    go = tmp_path / "go"
    server = engine("server", "--ready-with", go)
    waiting = f"http://127.0.0.1:{server['port']}/v1/models, which answers 503"

    def answer(event: Event) -> None:
        if waiting in event.text:
            go.touch()

    launcher.on = answer
    with launcher.up(prepared(tmp_path, server)):
        pass
    assert launcher.lines.count(f"server: waiting for {waiting}") == 1
    assert "server: ready" in launcher.lines


def test_the_process_gets_its_environment_and_folder(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "kept")
    shown = tmp_path / "shown.json"
    words = ["--word", "two words", "$HOME `id`", "a\nb"]
    env = {"RENDERED": "a b\n$x"}
    machine = Machine(
        name="gpus", address="127.0.0.1", devices=(0, 1), ports=(), engine_env="/opt/engine"
    )
    server = engine("server", "--show", shown, *words, env=env)
    deployment = prepared(tmp_path, server, machine=machine)
    deployment.allocations[0]["devices"] = [1, 0]
    with launcher.up(deployment) as running:
        assert taken(launcher.root).devices == {("gpus", 0), ("gpus", 1)}
        told = json.loads(shown.read_text())
    assert told["argv"] == words
    assert told["cwd"] == str(tmp_path / ".inferlab")
    kept = ("RENDERED", "FROM_OUTSIDE", "PWD", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    assert [told["env"][name] for name in kept] == [
        "a b\n$x",
        "kept",
        str(tmp_path / ".inferlab"),
        "1,0",
        "PCI_BUS_ID",
    ]
    assert told["env"]["OE_RUN"] == running.run
    # Without it, engines that name their processes overwrite the mark.
    assert told["env"]["SPT_NOENV"] == "1"
    assert told["env"]["PATH"] == f"/opt/engine/bin:{os.environ['PATH']}"


def test_python3_is_the_engines(launcher: Launcher, tmp_path: Path) -> None:
    folder = tmp_path / "engine" / "bin"
    folder.mkdir(parents=True)
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\necho "the engine\'s python"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    machine = Machine(
        name=MACHINE,
        address="127.0.0.1",
        devices=None,
        ports=(),
        engine_env=str(tmp_path / "engine"),
    )
    server = engine("server")
    server["command"]["argv"] = ["python3", "-IS", PROGRAM, str(server["port"])]
    with launcher.up(prepared(tmp_path, server, machine=machine)) as running:
        assert running.log_tail("server")[0] == "the engine's python"


def test_a_machine_without_gpus_hides_none(launcher: Launcher, tmp_path: Path) -> None:
    shown = tmp_path / "shown.json"
    with launcher.up(prepared(tmp_path, engine("server", "--show", shown))):
        pass
    assert "CUDA_VISIBLE_DEVICES" not in json.loads(shown.read_text())["env"]


def test_launch_files_are_there_before_the_start(launcher: Launcher, tmp_path: Path) -> None:
    server = engine("server", files={"config.yaml": "a: 1\n"})
    deployment = prepared(tmp_path, server)
    path = (
        tmp_path
        / "cache"
        / "server"
        / (deployment.rendered["processes"][0]["launch_files"][0]["relative_path"])
    )
    seen = []
    launcher.on = lambda event: seen.append(path.exists()) if event.stage == "starting" else None
    with launcher.up(deployment):
        assert path.read_text() == "a: 1\n"
    assert seen == [True]
    assert path.exists()


def test_a_program_that_is_not_there_is_refused_before_anything_starts(
    launcher: Launcher, tmp_path: Path
) -> None:
    broken = engine("decode", argv=["vllm-of-nowhere", "serve"])
    with (
        pytest.raises(Refused, match="vllm-of-nowhere is not found in /") as refused,
        launcher.up(prepared(tmp_path, engine("prefill"), broken)),
    ):
        pass
    assert str(refused.value).startswith("decode cannot be started on machine here: ")
    assert launcher.root.deployments() == []
    assert not [event for event in launcher.events if event.stage == "started"]


def test_placing_sees_what_others_hold_and_is_alone(launcher: Launcher, tmp_path: Path) -> None:
    first, second = engine("server"), engine("server")
    seen = []

    def place(found: Taken) -> Prepared:
        seen.append(found.ports)
        return prepared(tmp_path, second, name="second")

    report = launcher.events.append
    with (
        launcher.up(prepared(tmp_path, first)),
        launched(place, root=launcher.root, timeout=30, grace=10, report=report),
    ):
        both = taken(launcher.root).ports
    assert seen == [{(MACHINE, first["port"])}]
    assert both == {(MACHINE, first["port"]), (MACHINE, second["port"])}
    assert taken(launcher.root) == Taken()


def test_a_failed_body_ends_everything_too(launcher: Launcher, tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        launcher.up(prepared(tmp_path, engine("server"))) as running,
    ):
        raise ZeroDivisionError
    assert with_mark(running.run) == []
    assert launcher.root.deployments() == []


def test_gpu_memory_that_stays_in_use_is_left_over(tmp_path: Path) -> None:
    machine = Machine(name="gpus", address="127.0.0.1", devices=(0, 1, 2), ports=())
    deployment = prepared(tmp_path, engine("server"), machine=machine)
    deployment.allocations[0]["devices"] = [0, 1]
    before = {0: 0, 1: 2**20, 2: 0}
    after = {0: 300 * 2**20, 1: 2 * 2**20, 2: 300 * 2**20}
    found = leftovers(deployment, "no such run", before=before, after=after)
    assert found == ["GPU 0 has 300 MiB more in use than before"]
