"""A rendered deployment process by process: what every output format needs of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from inferlab_adapters.addresses import url_host
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import shown

if TYPE_CHECKING:
    from inferlab_adapters.control.inventory import Machine
    from inferlab_adapters.control.prepare import Prepared


class File(NamedTuple):
    """A launch file: where it stands on its machine, its whole text and the digest of that."""

    path: str
    text: str
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One process, with the facts that plan, allocation, rendering and inventory say about it.

    ``kind`` is that of its role: serve, prefill, decode or router. ``readiness`` is the planned
    probe of this rank.
    """

    name: str
    kind: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: tuple[File, ...]
    allocation: Json
    machine: Machine
    readiness: Json

    @property
    def url(self) -> str:
        """The HTTP address of its endpoint, without a path."""
        endpoint = self.allocation["endpoint"]
        return f"http://{url_host(endpoint['host'])}:{endpoint['port']}"


def blocks(prepared: Prepared) -> list[Block]:
    """Every process, each after those that it depends on."""
    rendered = {process["process"]: process for process in prepared.rendered["processes"]}
    kinds = {role["id"]: role["kind"] for role in prepared.plan["roles"]}
    replicas = {(r["role_id"], r["replica_index"]): r for r in prepared.plan["replicas"]}
    return [
        _block(
            kinds[allocation["role"]],
            allocation,
            rendered[allocation["process"]],
            replicas[allocation["role"], allocation["replica"]],
            prepared.machines[allocation["machine"]],
        )
        for allocation in in_dependency_order(prepared.allocations)
    ]


def in_dependency_order(allocations: Iterable[Json]) -> list[Json]:
    """The allocations, each after those that it depends on; otherwise as they stand."""
    by_name = {allocation["process"]: allocation for allocation in allocations}
    ordered: dict[str, Json] = {}
    for start in by_name:
        path = [start]
        while path:
            name = path[-1]
            waits = [other for other in by_name[name]["dependencies"] if other not in ordered]
            if waits:
                path.append(waits[0])
            else:
                ordered[name] = by_name[name]
                path.pop()
    return list(ordered.values())


def comment(text: str) -> str:
    """A text that cannot end the comment it stands in."""
    return text if text.isprintable() else shown(text)


def _block(kind: str, allocation: Json, process: Json, replica: Json, machine: Machine) -> Block:
    cache = allocation["cache"].rstrip("/")
    first = allocation["rank"] == 0
    return Block(
        name=process["process"],
        kind=kind,
        argv=tuple(process["command"]["argv"]),
        env=process["command"]["env"],
        files=tuple(
            File(f"{cache}/{file['relative_path']}", file["text"], file["sha256"])
            for file in process["launch_files"]
        ),
        allocation=allocation,
        machine=machine,
        readiness=replica["primary_readiness" if first else "worker_readiness"],
    )
