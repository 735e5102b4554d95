"""Being asked to stop: SIGINT, SIGTERM and SIGHUP become an exception at places that can take it.

While processes are started or stopped a signal is only remembered, so that none is started and
lost between two steps; :meth:`Signals.check` then raises. In the body of a launch it raises at
once, whatever the body waits for.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Somebody asked to stop. ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        return f"stopped by {signal.Signals(self.number).name}"


class Signals:
    """The signals of the main thread; elsewhere none arrive, and nothing is changed."""

    def __init__(self) -> None:
        self.count = 0
        self._number = 0
        self._raising = False

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Remember signals. One that is ignored, as ``nohup`` does with SIGHUP, stays ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[signal.Signals, Any] = {}
        try:
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, self._arrived)
            yield
        finally:
            self._raising = False
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise :class:`Interrupted` at once, also for a signal that is remembered."""
        self._raising = True
        try:
            self.check()
            yield
        finally:
            self._raising = False

    def check(self) -> None:
        """Raise :class:`Interrupted` if a signal is remembered."""
        if self._number:
            raise Interrupted(self._number)

    def pause(self, seconds: float) -> None:
        """Sleep, then check."""
        self.check()
        time.sleep(seconds)
        self.check()

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._number = self._number or number
        if self._raising:
            self._raising = False
            raise Interrupted(number)
