"""Coroutines that run beside a main thread that signals interrupt."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from inferlab_adapters.control.apart import run_apart
from inferlab_adapters.control.signals import Interrupted, Signals


def test_its_value_and_its_exception_come_back() -> None:
    async def value() -> threading.Thread:
        return threading.current_thread()

    async def failing() -> None:
        raise ValueError("no")

    assert run_apart(value()) is not threading.main_thread()
    with pytest.raises(ValueError, match="no"):
        run_apart(failing())


def test_a_signal_ends_it_once_it_has_tidied_up() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            told.append("tidy")

    signals = Signals()
    with pytest.raises(Interrupted), signals.caught(), signals.raising():
        run_apart(work())
    assert told == ["tidy"]


def test_a_signal_before_the_thread_is_there_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.sleep(60)

    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    end = time.monotonic() + 30
    with pytest.raises(Interrupted):
        run_apart(work())
    monkeypatch.undo()
    assert time.monotonic() < end
    assert not [t for t in threading.enumerate() if t.name.endswith("(run)")]
