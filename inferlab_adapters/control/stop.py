"""Ending every process of a run: TERM to each group, KILL after a grace, then whoever escaped."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from inferlab_adapters.control.channel import Channel, Target
from inferlab_adapters.control.events import Event, Report
from inferlab_adapters.control.proc_table import Entry, Identity, Table
from inferlab_adapters.control.refusal import Failed

HELPERS_SECONDS = 2.0
"""How long helpers that left their group may outlive it before they are told to end, too."""

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
        self._each(self._ask)
        if self._wait(self._grace, HELPERS_SECONDS):
            return self._unreached
        self._each(self._end_escaped)
        self._wait(_MOMENT_SECONDS, _MOMENT_SECONDS)
        return [*self._kill(), *self._unreached]

    def _wait(self, seconds: float, helpers_seconds: float) -> bool:
        """Until nothing is left, which it tells, or only helpers for a while, or time is over."""
        end = time.monotonic() + seconds
        alone_since: float | None = None
        while (now := time.monotonic()) < end and not self._hurry():
            groups, escaped = self._remaining()
            if groups:
                alone_since = None
            elif not escaped:
                return True
            elif alone_since is None:
                alone_since = now
            elif now > alone_since + helpers_seconds:
                return False
            time.sleep(_POLL_SECONDS)
        return False

    def _ask(self, held: Held) -> None:
        """TERM to each group, the last started first, and to whoever belongs to none."""
        table, found = held.look()
        reached: set[int] = set()
        for name, leader in reversed(held.leaders.items()):
            if leader is not None and (members := table.members(leader)):
                self._report(Event(stage="stopping", process=name, text="stopping"))
                held.channel.signal([Target(identity=leader, group=True)], signal.SIGTERM)
                reached.update(entry.pid for entry in members)
        alone = [entry for entry in found if entry.pid not in reached]
        held.channel.signal(_targets(table, alone), signal.SIGTERM)

    def _remaining(self) -> tuple[list[Entry], list[Entry]]:
        """Those still in a group that a leader holds, and those in none."""
        groups: list[Entry] = []
        escaped: list[Entry] = []

        def count(held: Held) -> None:
            _, found = held.look()
            leaders = {leader.pid for leader in held.leaders.values() if leader}
            for entry in found:
                (groups if entry.group in leaders else escaped).append(entry)

        self._each(count)
        return groups, escaped

    def _end_escaped(self, held: Held) -> None:
        table, found = held.look()
        leaders = {leader.pid for leader in held.leaders.values() if leader}
        escaped = [entry for entry in found if entry.group not in leaders]
        for entry in escaped:
            text = f"{entry} on {held.name} outlived its group: ended"
            self._report(Event(stage="stopping", text=text))
        if escaped:
            held.channel.signal(_targets(table, escaped), signal.SIGTERM)

    def _kill(self) -> list[str]:
        """KILL until nothing is left; what does not go even so."""
        end = time.monotonic() + KILL_SECONDS
        told: set[Identity] = set()
        left: list[str] = []

        def kill(held: Held) -> None:
            table, found = held.look()
            left.extend(f"{entry} on {held.name} does not end" for entry in found)
            held.channel.signal(_targets(table, found), signal.SIGKILL)
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
                act(held)
            except Failed as failed:
                self._machines.remove(held)
                self._unreached.append(f"{failed.message}; its processes may still run")


def _targets(table: Table, entries: Sequence[Entry]) -> list[Target]:
    return [Target(identity=table.identity(entry)) for entry in entries]
