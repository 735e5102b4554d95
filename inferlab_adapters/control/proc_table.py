"""The processes of a Linux machine, and which of them belong to a run.

A process belongs to a run when its environment holds the run's marker, when it is the leader that
was started or in the leader's process group or session, or when it descends from such a process.
A process id alone proves nothing, because the kernel uses it again: an id counts together with the
start time that the kernel keeps and the boot that this time is counted from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MARKER = "OE_RUN"
"""Environment variable whose value is the id of the run that a process belongs to."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SHOWN = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """One process and no other: ``start`` in clock ticks since the boot of that id."""

    pid: int
    start: int
    boot: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One row of the table. ``command`` is the command line, or the bare name."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    ended: bool
    marked: bool
    command: str

    def __str__(self) -> str:
        text = self.command if self.command.isprintable() else ascii(self.command)[1:-1]
        short = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
        return f"process {self.pid} ({short})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """All processes of a machine at one moment."""

    boot: str
    entries: tuple[Entry, ...]

    def holds(self, identity: Identity) -> bool:
        """Whether the process is still there, be it ended and not yet waited for."""
        return bool(self._present([identity]))

    def members(self, leader: Identity) -> list[Entry]:
        """The living of its group and session, and their descendants; none once it is gone."""
        return self._descent(self._with_groups(self._present([leader])))

    def of_run(self, known: Iterable[Identity]) -> list[Entry]:
        """Every living process of the run; ``known`` are its leaders and what it was seen to have.

        The caller is never among them.
        """
        marked = {entry.pid for entry in self.entries if entry.marked}
        return self._descent(marked | self._with_groups(self._present(known)))

    def identity(self, entry: Entry) -> Identity:
        return Identity(pid=entry.pid, start=entry.start, boot=self.boot)

    def _present(self, identities: Iterable[Identity]) -> set[int]:
        wanted = {(one.pid, one.start) for one in identities if one.boot == self.boot}
        return {entry.pid for entry in self.entries if (entry.pid, entry.start) in wanted}

    def _with_groups(self, pids: set[int]) -> set[int]:
        # The kernel does not give out an id again while a process, group or session has it.
        return pids | {
            entry.pid for entry in self.entries if entry.group in pids or entry.session in pids
        }

    def _descent(self, roots: Iterable[int]) -> list[Entry]:
        found = set(roots)
        children: dict[int, list[int]] = {}
        for entry in self.entries:
            children.setdefault(entry.parent, []).append(entry.pid)
        waiting = list(found)
        while waiting:
            new = set(children.get(waiting.pop(), ())) - found
            found |= new
            waiting += new
        # Descendants of a marked process could in theory include the one that asks.
        found.discard(os.getpid())
        return [entry for entry in self.entries if entry.pid in found and not entry.ended]


def parse_stat(line: str, *, marked: bool = False, command: str = "") -> Entry | None:
    """A line of ``/proc/<pid>/stat``; ``None`` where it is none (a name may hold anything)."""
    head, _, tail = line.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    try:
        return Entry(
            pid=int(pid),
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            start=int(fields[19]),
            ended=fields[0] in ("Z", "X", "x"),
            marked=marked,
            command=command or name,
        )
    except (ValueError, IndexError):
        return None


def read(run: str) -> Table:
    """The processes of this machine; only root sees marks on those of other users."""
    marker = f"{MARKER}={run}".encode()
    entries = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        folder = Path("/proc", pid)
        try:
            line = (folder / "stat").read_text(errors="replace")
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue  # it has just ended
        try:
            marked = marker in (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            marked = False
        if entry := parse_stat(line, marked=marked, command=command.strip()):
            entries.append(entry)
    return Table(boot=boot_id(), entries=tuple(entries))


def boot_id() -> str:
    """The id of this machine's present boot."""
    return _BOOT.read_text(encoding="ascii").strip()


def identify(pid: int) -> Identity | None:
    """The process that has an id now, living or not yet waited for."""
    try:
        entry = parse_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except OSError:
        return None
    if entry is None:
        return None
    return Identity(pid=pid, start=entry.start, boot=boot_id())
