"""A deployment that runs: started as rendered, ready as planned, and ended whatever happens."""

from __future__ import annotations

import atexit
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

from inferlab_adapters.control.channel import Address
from inferlab_adapters.control.events import Report
from inferlab_adapters.control.launches import first_state
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.refusal import Failed
from inferlab_adapters.control.signals import Interrupted, Signals
from inferlab_adapters.control.state import StateRoot, taken
from inferlab_adapters.control.supervisor import POLL_SECONDS, TAIL_LINES, Supervisor

__all__ = ["Interrupted", "Running", "launched"]


class Running:
    """A deployment of which every process is ready."""

    def __init__(self, supervisor: Supervisor, prepared: Prepared) -> None:
        self._supervisor = supervisor
        self.prepared = prepared

    @property
    def run(self) -> str:
        """The value of the marker in every process's environment."""
        return self._supervisor.state.run

    @property
    def endpoint(self) -> Address:
        """Host and port at which clients reach it."""
        return self._supervisor.state.endpoint

    def check(self) -> None:
        """Raise :class:`Failed`, with the end of its log, if a process has ended."""
        self._supervisor.check()

    def hold(self) -> NoReturn:
        """Until a process ends (:class:`Failed`) or somebody asks (:class:`Interrupted`)."""
        while True:
            self.check()
            time.sleep(POLL_SECONDS)

    @property
    def exits(self) -> dict[str, str]:
        """How each process ended, the last started first; empty while they run."""
        return self._supervisor.exits

    def log_tail(self, process: str, lines: int = TAIL_LINES) -> list[str]:
        """The last lines that a process wrote."""
        return self._supervisor.log_tail(process, lines)


@contextmanager
def launched(
    prepared: Prepared | Callable[[Taken], Prepared],
    *,
    root: StateRoot,
    timeout: float,
    grace: float,
    report: Report,
    name: str = "",
) -> Iterator[Running]:
    """Start a deployment, yield it once it is ready, and end all of it in every case.

    ``prepared`` may be a function: it gets what other deployments hold, and nobody else places
    until its result is written down. ``name`` is the deployment's, by default the wanted one.
    ``timeout`` and ``grace`` are in seconds: until everything is ready, and from TERM to KILL.

    Raises :class:`Refused` when nothing was started, :class:`Failed` with the reason and the end
    of a log when something that was started went wrong, and :class:`Interrupted` after SIGINT,
    SIGTERM or SIGHUP, in the body at once; one more of them while stopping ends the grace.
    """
    signals = Signals()
    with signals.caught(), ExitStack() as stack:
        with root.reserve():
            if callable(prepared):
                prepared = prepared(taken(root))
            deployment = root.deployment(name or prepared.wanted.name)
            stack.enter_context(deployment.locked())
            deployment.refuse_if_left()
            deployment.clear_logs()
            state = first_state(prepared, deployment, run=secrets.token_hex(16), grace=grace)
            deployment.save(state)
        supervisor = Supervisor(prepared, deployment, state, signals=signals, report=report)
        # A signal between two instructions of the caller's ``with`` could pass the code below by.
        atexit.register(supervisor.end)
        stack.callback(atexit.unregister, supervisor.end)
        try:
            supervisor.start()
            supervisor.wait(timeout)
            with signals.raising():
                yield Running(supervisor, prepared)
        except Failed as failed:
            left = supervisor.end(failed.message)
            raise Failed(failed.message, *failed.details, *left) from failed
        except BaseException as error:
            left = supervisor.end()
            if left:
                raise Failed("not everything could be stopped", *left) from error
            raise
        if left := supervisor.end():
            raise Failed("not everything could be stopped", *left)
