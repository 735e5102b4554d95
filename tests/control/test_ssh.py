"""Machines that are reached by ssh, against a real server on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inferlab_adapters.control import proc_table
from inferlab_adapters.control.channel import Launch
from inferlab_adapters.control.down import take_down
from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.leftovers import leftovers
from inferlab_adapters.control.refusal import Failed
from inferlab_adapters.control.run import Running
from inferlab_adapters.control.ssh import OPTIONS_VARIABLE, SshChannel
from inferlab_adapters.control.ssh_scripts import command
from tests.control import sshd
from tests.control.fake_engine import (
    Launcher,
    engine,
    free_port,
    is_alive,
    prepared,
    with_mark,
)

pytestmark = pytest.mark.skipif(bool(sshd.missing()), reason=sshd.missing())

NASTY = [
    "two words",
    "it's",
    '"',
    "$HOME",
    "`id`",
    "a\nb",
    "\\",
    "*",
    "",
    "ü",
    "!x",
    "-n",
    "; exit",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sshd.Server]:
    with sshd.server(tmp_path_factory.mktemp("sshd"), free_port()) as found:
        yield found


@pytest.fixture
def channel(server: sshd.Server, monkeypatch: pytest.MonkeyPatch) -> SshChannel:
    monkeypatch.setenv(OPTIONS_VARIABLE, server.options)
    return SshChannel("far", "127.0.0.1")


def far(tmp_path: Path, **fields: object) -> Machine:
    machine = Machine(name="far", address="127.0.0.1", devices=None, ports=(), ssh="127.0.0.1")
    return replace(machine, **fields)  # type: ignore[arg-type]


def a_launch(tmp_path: Path, *argv: str, **fields: object) -> Launch:
    launch = Launch(
        process="server",
        argv=argv,
        env={},
        devices=(0, 1),
        engine_env=None,
        cwd=str(tmp_path / "it's a folder" / ".inferlab"),
        run=os.urandom(8).hex(),
        log=tmp_path / "server.log",
    )
    return replace(launch, **fields)  # type: ignore[arg-type]


def until(found: Callable[[], object]) -> None:
    for _ in range(1000):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("nothing came")


def test_a_command_line_is_quoted_as_a_whole() -> None:
    assert shlex.split(command("echo $1\n", *NASTY)) == ["sh", "-c", "echo $1\n", "oe", *NASTY]


def test_arguments_and_environment_arrive_as_they_are(
    channel: SshChannel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLY_HERE", "1")
    show = "import json,os,sys;print(json.dumps([sys.argv[1:],dict(os.environ),os.getcwd()]))"
    launch = a_launch(tmp_path, sys.executable, "-ISc", show, *NASTY)
    launch = replace(launch, env={"NASTY": " ".join(NASTY), "dotted.name": "1"})
    assert channel.problem(launch) is None
    started = channel.start(launch)
    until(started.ended)
    assert started.ended() == "ended with exit code 0"
    started.close()
    first, line, last = launch.log.read_text().splitlines()
    leader = started.leader()
    assert leader is not None
    assert first == (
        f"oe: run {launch.run}: started as process {leader.pid} {leader.start} {leader.boot}"
    )
    assert last == f"oe: run {launch.run}: ended with exit code 0"
    argv, env, cwd = json.loads(line)
    assert argv == NASTY
    assert cwd == launch.cwd == env["PWD"]
    assert env["NASTY"] == " ".join(NASTY)
    assert env["dotted.name"] == "1"
    assert env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert env["OE_RUN"] == launch.run
    assert "ONLY_HERE" not in env


def test_programs_come_from_the_engines_environment(channel: SshChannel, tmp_path: Path) -> None:
    folder = tmp_path / "engine env" / "bin"
    folder.mkdir(parents=True)
    (folder / "serve").write_text("#!/bin/sh\necho served; exit 255\n")
    (folder / "serve").chmod(0o755)
    launch = a_launch(tmp_path, "serve", engine_env=str(tmp_path / "engine env"))
    assert channel.problem(launch) is None
    started = channel.start(launch)
    until(started.ended)
    started.close()
    # Which ssh itself also ends with when a connection breaks.
    assert started.ended() == "ended with exit code 255"
    assert "served" in launch.log.read_text()
    without = replace(launch, engine_env=None)
    said = channel.problem(without)
    assert said is not None
    assert said.startswith("serve is not found in /")
    started = channel.start(without)
    until(started.ended)
    started.close()
    assert started.ended() == "ended with exit code 127"
    said = channel.problem(replace(launch, cwd="/proc/nowhere"))
    assert said is not None
    assert "/proc/nowhere" in said


def test_a_process_leads_its_session_and_ends_when_told(
    channel: SshChannel, tmp_path: Path
) -> None:
    launch = a_launch(tmp_path, "sleep", "600")
    started = channel.start(launch)
    until(started.leader)
    leader = started.leader()
    assert leader is not None
    assert os.getsid(leader.pid) == os.getpgid(leader.pid) == leader.pid
    table = channel.table(launch.run)
    assert [(one.pid, one.command) for one in table.of_run([])] == [(leader.pid, "sleep 600")]
    assert table.boot == leader.boot
    assert started.ended() is None
    other = replace(leader, start=leader.start + 1)
    channel.signal([other], signal.SIGKILL)
    channel.signal([replace(leader, boot="x")], signal.SIGKILL)
    channel.signal([leader], signal.SIGTERM)
    until(started.ended)
    assert started.ended() == "was killed by SIGTERM"
    assert channel.table(launch.run).of_run([leader]) == []
    started.close()


def test_a_launch_file_arrives_whole_and_only_when_needed(
    channel: SshChannel, tmp_path: Path
) -> None:
    text = "it's: $x\n\\ü\n" * 5000
    sha = hashlib.sha256(text.encode()).hexdigest()
    path = tmp_path / "a b" / "$c" / "f.yaml"
    channel.put(str(path), text, sha)
    assert path.read_text() == text
    assert os.listdir(path.parent) == ["f.yaml"]
    inode = path.stat().st_ino
    channel.put(str(path), text, sha)
    assert path.stat().st_ino == inode
    path.write_text("half")
    channel.put(str(path), text, sha)
    assert path.read_text() == text
    with pytest.raises(Failed, match="it arrived with another digest"):
        channel.put(str(path.parent / "g.yaml"), "other", sha)
    assert os.listdir(path.parent) == ["f.yaml"]
    with pytest.raises(Failed, match=r"machine far: cannot write the launch file .*f\.yaml/x by"):
        channel.put(f"{path}/x", text, sha)


def test_ports_in_use_are_told(channel: SshChannel) -> None:
    free = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = taken.getsockname()
        assert channel.busy([address, ("127.0.0.1", free)]) == {address: "is in use"}


def test_a_machine_that_nobody_reaches(
    server: sshd.Server, launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, f"-p {free_port()} {server.options}")
    deployment = prepared(tmp_path, engine("server"), machine=far(tmp_path))
    what = "machine far: cannot look for the program by ssh: ssh: connect to host 127.0.0.1 port"
    with pytest.raises(Failed, match=what), launcher.up(deployment):
        pass
    # Nothing was started there, so nothing is held.
    ((_, state),) = launcher.root.deployments()
    assert not state.holds


def test_a_deployment_on_a_remote_machine(
    channel: SshChannel, launcher: Launcher, tmp_path: Path
) -> None:
    stray = tmp_path / "stray"
    server = engine("server", "--stray", stray, "it's $x", files={"a.yaml": "a: 1\n"})
    deployment = prepared(tmp_path, server, machine=far(tmp_path))
    with launcher.up(deployment) as running:
        (pid,) = launcher.pids()
        assert with_mark(running.run) == sorted([pid, int(stray.read_text())])
        assert f"engine on port {server['port']} it's $x" in running.log_tail("server")
        assert len(leftovers(deployment, running.run)) == 3
    assert with_mark(running.run) == []
    assert leftovers(deployment, running.run) == []
    assert launcher.root.deployments() == []


def test_a_connection_that_breaks_is_told_and_what_it_carried_is_stopped(
    server: sshd.Server, channel: SshChannel, launcher: Launcher, tmp_path: Path
) -> None:
    runs = []

    def cut(running: Running) -> None:
        runs.append(running.run)
        carriers = [one.pid for one in proc_table.read("").entries if one.parent == server.pid]
        assert carriers
        for pid in carriers:
            os.kill(pid, signal.SIGKILL)

    deployment = prepared(tmp_path, engine("server"), machine=far(tmp_path))
    what = "server is out of reach: the ssh connection to far was lost"
    with pytest.raises(Failed, match=what):
        launcher.hold(deployment, cut)
    assert with_mark(runs[0]) == []


def test_what_a_crashed_oe_left_there_is_taken_down(
    channel: SshChannel, launcher: Launcher, tmp_path: Path
) -> None:
    deployment = prepared(tmp_path, engine("server"), machine=far(tmp_path))
    program = (
        "import pickle, sys, time\n"
        "from pathlib import Path\n"
        "from inferlab_adapters.control.run import launched\n"
        "from inferlab_adapters.control.state import StateRoot\n"
        "prepared = pickle.loads(sys.stdin.buffer.read())\n"
        "with launched(prepared, root=StateRoot(Path(sys.argv[1])), timeout=60, grace=5,\n"
        "              report=lambda event: None):\n"
        "    print('up', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, launcher.root.folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as oe:
        assert oe.stdin is not None
        assert oe.stdout is not None
        oe.stdin.write(pickle.dumps(deployment))
        oe.stdin.close()
        assert oe.stdout.readline() == b"up\n"
        oe.kill()
    found, state = launcher.root.known("fake")
    (pid,) = with_mark(state.run)
    with pytest.MonkeyPatch.context() as broken:
        broken.setenv(OPTIONS_VARIABLE, f"-p {free_port()}")
        with pytest.raises(Failed, match="fake is not down: machine far: cannot list its proc"):
            take_down(found, state, grace=None, report=launcher.events.append)
    assert is_alive(pid)
    take_down(found, state, grace=None, report=launcher.events.append)
    assert with_mark(state.run) == []
    assert launcher.root.deployments() == []
