"""Machines, plans and placements as the tests of placement write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferlab_adapters.control.inventory import Inventory, Machine
from inferlab_adapters.control.placement import Taken, place
from tests.support.control_plane import Json

MODEL = "llama"


def machine(name: str, devices: int | Sequence[int] | None = 8, **fields: Any) -> Machine:
    """A machine that knows the model, at an address made from the end of its name."""
    numbers = tuple(range(devices)) if isinstance(devices, int) else devices
    given = {
        "address": f"10.0.0.{ord(name[-1])}",
        "ports": tuple(range(8000, 8100)),
        "models": {MODEL: "/models/llama"},
        **fields,
    }
    return Machine(name=name, devices=None if numbers is None else tuple(numbers), **given)


def inventory(*machines: Machine, source: str = "machines.yaml") -> Inventory:
    return Inventory(machines=machines, source=source)


def replica(
    id: str = "server",
    devices: int = 1,
    ports: Sequence[str] = (),
    primary_ports: Sequence[str] = (),
    role_id: str = "serve",
    index: int = 0,
) -> Json:
    return {
        "id": id,
        "role_id": role_id,
        "replica_index": index,
        "device_count": devices,
        "ports": list(ports),
        "primary_ports": list(primary_ports),
    }


def plan_of(*replicas: Json, tensor: int = 1) -> Json:
    """The parts of a plan that placement reads."""
    roles = {
        item["role_id"]: {"outer": {"tensor_parallel_size": tensor}} if item["device_count"] else {}
        for item in replicas
    }
    return {
        "roles": [{"id": id, "effective_parallelism": sizes} for id, sizes in roles.items()],
        "replicas": list(replicas),
    }


def put(
    plan: Json,
    machines: Inventory,
    *,
    model_path: str | None = None,
    taken: Taken | None = None,
) -> list[Json]:
    return place(
        plan,
        machines,
        model_id=MODEL,
        model_path=model_path,
        cache=lambda machine, process: f"/cache/{machine.name}/{process}",
        taken=taken or Taken(),
    )


def port_numbers(allocation: Json) -> Mapping[str, int]:
    named = {name: address["port"] for name, address in allocation["ports"].items()}
    return {"endpoint": allocation["endpoint"]["port"], **named}
