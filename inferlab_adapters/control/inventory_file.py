"""An inventory file: its keys, and which machines may stand together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferlab_adapters.addresses import canonical, is_loopback
from inferlab_adapters.control import documents, gpus
from inferlab_adapters.control import inventory_keys as keys
from inferlab_adapters.control.inventory import DEFAULT_PORTS, LOOPBACK, Machine
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.errors import Fault, pointer, shown
from inferlab_adapters.validation import faults_of

_T = TypeVar("_T")


class MachineEntry(BaseModel):
    """One machine as written; what has several forms is read further by ``inventory_keys``."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: str
    address: str = ""
    devices: Any = None
    ports: Any = None
    models: dict[str, str] = Field(default_factory=dict)
    launch: Any = "local"
    engine_env: str = ""
    cache: str = ""


class InventoryFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(strict=True, extra="forbid")

    machines: list[MachineEntry]


def read(file: str) -> tuple[Machine, ...]:
    """The machines of a file, relative paths taken from its folder.

    Raises :class:`Refused` with every fault found.
    """
    if file == "-":
        raise Refused(Fault("", "an inventory is not read from stdin", "give the name of a file"))
    document = documents.read(file, stdin=BytesIO())
    try:
        entries = InventoryFile.model_validate(document).machines
    except ValidationError as error:
        raise Refused(*faults_of(error, InventoryFile, document), source=file) from None
    if not entries:
        raise Refused(Fault("/machines", "is empty", "add a machine"), source=file)
    reader = _Reader(Path(file).absolute().parent, alone=len(entries) == 1)
    machines = [reader.machine(entry, index) for index, entry in enumerate(entries)]
    faults = reader.faults or list(_faults_together(machines))
    if faults:
        raise Refused(*faults, source=file)
    return tuple(machines)


class _Reader:
    """Reads machine after machine and collects what is wrong with each."""

    def __init__(self, folder: Path, *, alone: bool) -> None:
        self.faults: list[Fault] = []
        self._folder = folder
        self._alone = alone

    @cached_property
    def _gpus(self) -> tuple[int, ...]:
        return gpus.present()

    def machine(self, entry: MachineEntry, index: int) -> Machine:
        """One machine; where something is wrong with it, faults are recorded."""
        at = pointer("/machines", index)
        given = entry.model_fields_set
        ssh = self._value(pointer(at, "launch"), None, keys.launch, entry.launch)
        base = None if ssh else self._folder

        def folder(key: str, value: str) -> str | None:
            if key not in given:
                return None
            return self._value(pointer(at, key), value, keys.folder, value, base)

        return Machine(
            name=self._value(pointer(at, "name"), entry.name, keys.name, entry.name),
            address=self._address(pointer(at, "address"), entry, ssh),
            devices=self._devices(pointer(at, "devices"), entry, ssh),
            ports=self._value(pointer(at, "ports"), (), keys.ports, entry.ports)
            if "ports" in given
            else DEFAULT_PORTS,
            models={
                name: self._value(pointer(at, "models", name), path, keys.model, path, base)
                for name, path in entry.models.items()
            },
            ssh=ssh,
            engine_env=folder("engine_env", entry.engine_env),
            cache=folder("cache", entry.cache),
        )

    def _address(self, at: str, entry: MachineEntry, ssh: str | None) -> str:
        if "address" in entry.model_fields_set:
            return self._value(at, entry.address, keys.address, entry.address)
        if ssh or not self._alone:
            hint = "give the host name or IP address at which this and the other machines reach it"
            self.faults.append(Fault(at, "is missing", hint))
        return LOOPBACK

    def _devices(self, at: str, entry: MachineEntry, ssh: str | None) -> tuple[int, ...] | None:
        if "devices" in entry.model_fields_set:
            none: tuple[int, ...] | None = ()
            return self._value(at, none, keys.devices, entry.devices)
        if ssh:
            what = "is missing: GPUs are counted on this machine only"
            self.faults.append(Fault(at, what, 'give their number, or "cpu"'))
            return ()
        return self._gpus or None

    def _value(self, at: str, instead: _T, read: Callable[..., _T], *arguments: Any) -> _T:
        try:
            return read(*arguments)
        except keys.WrongValue as wrong:
            self.faults.append(Fault(pointer(at, *wrong.path), wrong.what, wrong.hint))
            return instead


def _faults_together(machines: Sequence[Machine]) -> Iterator[Fault]:
    names: dict[str, int] = {}
    remote = any(machine.ssh for machine in machines)
    for index, machine in enumerate(machines):
        at = pointer("/machines", index)
        first = names.setdefault(machine.name, index)
        if first != index:
            what = f"{shown(machine.name)} is also the name of /machines/{first}"
            yield Fault(pointer(at, "name"), what, "give every machine its own")
        if remote and len(machines) > 1 and is_loopback(machine.address):
            what = f"{shown(machine.address)} cannot be reached from the other machines"
            yield Fault(pointer(at, "address"), what, "give the address that peers reach")
    for (_, one), (index, other) in combinations(enumerate(machines), 2):
        same = _why_the_same(one, other)
        if same:
            yield from _overlaps(one, other, pointer("/machines", index), same)


def _why_the_same(one: Machine, other: Machine) -> str:
    """Why two entries are one real machine; empty if nothing says so."""
    if one.ssh == other.ssh:
        return f"both are reached by ssh {one.ssh}" if one.ssh else "both are launched locally"
    if canonical(one.address) == canonical(other.address):
        return f"both have the address {one.address}"
    return ""


def _overlaps(one: Machine, other: Machine, at: str, same: str) -> Iterator[Fault]:
    for key, mine, theirs in (
        ("ports", other.ports, one.ports),
        ("devices", other.devices or (), one.devices or ()),
    ):
        taken = set(theirs)
        twice = next((item for item in mine if item in taken), None)
        if twice is not None:
            what = f"{key.removesuffix('s')} {twice} also belongs to {shown(one.name)}, and {same}"
            yield Fault(pointer(at, key), what, f"give each {key} of its own")
