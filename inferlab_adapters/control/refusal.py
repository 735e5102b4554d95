"""The two ways in which the control plane says no."""

from __future__ import annotations

from inferlab_adapters.errors import Fault


class Refused(Exception):
    """Nothing was started: what was asked for cannot be, with every fault found.

    ``source`` names the file that is at fault, where there is one.
    """

    def __init__(self, *faults: Fault, source: str = "") -> None:
        super().__init__(*faults)
        self.faults = faults
        self.source = source

    def lines(self) -> list[str]:
        """One line a fault, for people."""
        start = f"{self.source}: " if self.source else ""
        return [f"{start}{fault}" for fault in self.faults]

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Failed(Exception):
    """Something that was started went wrong: why, and further lines such as the end of a log."""

    def __init__(self, message: str, *details: str) -> None:
        super().__init__(message, *details)
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return "\n".join([self.message, *self.details])
