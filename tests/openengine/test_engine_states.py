"""What the supervisor tells the server about an engine, from what the engine says of itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from inferlab_adapters.openengine import supervisor
from inferlab_adapters.openengine.engine import Check, Engine, EngineFacts, EngineFault, HealthState
from inferlab_adapters.openengine.supervisor import Supervisor
from tests.openengine.scripted import ScriptedEngine

Told = list[tuple[HealthState, str]]


class Recorder:
    """A gateway that remembers what it is told."""

    def __init__(self) -> None:
        self.told: Told = []
        self.news = asyncio.Event()
        self.stopped: list[float] = []

    def set_state(self, state: HealthState, reason: str = "") -> None:
        self.told.append((state, reason))
        self.news.set()

    async def stop(self, grace: float) -> None:
        self.stopped.append(grace)


class Moody(ScriptedEngine):
    """``mood`` is run before every look."""

    def __init__(self, mood: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.mood = mood
        self.hangs = False

    async def facts(self) -> EngineFacts:
        self.mood()
        if self.hangs:
            await asyncio.sleep(600)
        return await super().facts()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_LOADING_PAUSE", "_WATCH_PAUSE"):
        monkeypatch.setattr(supervisor, name, 0.001)


def _made(engine: Engine, gateway: Recorder, argv: Sequence[str] = ()) -> Supervisor:
    return Supervisor(engine, gateway, argv=argv, grace=3.0, linger=0.0)


def _told(engine: Moody, *changes: Callable[[], None]) -> Told:
    """What is told until it has been told of every change, each made after the one before."""

    async def run() -> Told:
        gateway = Recorder()
        made = _made(engine, gateway)
        made.catch_signals()
        running = asyncio.create_task(made.run())

        def stop() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        for change in (*changes, stop):
            await gateway.news.wait()
            await asyncio.sleep(0)
            gateway.news.clear()
            change()
        assert await running == 0
        assert gateway.stopped == [3.0]
        return gateway.told

    return asyncio.run(asyncio.wait_for(run(), 60))


DRAINING = ("draining", "stopped by SIGTERM")


def test_an_engine_that_comes_back_may_be_another_one() -> None:
    engine = Moody()

    def away() -> None:
        engine.ready = False

    def back() -> None:
        engine.ready = True

    assert _told(engine, away, back) == [
        ("ready", ""),
        ("not_ready", "the engine is loading"),
        ("starting", ""),
        ("ready", ""),
        DRAINING,
    ]


def test_the_worst_check_counts() -> None:
    engine = Moody()

    def degraded() -> None:
        ill = Check(name="disk", state="degraded", message="slow")
        engine.health = (Check(name="engine", state="ready"), ill)

    def dead() -> None:
        engine.health = (*engine.health, Check(name="core", state="not_ready", message="gone"))

    assert _told(engine, degraded, dead) == [
        ("ready", ""),
        ("degraded", "disk: slow"),
        ("not_ready", "core: gone"),
        DRAINING,
    ]


def test_an_engine_that_does_not_answer_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Moody()

    def hang() -> None:
        engine.hangs = True
        monkeypatch.setattr(supervisor, "_LOOK_LIMIT", 0.01)

    assert _told(engine, hang)[1] == ("not_ready", "the engine does not answer")


def test_an_engine_that_can_never_serve_does_not_seem_to_start() -> None:
    def refuse() -> None:
        raise EngineFault("failed_precondition", "an option is missing")

    assert _told(Moody(refuse)) == [("not_ready", "an option is missing"), DRAINING]


def test_a_bug_in_a_backend_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    engine = Moody()

    def broken() -> None:
        raise RuntimeError("a bug")

    def breaks() -> None:
        engine.mood = broken

    def mended() -> None:
        engine.mood = lambda: None

    told = _told(engine, breaks, mended)
    assert told[1] == ("not_ready", "the engine's state cannot be read")
    assert told[3] == ("ready", "")
    assert any(record.exc_info for record in caplog.records)


def test_an_engine_is_not_started_once_somebody_asked_to_stop(tmp_path: Path) -> None:
    started = tmp_path / "started"

    async def run() -> int:
        made = _made(ScriptedEngine(), Recorder(), ["touch", str(started)])
        made.catch_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        return await made.run()

    assert asyncio.run(run()) == 128 + signal.SIGTERM
    assert not started.exists()


def test_an_ignored_signal_stays_ignored() -> None:
    async def run() -> list[object]:
        _made(ScriptedEngine(), Recorder(), ["true"]).catch_signals()
        return [signal.getsignal(signal.SIGHUP), signal.getsignal(signal.SIGUSR1)]

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        hangup, user = asyncio.run(run())
    finally:
        signal.signal(signal.SIGHUP, before)
    assert hangup is signal.SIG_IGN
    assert user is not signal.SIG_DFL
