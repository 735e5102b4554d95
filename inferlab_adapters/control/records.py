"""What is written down of a deployment: enough to find and end every process of it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import Literal

from inferlab_adapters.control import proc_table
from inferlab_adapters.control.proc_table import Identity

Status = Literal["starting", "ready", "failed", "stopping"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedProcess:
    """A process of a deployment, written down before it is started.

    ``ssh`` is its machine's target, ``None`` for this machine. ``endpoints`` are all its ports:
    (name, host, port). ``leader`` is ``None`` until it is known; the run's marker finds the process
    all the same.
    """

    name: str
    machine: str
    ssh: str | None
    devices: tuple[int, ...]
    endpoints: tuple[tuple[str, str, int], ...]
    log: str
    leader: Identity | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """A deployment. ``created`` in seconds since 1970, ``grace`` in seconds.

    ``run`` is the value of the marker in the environment of each of its processes. A ``failed``
    deployment holds nothing any more, unless ``left`` says what could not be stopped.
    """

    run: str
    name: str
    framework: str
    status: Status
    created: float
    host: str
    supervisor: Identity
    endpoint: tuple[str, int]
    grace: float
    processes: tuple[PlannedProcess, ...]
    reason: str = ""
    left: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether its devices and ports may still be in use."""
        return self.status != "failed" or bool(self.left)

    @property
    def machines(self) -> dict[str, str | None]:
        """The ssh target of every machine it is on, by the machine's name."""
        return {process.machine: process.ssh for process in self.processes}


def here() -> str:
    """The name of this host, which a state keeps: a home folder may be shared."""
    return socket.gethostname()


def supervisor() -> Identity:
    """This process."""
    identity = proc_table.identify(os.getpid())
    assert identity is not None
    return identity
