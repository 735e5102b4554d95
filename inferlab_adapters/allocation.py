"""The checked view of what a control plane allocated for a plan.

:func:`check` refuses every set of allocations from which no correct command could be
written; after it, replicas have all their ranks, ports and addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inferlab_adapters.addresses import canonical, host_problem, is_loopback
from inferlab_adapters.deployment import (
    ROUTER,
    Plan,
    PortPlan,
    RolePlan,
    span_names,
)
from inferlab_adapters.errors import Faults, pointer, shown

if TYPE_CHECKING:
    from inferlab_adapters.protocol import EndpointAssignment, ServeProcessAllocation


class Rank(NamedTuple):
    """One process of a replica, with its place in the request."""

    position: int
    allocation: ServeProcessAllocation

    @property
    def pointer(self) -> str:
        return f"/input/allocations/{self.position}"

    @property
    def endpoint(self) -> EndpointAssignment:
        assert self.allocation.endpoint is not None
        return self.allocation.endpoint

    @property
    def model_locator(self) -> str:
        assert self.allocation.model_locator is not None
        return self.allocation.model_locator

    def port(self, name: str) -> EndpointAssignment:
        """The address of a planned port."""
        return self.allocation.ports[name]

    def addresses(self) -> Iterator[tuple[str, str, EndpointAssignment]]:
        """Every address of the process: (JSON pointer, name for people, address)."""
        process = shown(self.allocation.process)
        if self.allocation.endpoint is not None:
            where = pointer(self.pointer, "endpoint")
            yield where, f"the endpoint of {process}", self.allocation.endpoint
        for name, address in self.allocation.ports.items():
            where = pointer(self.pointer, "ports", name)
            yield where, f"port {name} of {process}", address


class Replica(NamedTuple):
    """All ranks of one replica, rank 0 first. ``role`` is ``None`` for the native router."""

    role: RolePlan | None
    number: int
    ranks: tuple[Rank, ...]

    @property
    def primary(self) -> Rank:
        """Rank 0: the one that serves HTTP and that the other ranks find."""
        return self.ranks[0]


class Deployment(NamedTuple):
    """Every replica of a plan on its machines, by role and replica index.

    ``inputs`` holds the texts of the planned render inputs by their path.
    """

    plan: Plan
    replicas: dict[tuple[str, int], Replica]
    ranks: tuple[Rank, ...]
    inputs: Mapping[str, str]

    def of_role(self, role_id: str) -> list[Replica]:
        """The replicas of a role in replica order."""
        found = [replica for (role, _), replica in self.replicas.items() if role == role_id]
        return sorted(found, key=lambda replica: replica.number)

    def replica_of(self, rank: Rank) -> Replica:
        """The replica that a process belongs to."""
        return self.replicas[rank.allocation.role, rank.allocation.replica]


def check(
    plan: Plan, allocations: Sequence[ServeProcessAllocation], inputs: Mapping[str, str]
) -> Deployment:
    """Check allocations against the plan; raise ``invalid_request`` with everything wrong."""
    faults = Faults("invalid_request")
    ranks = tuple(Rank(position=index, allocation=wire) for index, wire in enumerate(allocations))
    replicas = _group(plan, ranks, faults)
    faults.check()
    for replica in replicas.values():
        if replica.role is None:
            _check_router(plan, replica, faults)
        else:
            _check_server(replica.role, replica, faults)
    _check_addresses(plan, ranks, faults)
    faults.check()
    return Deployment(plan=plan, replicas=replicas, ranks=ranks, inputs=inputs)


def _group(plan: Plan, ranks: Sequence[Rank], faults: Faults) -> dict[tuple[str, int], Replica]:
    roles: dict[str, RolePlan | None] = {role.id: role for role in plan.roles}
    if plan.router is not None:
        roles[ROUTER] = None
    counts = {name: role.request.replica_count if role else 1 for name, role in roles.items()}
    members: dict[tuple[str, int], list[Rank]] = {}
    processes: set[str] = set()
    for rank in ranks:
        wire = rank.allocation
        if wire.role not in roles:
            faults.add(pointer(rank.pointer, "role"), f"{shown(wire.role)} is no planned role")
        elif wire.replica >= counts[wire.role]:
            what = f"replica {wire.replica} is not planned: {shown(wire.role)} has "
            faults.add(pointer(rank.pointer, "replica"), what + f"{counts[wire.role]}")
        else:
            members.setdefault((wire.role, wire.replica), []).append(rank)
        if not wire.process or wire.process in processes:
            what = f"{shown(wire.process)} is used twice" if wire.process else "must not be empty"
            faults.add(pointer(rank.pointer, "process"), what, "give every process its own id")
        processes.add(wire.process)
    for name, count in counts.items():
        missing = [index for index in range(count) if (name, index) not in members]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            what = f"replica {missing[0]} of role {shown(name)}{more} has no allocation"
            faults.add("/input/allocations", what)
    return {
        (name, index): _replica(roles[name], name, index, group, faults)
        for (name, index), group in members.items()
    }


def _replica(
    role: RolePlan | None, name: str, index: int, group: list[Rank], faults: Faults
) -> Replica:
    group = sorted(group, key=lambda rank: rank.allocation.rank)
    label = f"replica {index} of role {shown(name)}"
    previous: Rank | None = None
    for rank in group:
        wire = rank.allocation
        if wire.rank_count != len(group):
            what = f"says {wire.rank_count}, but {label} has {_count(len(group), 'allocation')}"
            faults.add(pointer(rank.pointer, "rank_count"), what, "allocate every rank once")
        if previous is not None and previous.allocation.rank == wire.rank:
            what = f"rank {wire.rank} of {label} is also {shown(previous.allocation.process)}"
            faults.add(pointer(rank.pointer, "rank"), what, "number the ranks 0, 1, 2, …")
        elif wire.rank >= len(group):
            what = f"rank {wire.rank} of {label} is out of range"
            faults.add(pointer(rank.pointer, "rank"), what, f"it has {len(group)} ranks")
        previous = rank
    return Replica(role=role, number=index, ranks=tuple(group))


def _check_router(plan: Plan, replica: Replica, faults: Faults) -> None:
    assert plan.router is not None
    for rank in replica.ranks:
        wire = rank.allocation
        if wire.devices:
            faults.add(pointer(rank.pointer, "devices"), "a router takes no devices", "send []")
        if wire.model_locator is not None:
            where = pointer(rank.pointer, "model_locator")
            faults.add(where, "a router loads no model", "leave it out")
    if len(replica.ranks) > 1:
        where = pointer(replica.ranks[1].pointer, "rank")
        faults.add(where, "a router is one process", "allocate one rank")
    _check_process(replica.primary, PortPlan(ports=plan.router.ports), True, False, faults)


def _check_server(role: RolePlan, replica: Replica, faults: Faults) -> None:
    _check_devices(role, replica, faults)
    several = len(replica.ranks) > 1
    for rank in replica.ranks:
        primary = rank is replica.primary
        _check_process(rank, role.ports, primary, several and primary, faults)
        locator = rank.allocation.model_locator
        where = pointer(rank.pointer, "model_locator")
        if not locator:
            faults.add(where, "is missing: every rank loads the model")
        elif locator.startswith("-"):
            faults.add(where, f"{shown(locator)} would be read as an option", "use a full path")
        elif "\0" in locator:
            faults.add(where, "must not contain a NUL character")


def _check_devices(role: RolePlan, replica: Replica, faults: Faults) -> None:
    wanted, ranks = role.layout.devices, len(replica.ranks)
    given = sum(len(rank.allocation.devices) for rank in replica.ranks)
    label = f"replica {replica.number} of role {shown(role.id)}"
    where = pointer(replica.primary.pointer, "devices")
    if given != wanted:
        what = f"{label} needs {_count(wanted, 'device')}, "
        has = "allocation has" if ranks == 1 else f"its {ranks} allocations have"
        faults.add(where, f"{what}{has} {given}")
    elif wanted % ranks or any(
        len(rank.allocation.devices) != wanted // ranks for rank in replica.ranks
    ):
        split = "+".join(str(len(rank.allocation.devices)) for rank in replica.ranks)
        what = f"{label} is split {split}, but every rank must have the same number of devices"
        faults.add(where, what)
    for rank in replica.ranks:
        devices = rank.allocation.devices
        if len(set(devices)) != len(devices):
            where = pointer(rank.pointer, "devices")
            faults.add(where, f"{shown(devices)} names a device twice")


def _check_process(
    rank: Rank, planned: PortPlan, needs_endpoint: bool, needs_primary: bool, faults: Faults
) -> None:
    wire = rank.allocation
    if needs_endpoint and wire.endpoint is None:
        faults.add(pointer(rank.pointer, "endpoint"), "is missing: this process serves HTTP")
    if not wire.cache:
        faults.add(pointer(rank.pointer, "cache"), "must not be empty")
    elif "\0" in wire.cache:
        faults.add(pointer(rank.pointer, "cache"), "must not contain a NUL character")
    needed = [*planned.ports, *(planned.primary_ports if needs_primary else ())]
    for name in needed:
        if name not in wire.ports:
            faults.add(pointer(rank.pointer, "ports", name), "is missing: the plan asks for it")
    for name in wire.ports:
        if name not in planned.ports and name not in planned.primary_ports:
            faults.add(pointer(rank.pointer, "ports", name), "is no planned port", "leave it out")
    for first, count in planned.spans.items():
        _check_span(rank, span_names(first, count), faults)


def _check_span(rank: Rank, names: tuple[str, ...], faults: Faults) -> None:
    ports = rank.allocation.ports
    if any(name not in ports for name in names):
        return
    base = ports[names[0]]
    for offset, name in enumerate(names):
        address = ports[name]
        if address.port != base.port + offset or address.host != base.host:
            wanted = f"{base.host} port {base.port + offset}"
            what = f"must be {wanted}, got {address.host} port {address.port}"
            hint = (
                f"the engine takes {len(names)} consecutive ports from {names[0]} on: give the "
                "machine a port list with such a run"
            )
            faults.add(pointer(rank.pointer, "ports", name), what, hint)
            return


def _check_addresses(plan: Plan, ranks: Sequence[Rank], faults: Faults) -> None:
    owners: dict[tuple[str, str, int], str] = {}
    machines = {rank.allocation.machine for rank in ranks}
    for rank in ranks:
        for where, owner, address in rank.addresses():
            wrong = host_problem(address.host)
            if wrong:
                faults.add(pointer(where, "host"), *wrong)
                continue
            if address.port == 0:
                faults.add(pointer(where, "port"), "0 is not a port", "give a fixed port")
                continue
            loopback = is_loopback(address.host)
            # Some listeners take their port on every interface, whatever host is meant.
            keys = [(rank.allocation.machine, "", address.port)]
            if not loopback:
                keys.append(("", canonical(address.host), address.port))
            for key in keys:
                other = owners.setdefault(key, owner)
                if other != owner:
                    what = f"{address.host} port {address.port} is both {other} and {owner}"
                    faults.add(where, what, "give each its own port")
            if loopback and len(machines) > 1 and _has_remote_peer(plan, rank, ranks):
                what = f"{shown(address.host)} cannot be reached from the other machines"
                faults.add(pointer(where, "host"), what, "give the address that peers reach")


def _has_remote_peer(plan: Plan, rank: Rank, ranks: Sequence[Rank]) -> bool:
    mine = rank.allocation
    return any(
        other.allocation.machine != mine.machine
        and (plan.mechanism is not None or _same_replica(rank, other))
        for other in ranks
    )


def _same_replica(one: Rank, other: Rank) -> bool:
    mine, theirs = one.allocation, other.allocation
    return (mine.role, mine.replica) == (theirs.role, theirs.replica)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
