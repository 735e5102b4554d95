"""First fit: which machines, devices and ports the replicas of a plan get.

A replica goes whole onto the first machine with enough free devices. Only where no machine of the
inventory has so many devices at all is it split, evenly and over as few machines as possible, each
with whole tensor groups; a tensor group wider than every machine is split evenly itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inferlab_adapters.control.inventory import Inventory, Machine
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.room import NoPort, Room
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault, pointer, shown

_NAMED_MACHINES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What other running deployments hold: (machine name, device) and (machine name, port)."""

    devices: frozenset[tuple[str, int]] = frozenset()
    ports: frozenset[tuple[str, int]] = frozenset()


NOTHING_TAKEN = Taken()


def place(
    plan: Json,
    inventory: Inventory,
    *,
    model_id: str,
    model_path: str | None,
    cache: Callable[[Machine, str], str],
    taken: Taken = NOTHING_TAKEN,
) -> list[Json]:
    """Allocations for every replica of a plan, in the plan's order and the wire's form.

    ``model_path`` serves where a machine's ``models`` do not name the model; ``cache`` gives the
    cache folder of a process (machine, process id).

    Raises :class:`Refused` naming every replica, port and model path for which there is no place.
    """
    placing = _Placing(inventory, model_id, model_path, cache, taken)
    groups = {role["id"]: _tensor_group(role) for role in plan["roles"]}
    allocations = [
        allocation
        for replica in plan["replicas"]
        for allocation in placing.replica(replica, groups[replica["role_id"]])
    ]
    if placing.faults:
        raise Refused(*placing.faults, source=inventory.source)
    routers = {replica["role_id"] for replica in plan["replicas"] if not replica["device_count"]}
    for router in allocations:
        if router["role"] in routers:
            router["dependencies"] = [
                other["process"] for other in allocations if other is not router
            ]
    return allocations


def _tensor_group(role: Json) -> int:
    size: int = role["effective_parallelism"].get("outer", {}).get("tensor_parallel_size", 1)
    return size


