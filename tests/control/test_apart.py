"""Coroutines that run beside a main thread that signals interrupt."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine

import pytest

from inferlab_adapters.control.apart import run_apart
from inferlab_adapters.control.signals import Interrupted, Signals


def test_its_value_and_its_exception_come_back() -> None:
    async def value() -> threading.Thread:
        return threading.current_thread()

    async def failing() -> None:
        raise ValueError("no")

    assert run_apart(value) is not threading.main_thread()
    with pytest.raises(ValueError, match="no"):
        run_apart(failing)


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
        run_apart(work)
    assert told == ["tidy"]


@pytest.mark.parametrize("started", [True, False])
def test_a_signal_while_the_thread_starts_ends_it_too(
    started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if started:
            start(thread)
        raise Interrupted(signal.SIGINT)

    made = []

    async def work() -> None:
        await asyncio.sleep(60)

    def make() -> Coroutine[None, None, None]:
        made.append(started)
        return work()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(Interrupted):
        run_apart(make)
    monkeypatch.undo()
    # A coroutine that is made and never begun would complain on standard error.
    assert started or not made
    assert [t for t in threading.enumerate() if t.name.endswith("(run)")] == []
