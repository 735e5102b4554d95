"""How processes are started, looked at and signalled on a machine, near or far."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.proc_table import MARKER, Identity, Table

Address: TypeAlias = tuple[str, int]
"""Host and port."""


def device_variables(devices: Iterable[int]) -> dict[str, str]:
    """The variables that show a process just these GPUs."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices)),
        # Inventories number GPUs as nvidia-smi does, CUDA by itself the fastest first.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """A process to start.

    ``env`` is what was rendered. ``devices`` is ``None`` where the machine has no GPUs. ``cwd`` is
    made if it is missing. ``log`` is a file of this machine, written anew.
    """

    process: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    devices: tuple[int, ...] | None
    engine_env: str | None
    cwd: str
    run: str
    log: Path

    @property
    def engine_bin(self) -> str | None:
        """The folder that goes first on PATH."""
        return f"{self.engine_env.rstrip('/')}/bin" if self.engine_env else None

    def variables(self) -> dict[str, str]:
        """What is added to the machine's own environment, the rendered variables last."""
        added = {"PWD": self.cwd}
        if self.devices is not None:
            added.update(device_variables(self.devices))
        added.update(self.env)
        added[MARKER] = self.run
        # setproctitle, which engines use, would overwrite the marker in /proc/<pid>/environ.
        added["SPT_NOENV"] = "1"
        return added


class Started(Protocol):
    """A process that was started."""

    def leader(self) -> Identity | None:
        """The leader of its session and group; ``None`` while the machine has not told."""

    def ended(self) -> str | None:
        """How it ended, as the rest of a sentence; ``None`` while it runs."""

    def close(self) -> None:
        """Let go of it, once it has ended or its machine cannot be reached."""


class Channel(Protocol):
    """One machine. Every method raises :class:`~.refusal.Failed` where it cannot be reached."""

    def problem(self, launch: Launch) -> str | None:
        """Why the process cannot be started here; ``None`` when nothing speaks against it."""

    def busy(self, addresses: Sequence[Address]) -> dict[Address, str]:
        """Those that no server could open now, and why."""

    def put(self, path: str, text: str, sha256: str) -> None:
        """Make a file hold a text, whole or not at all."""

    def start(self, launch: Launch) -> Started:
        """Start a process in a session of its own, its output going to its log."""

    def table(self, run: str) -> Table:
        """All processes of the machine, those with the run's marker marked."""

    def signal(self, targets: Iterable[Identity], number: signal.Signals) -> None:
        """Signal those that are still who they were."""


def connect(name: str, ssh: str | None) -> Channel:
    """The channel to a machine of that name."""
    if ssh is None:
        from inferlab_adapters.control.local import LocalChannel

        return LocalChannel(name)
    from inferlab_adapters.control.ssh import SshChannel

    return SshChannel(name, ssh)


def channels(machines: Mapping[str, Machine], names: Iterable[str]) -> dict[str, Channel]:
    """A channel to each named machine of an inventory."""
    return {name: connect(name, machines[name].ssh) for name in dict.fromkeys(names)}


def exit_text(code: int) -> str:
    """An exit code as the rest of a sentence; negative codes are signals."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the kernel does that when memory runs out)" if -code == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
