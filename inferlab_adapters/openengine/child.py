"""The engine as a child: a process group of its own, which ends with this process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_EXEC = Path(__file__).with_name("exec_with_parent.py")


class Child:
    """A program that runs with our standard streams and environment; no shell reads its argv."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start it. Only for the main thread, inside a running event loop.

        Linux ends it with the *thread* that started it, and the main thread lives longest.
        """
        assert threading.current_thread() is threading.main_thread()
        # Where it is ignored, the kernel waits for children itself and their exit codes are lost.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        command = [sys.executable, "-I", "-S", str(_EXEC), str(os.getpid()), *argv]
        self._process = subprocess.Popen(command, process_group=0)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._watch, name="openengine-child", daemon=True).start()

    @property
    def pid(self) -> int:
        """Its id, and that of its process group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its end has not been noticed yet."""
        return not self._ended.done()

    async def ended(self) -> int:
        """Wait for its end; its exit code, 128 + n where signal n ended it."""
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        """Send a signal to its process group, if it still runs."""
        if self.alive:
            # Its processes may have ended, or have become another user's.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _watch(self) -> None:
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        # The loop is closed where this process is about to end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._reap)

    def _reap(self) -> None:
        # What it left behind in its group goes with it. As long as nobody has waited for it, its
        # id, and so the group's, is no other's.
        self.signal(signal.SIGKILL)
        code = self._process.wait()
        self._ended.set_result(code if code >= 0 else 128 - code)
