"""Ending every process of a run: TERM to each leader, later to its helpers, KILL after a grace.

Leaders come first and alone, for they end their helpers in order; SGLang, whose helpers got TERM at
the same time, took their end for an accident and killed itself (seen at 0.5.23).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferlab_adapters.control.channel import Channel
from inferlab_adapters.control.events import Event, Report
from inferlab_adapters.control.proc_table import Entry, Identity, Table
from inferlab_adapters.control.refusal import Failed

HELPERS_SECONDS = 2.0
"""How long helpers may outlive their leader before they are told to end, too."""

KILL_SECONDS = 60.0
"""How long the kernel may take to end what was killed; a GPU's memory takes a while to free."""

_MOMENT_SECONDS = 0.5
_POLL_SECONDS = 0.1


@dataclass(kw_only=True, slots=True)
class Held:
    """A machine with processes of a run.

    ``leaders`` are in the order of their start, by process; ``None`` where nobody told who leads.
    ``known`` grows with every look: what once was of the run stays of it whatever it changes.
    """

    name: str
    channel: Channel
    run: str
    leaders: dict[str, Identity | None] = field(default_factory=dict)
    known: set[Identity] = field(default_factory=set)

    def look(self) -> tuple[Table, list[Entry]]:
        """The machine's processes, and the living ones of the run."""
        table = self.channel.table(self.run)
        self.known.update(leader for leader in self.leaders.values() if leader)
        found = table.of_run(self.known)
        self.known.update(map(table.identity, found))
        return table, found


class Stop:
    """One ending. ``hurry`` tells whether somebody wants no more grace."""

    def __init__(
        self,
        machines: Sequence[Held],
        *,
        grace: float,
        report: Report,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        self._machines = list(machines)
        self._grace = grace
        self._report = report
        self._hurry = hurry
        self._unreached: list[str] = []

    def run(self) -> list[str]:
        """End everything; a sentence for each thing that could not be."""
        end = time.monotonic() + self._grace
        self._each(self._ask)
        if self._wait(self._grace, HELPERS_SECONDS):
            return self._unreached
        self._each(self._end_helpers)
        left = max(_MOMENT_SECONDS, end - time.monotonic())
        self._wait(left, left)
        return [*self._kill(), *self._unreached]

    def _wait(self, seconds: float, helpers_seconds: float) -> bool:
        """Until nothing is left, which it tells, or only helpers for so long, or time is over."""
        end = time.monotonic() + seconds
        alone_since: float | None = None
        while (now := time.monotonic()) < end and not self._hurry():
            leaders, helpers = self._remaining()
            if leaders:
                alone_since = None
            elif not helpers:
                return True
            elif alone_since is None:
                alone_since = now
            elif now > alone_since + helpers_seconds:
                return False
            time.sleep(_POLL_SECONDS)
        return False

    def _ask(self, held: Held) -> None:
        """TERM to each leader, the last started first, and to whoever is in no group of one."""
        table, found = held.look()
        reached: set[int] = set()
        for name, leader in reversed(held.leaders.items()):
            if leader is not None and (members := table.members(leader)):
                self._report(Event(stage="stopping", process=name, text="stopping"))
                held.channel.signal([leader], signal.SIGTERM)
                reached.update(entry.pid for entry in members)
        alone = [entry for entry in found if entry.pid not in reached]
        held.channel.signal(map(table.identity, alone), signal.SIGTERM)

    def _remaining(self) -> tuple[list[Entry], list[Entry]]:
        """The leaders that are still there, and everybody else."""
        leading: list[Entry] = []
        helping: list[Entry] = []

        def count(held: Held) -> None:
            _, found = held.look()
            leaders = {leader.pid for leader in held.leaders.values() if leader}
            for entry in found:
                (leading if entry.pid in leaders else helping).append(entry)

        self._each(count)
        return leading, helping

    def _end_helpers(self, held: Held) -> None:
        table, found = held.look()
        leaders = {leader.pid for leader in held.leaders.values() if leader}
        helpers = [entry for entry in found if entry.pid not in leaders]
        for entry in helpers:
            text = f"{entry} on {held.name} outlived its leader: ended"
            self._report(Event(stage="stopping", text=text))
        if helpers:
            held.channel.signal(map(table.identity, helpers), signal.SIGTERM)

    def _kill(self) -> list[str]:
        """KILL until nothing is left; what does not go even so."""
        end = time.monotonic() + KILL_SECONDS
        told: set[Identity] = set()
        left: list[str] = []

        def kill(held: Held) -> None:
            table, found = held.look()
            left.extend(f"{entry} on {held.name} does not end" for entry in found)
            held.channel.signal(map(table.identity, found), signal.SIGKILL)
            new = [entry for entry in found if table.identity(entry) not in told]
            told.update(map(table.identity, new))
            for entry in new:
                text = f"{entry} on {held.name} did not end when asked: killed"
                self._report(Event(stage="stopping", text=text))

        while True:
            left.clear()
            self._each(kill)
            if not left or time.monotonic() > end:
                return left
            time.sleep(_POLL_SECONDS)

    def _each(self, act: Callable[[Held], None]) -> None:
        """Do something on every machine; one that cannot be reached is left out from then on."""
        for held in list(self._machines):
            try:
                try:
                    act(held)
                except Failed:
                    # A connection that fails once is no reason to leave processes behind.
                    time.sleep(_POLL_SECONDS)
                    act(held)
            except Failed as failed:
                self._machines.remove(held)
                self._unreached.append(f"{failed.message}; its processes may still run")
