"""What is kept of deployments: written whole, locked by who supervises, told by name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from inferlab_adapters.control import state as module
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.proc_table import Identity
from inferlab_adapters.control.records import PlannedProcess, State, here, supervisor
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.control.state import StateRoot, taken

LOCKER = """
import sys
from pathlib import Path
from inferlab_adapters.control.state import StateRoot
with StateRoot(Path(sys.argv[1])).deployment("one").locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


def a_state(name: str = "one", port: int = 8000) -> State:
    process = PlannedProcess(
        name="server",
        machine="here",
        ssh=None,
        devices=(0, 3),
        endpoints=(("endpoint", "127.0.0.1", port), ("master", "127.0.0.1", port + 1)),
        log="/tmp/log",
        leader=Identity(pid=7, start=8, boot="b"),
    )
    return State(
        run="r",
        name=name,
        framework="vllm",
        status="ready",
        created=1.5,
        host=here(),
        supervisor=supervisor(),
        endpoint=("127.0.0.1", port),
        grace=30.0,
        processes=(process,),
    )


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateRoot:
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    return StateRoot(tmp_path / "state")


def test_a_state_comes_back_as_it_was_saved(root: StateRoot) -> None:
    deployment = root.deployment("one")
    assert deployment.load() is None
    with deployment.locked():
        deployment.save(a_state())
    assert deployment.load() == a_state()
    assert sorted(os.listdir(deployment.folder)) == ["lock", "logs", "state.json"]
    deployment.forget()
    deployment.forget()
    assert deployment.load() is None


def test_a_state_that_cannot_be_written_leaves_the_old_one(
    root: StateRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = root.deployment("one")
    with deployment.locked():
        deployment.save(a_state())

        def full(handle: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(Failed, match=r"state\.json: No space left on device"):
            deployment.save(replace(a_state(), status="stopping"))
    assert deployment.load() == a_state()
    assert sorted(os.listdir(deployment.folder)) == ["lock", "logs", "state.json"]


@pytest.mark.parametrize("text", ["", "{}", '{"run": 3'])
def test_a_state_of_another_kind_is_told(root: StateRoot, text: str) -> None:
    deployment = root.deployment("one")
    deployment.folder.mkdir(parents=True)
    (deployment.folder / "state.json").write_text(text)
    with pytest.raises(Failed, match="was written by another version of oe"):
        deployment.load()


def test_a_living_supervisor_holds_the_lock_and_a_dead_one_does_not(root: StateRoot) -> None:
    deployment = root.deployment("one")
    assert not deployment.supervised()
    with subprocess.Popen(
        [sys.executable, "-c", LOCKER, root.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert deployment.supervised()
        with pytest.raises(Refused, match=f"one is up already, supervised by process {other.pid}"):
            deployment.refuse_if_up()
        with (
            pytest.raises(Refused, match=f"supervised by process {other.pid}"),
            deployment.locked(),
        ):
            pass
        other.kill()
    assert not deployment.supervised()
    with deployment.locked():
        assert deployment.supervised()


def test_what_an_oe_left_that_crashed_is_refused(root: StateRoot) -> None:
    deployment = root.deployment("one")
    with deployment.locked():
        deployment.save(a_state())
    with pytest.raises(Refused, match="one was left behind by an oe that crashed; run: oe down"):
        deployment.refuse_if_up()
    deployment.save(replace(a_state(), status="failed", left=("node-2 cannot be reached",)))
    with pytest.raises(Refused, match="could not be stopped as a whole: node-2 cannot be reached"):
        deployment.refuse_if_up()
    deployment.save(replace(a_state(), status="failed"))
    deployment.refuse_if_up()


def test_what_is_taken(root: StateRoot) -> None:
    assert taken(root) == Taken()
    for name, port in (("one", 8000), ("two", 9000)):
        with root.deployment(name).locked():
            root.deployment(name).save(a_state(name, port))
    found = taken(root)
    assert found.devices == {("here", 0), ("here", 3)}
    assert found.ports == {("here", port) for port in (8000, 8001, 9000, 9001)}
    root.deployment("one").save(replace(a_state("one"), status="failed"))
    assert taken(root).ports == {("here", 9000), ("here", 9001)}
    assert [state.name for _, state in root.deployments()] == ["one", "two"]


def test_an_unknown_name_gets_the_nearest(root: StateRoot) -> None:
    with pytest.raises(Refused, match="there is no deployment llama; oe ps lists those there are"):
        root.known("llama")
    with root.deployment("llama-8b").locked():
        root.deployment("llama-8b").save(a_state("llama-8b"))
    with pytest.raises(Refused, match='did you mean "llama-8b"'):
        root.known("llama-8")
    assert root.known("llama-8b")[1].name == "llama-8b"


@pytest.mark.parametrize("name", ["", ".", "..", ".reserve", "a/b", "../x"])
def test_names_that_are_no_folder_of_the_root(root: StateRoot, name: str) -> None:
    with pytest.raises(Refused, match="cannot name a deployment"):
        root.deployment(name)


def test_a_log_stays_in_its_folder_whatever_the_process_is_called(root: StateRoot) -> None:
    deployment = root.deployment("one")
    with deployment.locked():
        for name in ("../up", "a/b", "server"):
            deployment.log(name).write_text("")
    assert list(deployment.log_files()) == ["../up", "a/b", "server"]
    deployment.clear_logs()
    assert deployment.log_files() == {}


def test_one_reserves_at_a_time(root: StateRoot) -> None:
    order = []

    def other() -> None:
        with root.reserve():
            order.append("other")

    with root.reserve():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "other"]


def test_where_the_state_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.delenv("OE_STATE_DIR", raising=False)
    assert StateRoot.default().folder == Path("/home/somebody/.local/state/oe")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert StateRoot.default().folder == Path("/var/state/oe")
    monkeypatch.setenv("OE_STATE_DIR", str(tmp_path))
    assert StateRoot.default().folder == tmp_path


def test_a_root_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    root = StateRoot(tmp_path / "file" / "state")
    with pytest.raises(Refused, match="set OE_STATE_DIR to a folder of yours"), root.reserve():
        pass