class _Placing:
    """Places replica after replica and collects what there is no place for."""

    def __init__(
        self,
        inventory: Inventory,
        model_id: str,
        model_path: str | None,
        cache: Callable[[Machine, str], str],
        taken: Taken,
    ) -> None:
        self._found: dict[Fault, None] = {}
        self._without_ports: set[str] = set()
        self._in_file = bool(inventory.source)
        self._model_id = model_id
        self._model_path = model_path
        self._cache = cache
        self._rooms = [
            Room(
                machine,
                index,
                frozenset(item for name, item in taken.devices if name == machine.name),
                frozenset(item for name, item in taken.ports if name == machine.name),
            )
            for index, machine in enumerate(inventory.machines)
        ]

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Everything for which there is no place, each once."""
        return tuple(self._found)

    def replica(self, replica: Json, tensor_group: int) -> list[Json]:
        """Allocations for one replica; none where a fault was recorded."""
        devices = replica["device_count"]
        if devices == 0:
            rooms = self._rooms[:1]
        else:
            rooms = self._whole(devices) or self._split(devices, tensor_group)
        if not rooms:
            self._fault("", *self._why_no_room(replica, tensor_group))
        ranks = len(rooms)
        return [
            allocation
            for rank, room in enumerate(rooms)
            if (allocation := self._process(replica, room, rank, ranks)) is not None
        ]

    def _whole(self, devices: int) -> list[Room]:
        return [room for room in self._rooms if room.free() >= devices][:1]

    def _split(self, devices: int, tensor_group: int) -> list[Room]:
        largest = self._largest()
        if largest >= devices:
            return []
        for ranks in range(2, len(self._rooms) + 1):
            each, rest = divmod(devices, ranks)
            whole = each % tensor_group == 0 or (
                tensor_group > largest and tensor_group % each == 0
            )
            fitting = [room for room in self._rooms if room.free() >= each]
            if rest == 0 and whole and len(fitting) >= ranks:
                return fitting[:ranks]
        return []

    def _largest(self) -> float:
        return max(room.total() for room in self._rooms)

    def _process(self, replica: Json, room: Room, rank: int, ranks: int) -> Json | None:
        machine, serving = room.machine, replica["device_count"] > 0
        process = _process_id(replica["id"], rank, ranks)
        locator = machine.models.get(self._model_id, self._model_path)
        if serving and locator is None:
            what = f"machine {machine.name} knows no path of model {shown(self._model_id)}"
            self._fault(self._at(room, "models"), what, "add it to models, or give model.path")
        devices = room.take_devices(replica["device_count"] // ranks)
        primary = replica["primary_ports"] if ranks > 1 and rank == 0 else []
        try:
            endpoint = room.take_ports(["endpoint"])["endpoint"]
            ports = room.take_ports(replica["ports"]) | room.take_ports(primary)
        except NoPort as error:
            self._no_port(room, process, error.names)
            return None

        def address(port: int) -> Json:
            return {"host": machine.address, "port": port}

        return {
            "process": process,
            "role": replica["role_id"],
            "replica": replica["replica_index"],
            "rank": rank,
            "rank_count": ranks,
            "machine": machine.name,
            "devices": devices,
            **({"model_locator": locator} if serving else {}),
            "endpoint": address(endpoint),
            "ports": {name: address(port) for name, port in ports.items()},
            "cache": self._cache(machine, process),
            "launch": (
                {"kind": "ssh", "target": machine.ssh} if machine.ssh else {"kind": "local"}
            ),
            "dependencies": [_process_id(replica["id"], 0, ranks)] if rank else [],
        }

    def _no_port(self, room: Room, process: str, names: Sequence[str]) -> None:
        if room.machine.name in self._without_ports:
            return
        self._without_ports.add(room.machine.name)
        number = "free port" if len(names) == 1 else f"{len(names)} consecutive free ports"
        what = f"machine {room.machine.name} has no {number} left for {names[0]} of {process}"
        self._fault(self._at(room, "ports"), what, "add ports to its list")

    def _why_no_room(self, replica: Json, tensor_group: int) -> tuple[str, str]:
        wanted, rooms = replica["device_count"], self._rooms
        needs = f"replica {replica['id']} needs {_count(wanted, 'device')}"
        big = [room for room in rooms if room.total() >= wanted]
        if big:
            best = max(big, key=lambda room: room.free())
            has = f"{best.machine.name} has {best.total()}, {best.free()} of them free"
            return f"{needs} on one machine, {has}", "stop what holds the others, or add machines"
        having = [room for room in rooms if room.free()]
        free = sum(room.free() for room in having)
        if free < wanted and len(rooms) > 1:
            what = f"{needs}, {free} are free on {_count(len(having), 'machine')}"
            return what, "stop what holds others, add machines, or make its sizes smaller"
        what = f"{needs} on one machine, the largest has {self._largest()}"
        if len(rooms) == 1:
            return what, "add machines, or make its sizes smaller"
        listed = [f"{room.machine.name} {room.free()}" for room in having]
        rest = listed[_NAMED_MACHINES:]
        more = f" and {len(rest)} more machines" if rest else ""
        what = f"{what}; free are {', '.join(listed[:_NAMED_MACHINES])}{more}"
        parts = f"whole tensor groups of {tensor_group}" if tensor_group > 1 else "devices"
        return what, f"a split puts equally many {parts} on every machine: add or free some"

    def _at(self, room: Room, key: str) -> str:
        return pointer("/machines", room.position, key) if self._in_file else ""

    def _fault(self, where: str, what: str, hint: str) -> None:
        self._found.setdefault(Fault(where, what, hint))


def _process_id(replica: str, rank: int, ranks: int) -> str:
    return replica if ranks == 1 else f"{replica}-rank-{rank:03d}"


def _count(number: float, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
