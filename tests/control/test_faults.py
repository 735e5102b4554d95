"""What goes wrong, each with real processes: the reason is told, and nothing survives."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferlab_adapters.control import probes
from inferlab_adapters.control.events import Event
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.control.run import Interrupted, Running
from inferlab_adapters.control.stop import Stop
from tests.control.fake_engine import Launcher, engine, is_alive, prepared, with_mark


@pytest.fixture(autouse=True)
def _nothing_survives(launcher: Launcher) -> Iterator[None]:
    runs: list[str] = []
    pids: list[int] = []

    def remember(event: Event) -> None:
        state = launcher.root.deployment("fake").load()
        if state is not None:
            runs.append(state.run)
            pids.extend(one.leader.pid for one in state.processes if one.leader)

    launcher.always = remember
    yield
    assert runs
    assert [pid for run in set(runs) for pid in with_mark(run)] == []
    assert [pid for pid in pids if is_alive(pid)] == []


def test_an_engine_that_exits_at_once(launcher: Launcher, tmp_path: Path) -> None:
    deployment = prepared(tmp_path, engine("decode"), engine("server", "--exit", "3"))
    with pytest.raises(Failed) as failed, launcher.up(deployment):
        pass
    assert failed.value.message == "server ended with exit code 3 before all was ready"
    log = launcher.root.deployment("fake").log("server")
    assert failed.value.details[0] == f"the end of {log}:"
    assert len(failed.value.details) == 21
    assert failed.value.details[-1] == "  line 29 of a traceback"
    ((_, state),) = launcher.root.deployments()
    assert (state.status, state.reason, state.holds) == ("failed", failed.value.message, False)


def test_an_engine_that_is_killed(launcher: Launcher, tmp_path: Path) -> None:
    server = engine("server")
    deployment = prepared(tmp_path, server)
    with pytest.raises(Failed, match="server was killed by SIGKILL"):
        launcher.hold(deployment, lambda running: os.kill(launcher.pids()[0], signal.SIGKILL))


def test_an_engine_that_hangs_before_it_is_ready(launcher: Launcher, tmp_path: Path) -> None:
    server = engine("server", "--silent")
    url = f"http://127.0.0.1:{server['port']}/v1/models"
    with pytest.raises(Failed) as failed, launcher.up(prepared(tmp_path, server), timeout=0.7):
        pass
    what = f"server was not ready in 0.7 s: it waits for {url}, where nobody listens"
    assert failed.value.message == what
    assert failed.value.details[-1] == f"  engine on port {server['port']}"


def test_an_engine_that_never_answers_does_not_hide_a_death(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "ANSWER_SECONDS", 600)
    die = tmp_path / "die"
    deployment = prepared(tmp_path, engine("mute", "--mute"), engine("server", "--die-with", die))
    launcher.on = lambda event: die.touch() if event.text == "ready" else None
    with (
        pytest.raises(Failed, match="server ended with exit code 7"),
        launcher.up(deployment),
    ):
        pass


def test_a_worker_that_dies_behind_a_router(launcher: Launcher, tmp_path: Path) -> None:
    die = tmp_path / "die"
    worker = engine("decode", "--die-with", die, readiness={"kind": "process_alive"})
    router = engine("router", "--status", "503", after=("decode",))

    def kill(event: Event) -> None:
        if "which answers 503" in event.text:
            die.touch()

    launcher.on = kill
    with pytest.raises(Failed) as failed, launcher.up(prepared(tmp_path, worker, router)):
        pass
    assert failed.value.message == "decode ended with exit code 7 before all was ready"
    assert failed.value.details[-1] == "  engine core died"


def test_a_worker_that_dies_while_it_is_held(launcher: Launcher, tmp_path: Path) -> None:
    die = tmp_path / "die"
    deployment = prepared(tmp_path, engine("decode", "--die-with", die), engine("router"))
    with pytest.raises(Failed) as failed:
        launcher.hold(deployment, lambda running: die.touch())
    assert failed.value.message == "decode ended with exit code 7"


def test_a_port_that_is_taken_before_the_start(launcher: Launcher, tmp_path: Path) -> None:
    prefill, decode = engine("prefill"), engine("decode")
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", decode["port"]))
        thief.listen()
        with pytest.raises(Failed) as failed, launcher.up(prepared(tmp_path, prefill, decode)):
            pass
    port = decode["port"]
    assert failed.value.message == f"port {port} (endpoint of decode) is in use on machine here"
    assert not [event for event in launcher.events if event.stage == "starting"]


def test_a_port_that_is_taken_while_others_start(launcher: Launcher, tmp_path: Path) -> None:
    prefill, decode = engine("prefill"), engine("decode")
    with socket.socket() as thief:

        def steal(event: Event) -> None:
            if event.stage == "started":
                thief.bind(("127.0.0.1", decode["port"]))
                thief.listen()

        launcher.on = steal
        with (
            pytest.raises(Failed, match=r"endpoint of decode\) is in use"),
            launcher.up(prepared(tmp_path, prefill, decode)),
        ):
            pass
    assert [event.process for event in launcher.events if event.stage == "started"] == ["prefill"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_start(
    launcher: Launcher, tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.default_int_handler)
    launcher.on = lambda event: os.kill(os.getpid(), number) if event.stage == "started" else None
    try:
        with (
            pytest.raises(Interrupted, match=f"stopped by {number.name}"),
            launcher.up(prepared(tmp_path, engine("server", "--silent"), engine("other"))),
        ):
            pass
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert [event.process for event in launcher.events if event.stage == "started"] == ["server"]
    assert launcher.root.deployments() == []


def test_a_signal_while_it_is_held_wakes_whatever_waits(launcher: Launcher, tmp_path: Path) -> None:
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))

    def wait(running: Running) -> None:
        timer.start()
        time.sleep(600)

    with pytest.raises(Interrupted):
        launcher.hold(prepared(tmp_path, engine("server")), wait)
    timer.join()


def test_a_second_signal_ends_the_grace(launcher: Launcher, tmp_path: Path) -> None:
    def again(event: Event) -> None:
        if event.text == "stopping":
            os.kill(os.getpid(), signal.SIGTERM)

    launcher.on = again
    with (
        pytest.raises(Interrupted),
        launcher.up(prepared(tmp_path, engine("server", "--ignore-term")), grace=600),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
    assert [line for line in launcher.lines if line.endswith("did not end when asked: killed")]


def test_an_engine_that_ignores_sigterm(launcher: Launcher, tmp_path: Path) -> None:
    with launcher.up(prepared(tmp_path, engine("server", "--ignore-term")), grace=0.3):
        (pid,) = launcher.pids()
    (told,) = [line for line in launcher.lines if line.endswith("killed")]
    assert told.startswith(f"process {pid} (")


def test_a_helper_in_a_session_of_its_own(launcher: Launcher, tmp_path: Path) -> None:
    stray = tmp_path / "stray"
    with launcher.up(prepared(tmp_path, engine("server", "--stray", stray))):
        pid = int(stray.read_text())
        assert os.getsid(pid) == pid
        assert is_alive(pid)
    assert not is_alive(pid)
    (told,) = [line for line in launcher.lines if "outlived its leader: ended" in line]
    assert told.startswith(f"process {pid} (")


def test_a_helper_of_a_dead_engine_that_ignores_everything(
    launcher: Launcher, tmp_path: Path
) -> None:
    """It has another session, an empty environment, and no parent any more."""
    stray = tmp_path / "stray"
    server = engine("server", "--stray", stray, "--deaf-stray")
    deployment = prepared(tmp_path, server)
    with pytest.raises(Failed, match="server was killed by SIGKILL"):
        launcher.hold(
            deployment, lambda running: os.kill(launcher.pids()[0], signal.SIGKILL), grace=1
        )
    pid = int(stray.read_text())
    assert not is_alive(pid)
    assert [line for line in launcher.lines if line.startswith(f"process {pid} (")]


def test_a_second_deployment_of_the_same_name(launcher: Launcher, tmp_path: Path) -> None:
    with launcher.up(prepared(tmp_path, engine("server"))) as running:
        what = f"fake is up already, supervised by process {os.getpid()}; give another --name"
        with (
            pytest.raises(Refused, match=what),
            launcher.up(prepared(tmp_path, engine("server"))),
        ):
            pass
        running.check()


def test_a_report_that_nobody_reads(launcher: Launcher, tmp_path: Path) -> None:
    def broken(event: Event) -> None:
        if event.stage != "starting":
            raise BrokenPipeError

    launcher.on = broken
    with pytest.raises(BrokenPipeError), launcher.up(prepared(tmp_path, engine("server"))):
        pass


@pytest.mark.parametrize("body_fails", [False, True])
def test_what_cannot_be_stopped_is_told_and_stays_known(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body_fails: bool
) -> None:
    run = Stop.run
    left = "process 1 (init) on here does not end"
    monkeypatch.setattr(Stop, "run", lambda self: [*run(self), left])

    def up() -> None:
        with launcher.up(prepared(tmp_path, engine("server"))):
            if body_fails:
                raise ZeroDivisionError

    with pytest.raises(Failed) as failed:
        up()
    assert failed.value.message == "not everything could be stopped"
    assert failed.value.details == (left,)
    with pytest.raises(Refused, match=r"could not be stopped as a whole: process 1 \(init\)"):
        up()


def test_a_thread_gets_no_signals_and_needs_none(launcher: Launcher, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    told = []

    def up() -> None:
        with launcher.up(prepared(tmp_path, engine("server"))):
            told.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=up)
    thread.start()
    thread.join()
    assert told == [before]


def test_a_signal_that_is_ignored_stays_ignored(launcher: Launcher, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with launcher.up(prepared(tmp_path, engine("server"))) as running:
            os.kill(os.getpid(), signal.SIGHUP)
            running.check()
    finally:
        signal.signal(signal.SIGHUP, before)
