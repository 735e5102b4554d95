"""This machine's channel: who belongs to a run, who is signalled, which ports are free."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inferlab_adapters.control import proc_table
from inferlab_adapters.control.channel import Launch, exit_text
from inferlab_adapters.control.local import LocalChannel
from inferlab_adapters.control.proc_table import Entry, Identity, Table, parse_stat
from inferlab_adapters.control.refusal import Failed
from inferlab_adapters.control.sockets import listening_ports, read
from tests.control.fake_engine import free_port

CHANNEL = LocalChannel("here")


def entry(pid: int, parent: int = 1, **fields: int | bool) -> Entry:
    found = Entry(
        pid=pid,
        parent=parent,
        group=pid,
        session=pid,
        start=100 + pid,
        ended=False,
        marked=False,
        command="x",
    )
    return replace(found, **fields)  # type: ignore[arg-type]


def of_run(entries: list[Entry], *known: Identity, boot: str = "b") -> list[int]:
    return [one.pid for one in Table(boot=boot, entries=tuple(entries)).of_run(known)]


def test_a_run_has_the_marked_and_what_descends_from_them() -> None:
    table = [entry(10, marked=True), entry(11, 10), entry(12, 11), entry(13), entry(14, 13)]
    assert of_run(table) == [10, 11, 12]


def test_a_run_has_the_group_and_session_of_a_leader_that_ended() -> None:
    leader = entry(10, ended=True)
    table = [leader, entry(11, group=10), entry(12, session=10), entry(13, 12), entry(14)]
    assert of_run(table, Identity(pid=10, start=110, boot="b")) == [11, 12, 13]


@pytest.mark.parametrize(
    "known", [Identity(pid=10, start=109, boot="b"), Identity(pid=10, start=110, boot="a")]
)
def test_an_id_that_was_given_out_again_is_somebody_else(known: Identity) -> None:
    assert of_run([entry(10), entry(11, group=10), entry(12, 10)], known) == []


def test_a_group_without_its_leader_may_be_anybodys() -> None:
    assert of_run([entry(11, group=10)], Identity(pid=10, start=110, boot="b")) == []


def test_who_asks_is_never_among_them() -> None:
    assert of_run([entry(10, marked=True), entry(os.getpid(), 10)]) == [10]


@pytest.mark.parametrize("name", ["sh", "a b", "x) S 1 2", "new\nline"])
def test_a_name_may_hold_anything(name: str) -> None:
    tail = " ".join(["S", "4", "5", "6", *map(str, range(15)), "777", "0"])
    found = parse_stat(f"12 ({name}) {tail}\n")
    assert found is not None
    assert (found.pid, found.parent, found.group, found.session) == (12, 4, 5, 6)
    assert found.start == int(tail.split()[19])


@pytest.mark.parametrize("line", ["", "12", "12 (sh", "line) S 1", "x (y) S 1 2 3"])
def test_a_line_that_is_no_row(line: str) -> None:
    assert parse_stat(line) is None


def test_this_process_is_who_it_is() -> None:
    identity = proc_table.identify(os.getpid())
    assert identity is not None
    (found,) = [one for one in proc_table.read("none").entries if one.pid == os.getpid()]
    assert proc_table.read("none").identity(found) == identity
    assert (found.parent, found.group) == (os.getppid(), os.getpgrp())
    with subprocess.Popen(["true"]) as gone:
        pass
    assert proc_table.identify(gone.pid) is None


def test_only_the_very_process_is_signalled() -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        identity = proc_table.identify(child.pid)
        assert identity is not None
        other = replace(identity, start=identity.start - 1)
        CHANNEL.signal([other], signal.SIGKILL)
        CHANNEL.signal([identity], signal.SIGTERM)
        # The first signal to arrive is the one that ends it.
        assert child.wait() == -signal.SIGTERM
        CHANNEL.signal([identity], signal.SIGKILL)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_ports_that_no_server_could_open(listener: int) -> None:
    free = free_port()
    asked = [("127.0.0.1", listener), ("127.0.0.1", free), ("localhost", listener)]
    found = CHANNEL.busy([*asked, ("192.0.2.7", free), ("no-such-host.invalid", free)])
    assert list(found.values())[:2] == ["is in use", "is in use"]
    assert ("127.0.0.1", free) not in found
    assert found["192.0.2.7", free].startswith("cannot be opened at 192.0.2.7: Cannot assign")
    assert found["no-such-host.invalid", free].startswith("cannot be opened at no-such-host")


def test_a_port_whose_connections_are_still_closing_is_free() -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()
            client.recv(1)
    with socket.socket() as strict, pytest.raises(OSError, match="in use"):
        strict.bind(("127.0.0.1", port))
    assert CHANNEL.busy([("127.0.0.1", port)]) == {}


def test_the_kernels_tables_tell_who_listens(listener: int) -> None:
    assert listener in listening_ports(read())
    assert free_port() not in listening_ports(read())


def a_launch(tmp_path: Path, *argv: str, **fields: object) -> Launch:
    found = Launch(
        process="server",
        argv=argv,
        env={},
        devices=None,
        engine_env=None,
        cwd=str(tmp_path / "work"),
        run="run",
        log=tmp_path / "log",
    )
    return replace(found, **fields)  # type: ignore[arg-type]


def test_programs_that_are_not_there(tmp_path: Path) -> None:
    assert CHANNEL.problem(a_launch(tmp_path, "sh")) is None
    assert CHANNEL.problem(a_launch(tmp_path, sys.executable)) is None
    found = CHANNEL.problem(a_launch(tmp_path, "no-such", engine_env="/engine/"))
    assert found == f"no-such is not found in /engine/bin:{os.environ['PATH']}"
    (tmp_path / "plain").write_text("")
    found = CHANNEL.problem(a_launch(tmp_path, str(tmp_path / "plain")))
    assert found == f"{tmp_path}/plain is not an executable file"


def test_a_program_that_the_kernel_refuses(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    launch = a_launch(tmp_path, str(program))
    assert CHANNEL.problem(launch) is None
    with pytest.raises(Failed, match=r"server cannot be started: .*No such file"):
        CHANNEL.start(launch)


def test_how_a_process_ended(tmp_path: Path) -> None:
    started = CHANNEL.start(a_launch(tmp_path, "sh", "-c", "echo hello; exit 9"))
    leader = started.leader()
    assert leader is not None
    while started.ended() is None:
        pass
    assert started.ended() == "ended with exit code 9"
    # Until it is waited for, nobody else can get its id.
    assert proc_table.identify(leader.pid) == leader
    started.close()
    assert started.ended() == "ended with exit code 9"
    assert (tmp_path / "log").read_text() == "hello\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended with exit code 0"),
        (-15, "was killed by SIGTERM"),
        (-9, "was killed by SIGKILL (the kernel does that when memory runs out)"),
        (-60, "was killed by signal 60"),
    ],
)
def test_exit_codes_as_sentences(code: int, text: str) -> None:
    assert exit_text(code) == text
