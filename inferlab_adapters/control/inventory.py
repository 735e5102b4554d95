"""The machines that a control plane may use: devices, ports, model paths, how to reach them."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from inferlab_adapters.control import gpus


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """One machine.

    ``devices`` are its device numbers, ``None`` where models run on its CPUs, which take any
    number of virtual devices. ``ports`` are given out in this order. ``models`` maps model ids to
    paths on the machine. ``ssh`` is the target that ssh connects to, ``None`` for this machine.
    ``engine_env`` is the folder of the virtual environment that holds the engine, ``None`` for
    what is on PATH; ``cache`` an absolute folder for caches and launch files.
    """

    name: str
    address: str
    devices: tuple[int, ...] | None
    ports: tuple[int, ...]
    models: Mapping[str, str] = field(default_factory=dict)
    ssh: str | None = None
    engine_env: str | None = None
    cache: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """Machines in the order in which they are filled; ``source`` is their file, empty for none."""

    machines: tuple[Machine, ...]
    source: str = ""


DEFAULT_PORTS = tuple(range(8000, 9000))
LOOPBACK = "127.0.0.1"


def load(file: str | None) -> Inventory:
    """The inventory that a file holds; without one, this machine with its GPUs, if it has any.

    Raises :class:`~inferlab_adapters.control.refusal.Refused` with every fault of the file, and
    when the driver of this machine's GPUs answers with an error.
    """
    from inferlab_adapters.control import inventory_file, inventory_keys

    if file is None:
        name = socket.gethostname()
        here = Machine(
            name=name if inventory_keys.is_name(name) else "localhost",
            address=LOOPBACK,
            devices=gpus.present() or None,
            ports=DEFAULT_PORTS,
        )
        return Inventory(machines=(here,))
    return Inventory(machines=inventory_file.read(file), source=file)
