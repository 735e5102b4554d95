"""Watching probes: one thread each, so that a server that does not answer delays nobody else."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from inferlab_adapters.control.probes import ANSWER_SECONDS, Probe

_POLL_SECONDS = 0.2


class Watch:
    """Looks at every probe again and again until it is ready."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._waiting: dict[str, str | None] = dict.fromkeys(probes, "its first probe")
        self._stop = threading.Event()
        self._broken: BaseException | None = None
        self._threads = [
            threading.Thread(
                target=self._look, args=(name, probe), daemon=True, name=f"probe {name}"
            )
            for name, probe in probes.items()
        ]
        for thread in self._threads:
            thread.start()

    def waiting(self) -> dict[str, str]:
        """What each process that is not ready waits for."""
        if self._broken is not None:
            raise self._broken
        return {name: what for name, what in self._waiting.items() if what is not None}

    def close(self) -> None:
        """Stop looking. A probe that is under way is waited for no longer than it may take."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_SECONDS)

    def _look(self, name: str, probe: Probe) -> None:
        try:
            while not self._stop.is_set():
                self._waiting[name] = what = probe.waiting()
                if what is None:
                    return
                self._stop.wait(_POLL_SECONDS)
        except BaseException as error:
            self._broken = error
