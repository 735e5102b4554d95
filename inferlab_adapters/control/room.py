"""What is still free on one machine while a deployment is being placed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice

from inferlab_adapters.control.inventory import Machine


class NoPort(Exception):
    """The machine's list has no free port, or no run of consecutive ones, for these names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(*names)
        self.names = names


class Room:
    """The free devices and ports of a machine, which get fewer as they are given out.

    ``position`` is the machine's place in its inventory; ``devices`` and ``ports`` are what
    others hold already.
    """

    def __init__(
        self, machine: Machine, position: int, devices: frozenset[int], ports: frozenset[int]
    ) -> None:
        self.machine = machine
        self.position = position
        self._devices = devices
        self._next_device = 0
        self._free_ports = set(machine.ports) - ports
        self._next_port = 0
        if machine.devices is not None:
            self._free_devices = [item for item in machine.devices if item not in devices]

    def total(self) -> float:
        """How many devices the machine has, free or not; infinite where they are virtual."""
        return float("inf") if self.machine.devices is None else len(self.machine.devices)

    def free(self) -> float:
        """How many devices are free."""
        if self.machine.devices is None:
            return float("inf")
        return len(self._free_devices) - self._next_device

    def take_devices(self, number: int) -> list[int]:
        """The next free devices, in the order in which the machine lists them."""
        if self.machine.devices is not None:
            first = self._next_device
            self._next_device += number
            return self._free_devices[first : self._next_device]
        virtual = (item for item in count(self._next_device) if item not in self._devices)
        given = list(islice(virtual, number))
        self._next_device = given[-1] + 1 if given else self._next_device
        return given

    def take_ports(self, names: Sequence[str]) -> dict[str, int]:
        """A free port for each name, in the order of the machine's list.

        Names that form a run (``x``, ``x_1``, ``x_2``, …) get consecutive numbers. Raises
        :class:`NoPort`.
        """
        given: dict[str, int] = {}
        for run in _runs(names):
            first = next((port for port in self._candidates() if self._run_free(port, run)), None)
            if first is None:
                raise NoPort(run)
            for offset, name in enumerate(run):
                given[name] = first + offset
                self._free_ports.remove(first + offset)
        return {name: given[name] for name in names}

    def _candidates(self) -> Iterator[int]:
        ports = self.machine.ports
        # What is used up at the front is passed over for good: thousands of ports are given out.
        while self._next_port < len(ports) and ports[self._next_port] not in self._free_ports:
            self._next_port += 1
        for index in range(self._next_port, len(ports)):
            if ports[index] in self._free_ports:
                yield ports[index]

    def _run_free(self, first: int, run: Sequence[str]) -> bool:
        return all(first + offset in self._free_ports for offset in range(len(run)))


def _runs(names: Sequence[str]) -> list[list[str]]:
    """The names grouped into runs, in the order of the first name of each."""
    order = {name: index for index, name in enumerate(names)}
    runs: list[list[str]] = []
    grouped: set[str] = set()
    # By length, for the name that a run begins with is its shortest.
    for name in sorted(names, key=len):
        if name in grouped:
            continue
        run = [name]
        while (follower := f"{name}_{len(run)}") in order and follower not in grouped:
            run.append(follower)
        grouped.update(run)
        runs.append(run)
    return sorted(runs, key=lambda run: min(order[name] for name in run))
