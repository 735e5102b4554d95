"""A control plane in miniature: it asks, checks the answers as a real one does, and allocates.

The checks are those of a real control plane (InferLab 0.5.0): a plan it would refuse is a bug.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.openengine.launch import unwrapped
from inferlab_adapters.wire import respond
from tests.support.schema import check_response

Json = dict[str, Any]

SIZES = {
    "outer": ("tensor_parallel_size", "pipeline_parallel_size"),
    "attention": ("tensor_parallel_size", "data_parallel_size", "context_parallel_size"),
    "experts": (
        "tensor_parallel_size",
        "data_parallel_size",
        "expert_parallel_size",
        "dense_tensor_parallel_size",
    ),
}


IN_BAND = ("tensorrt-llm", "fake")
"""Frameworks whose NIXL peers need no port of their own to meet."""


def ask(
    adapter: Adapter,
    request: Json,
    framework_version: str = "0.32.0",
    note: Callable[[str], None] = lambda text: None,
) -> Json:
    """Send one request through the whole wire edge, in memory."""
    context = Context(framework_version=framework_version, note=note)
    line = respond(json.dumps(request).encode(), adapter, context)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    response: Json = json.loads(line)
    check_response(response)
    return response


def output(response: Json) -> Json:
    """The result of a response that must be ``ok``."""
    assert response["status"] == "ok", response
    result: Json = response["result"]["output"]
    return result


def refused(response: Json) -> tuple[str, str]:
    """Code and message of a response that must be an error."""
    assert response["status"] == "error", response
    return response["error"]["code"], response["error"]["message"]


def role(
    kind: str = "serve",
    *,
    id: str | None = None,
    count: int = 1,
    outer: Mapping[str, int] | None = None,
    attention: Mapping[str, int] | None = None,
    experts: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Json:
    """One role of a plan request; sizes without their ``_parallel_size`` ending."""
    groups = {"outer": outer, "attention": attention, "experts": experts}
    return {
        "id": id or kind,
        "kind": kind,
        "replica_count": count,
        "parallelism": {
            group: {f"{name}_parallel_size": size for name, size in sizes.items()}
            for group, sizes in groups.items()
            if sizes is not None
        },
        "settings": dict(settings or {}),
    }


def plan_request(*roles: Json, **fields: Any) -> Json:
    """A plan request; two roles make it prefill/decode."""
    return {
        "operation": "plan_serve",
        "protocol_version": "6",
        "input": {
            "model": {"id": "llama", "served_name": "llama-8b"},
            "topology": "single" if len(roles) == 1 else "prefill_decode",
            "roles": list(roles),
            **fields,
        },
    }


@dataclass
class Placement:
    """Where a control plane puts things.

    ``ranks`` says over how many processes, each on a machine of its own, a role's replicas are
    spread; ``hosts`` the address of machine n; ``together`` puts every process on one machine.
    """

    ranks: Mapping[str, int] = field(default_factory=dict)
    hosts: Callable[[int], str] = lambda index: f"10.0.0.{index + 1}"
    together: bool = False
    launch: Json = field(default_factory=lambda: {"kind": "local"})
    model_locator: str = "/models/llama"
    first_port: int = 8000


def allocate(plan: Json, placement: Placement | None = None) -> list[Json]:
    """Allocations for a plan, as a control plane makes them: ports in the order of the names."""
    placement = placement or Placement()
    next_port: dict[int, int] = {}
    next_device: dict[int, int] = {}
    machine = -1
    allocations: list[Json] = []

    def port(at: int) -> Json:
        number = next_port.get(at, placement.first_port)
        next_port[at] = number + 1
        return {"host": placement.hosts(at), "port": number}

    for replica in plan["replicas"]:
        ranks = placement.ranks.get(replica["role_id"], 1) if replica["device_count"] else 1
        primary = _process_id(replica["id"], 0, ranks)
        for rank in range(ranks):
            machine = 0 if placement.together else machine + 1
            names = [*replica["ports"]]
            if rank == 0 and ranks > 1:
                names += replica["primary_ports"]
            count = replica["device_count"] // ranks
            first = next_device.get(machine, 0)
            next_device[machine] = first + count
            serving = replica["device_count"] > 0
            allocation = {
                "process": _process_id(replica["id"], rank, ranks),
                "role": replica["role_id"],
                "replica": replica["replica_index"],
                "rank": rank,
                "rank_count": ranks,
                "machine": f"machine-{machine}",
                "devices": list(range(first, first + count)),
                **({"model_locator": placement.model_locator} if serving else {}),
                "endpoint": port(machine),
                "ports": {name: port(machine) for name in names},
                "cache": f"/cache/{replica['id']}",
                "launch": dict(placement.launch),
                "dependencies": [primary] if rank else [],
            }
            allocations.append(allocation)
    if allocations[-1]["role"] == "router":
        allocations[-1]["dependencies"] = [a["process"] for a in allocations[:-1]]
    return allocations


def _process_id(replica: str, rank: int, ranks: int) -> str:
    return replica if ranks == 1 else f"{replica}-rank-{rank:03d}"


def render_request(request: Json, plan: Json, allocations: list[Json]) -> Json:
    """The render request that follows from a plan request, its plan and allocations."""
    kept = ("model", "topology", "routing_backend", "kv_transfer", "profiling")
    return {
        "operation": "render_serve",
        "protocol_version": "6",
        "input": {
            **{name: request["input"][name] for name in kept if name in request["input"]},
            "roles": plan["roles"],
            "routing": plan["routing"],
            "links": plan["links"],
            "allocations": allocations,
        },
    }


def check_plan(request: Json, plan: Json, framework: str) -> None:
    """Everything a real control plane checks of a plan."""
    wanted, roles = request["input"], {role["id"]: role for role in plan["roles"]}
    native = wanted.get("routing_backend") not in (None, "builtin")
    assert plan["integration"]["framework"] == framework
    assert len(roles) == len(plan["roles"]), "a role id stands twice"
    for asked in wanted["roles"]:
        got = roles[asked["id"]]
        assert got["kind"] == asked["kind"]
        assert got["declared_replica_count"] == asked["replica_count"]
        assert got["effective_replica_count"] == asked["replica_count"]
        for group, names in SIZES.items():
            for name in names:
                size = got["effective_parallelism"][group][name]
                declared = asked["parallelism"].get(group, {}).get(name, size)
                assert size == declared > 0, f"{group}.{name}"
        for path in _paths(asked["settings"]):
            assert path in set(_paths(got["effective_settings"])), f"setting {path} is lost"
    extra = [role for role in plan["roles"] if role["id"] not in {r["id"] for r in wanted["roles"]}]
    assert [role["kind"] for role in extra] == (["router"] if native else [])
    for router in extra:
        assert router["effective_parallelism"] == {}
    _check_replicas(wanted, plan, roles)
    _check_routing(wanted, plan, native)
    _check_links(wanted, plan, framework)
    endpoint = plan["endpoint"]
    assert endpoint["completions_path"] == "/v1/completions"
    assert endpoint["chat_completions_path"] == "/v1/chat/completions"


def _check_replicas(wanted: Json, plan: Json, roles: Json) -> None:
    places = [(replica["role_id"], replica["replica_index"]) for replica in plan["replicas"]]
    expected = [
        (role["id"], index)
        for role in plan["roles"]
        for index in range(role["effective_replica_count"])
    ]
    assert sorted(places) == sorted(expected)
    ids = [replica["id"] for replica in plan["replicas"]]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    for replica in plan["replicas"]:
        serving = roles[replica["role_id"]]["kind"] != "router"
        assert (replica["device_count"] > 0) == serving
        names = [*replica["ports"], *replica["primary_ports"]]
        assert len(set(names)) == len(names)
        if wanted.get("profiling") and serving:
            assert replica["capture_target"]["control"]["start_path"].startswith("/")


def _check_routing(wanted: Json, plan: Json, native: bool) -> None:
    routing = plan["routing"]
    if wanted["topology"] == "single":
        assert routing["owner"] == "direct"
    elif native:
        assert routing["owner"] == "integration_native"
        kinds = {role["id"]: role["kind"] for role in plan["roles"]}
        assert kinds[routing["role"]] == "router"
    else:
        assert routing["owner"] == "inferlab_builtin"


def _check_links(wanted: Json, plan: Json, framework: str) -> None:
    if wanted["topology"] == "single":
        assert plan["links"] == []
        return
    ids = {role["kind"]: role["id"] for role in wanted["roles"]}
    links = {link["kind"]: link for link in plan["links"]}
    assert links["request_routing"]["source"] == "router"
    assert {ids["prefill"], ids["decode"]} <= set(links["request_routing"]["targets"])
    transfer = links["kv_transfer"]
    assert (transfer["source"], transfer["target"]) == (ids["prefill"], ids["decode"])
    assert transfer["mechanism"] == wanted["kv_transfer"]

    def everywhere(role_id: str, port: str) -> bool:
        return all(
            port in replica["ports"]
            for replica in plan["replicas"]
            if replica["role_id"] == role_id
        )

    meeting = {"kv_transfer", "request_routing"}
    if framework == "sglang" or transfer["mechanism"] == "mooncake":
        meeting.add("bootstrap")
    elif framework not in IN_BAND:
        meeting.add("side_channel")
    assert links.keys() == meeting
    if "bootstrap" in links:
        link = links["bootstrap"]
        assert (link["source"], link["target"]) == ("router", ids["prefill"])
        assert everywhere(ids["prefill"], link["port"])
    if "side_channel" in links:
        link = links["side_channel"]
        assert (link["source"], link["target"]) == (ids["prefill"], ids["decode"])
        assert everywhere(ids["prefill"], link["port"])
        assert everywhere(ids["decode"], link["port"])


def check_render(plan: Json, allocations: list[Json], rendered: Json) -> None:
    """Everything a real control plane checks of a render."""
    assert rendered["integration"] == plan["integration"]
    processes = rendered["processes"]
    assert [process["process"] for process in processes] == [a["process"] for a in allocations]
    for process, allocation in zip(processes, allocations, strict=True):
        for name in ("role", "replica", "rank", "rank_count"):
            assert process[name] == allocation[name]
        argv, env = process["command"]["argv"], process["command"]["env"]
        assert argv
        assert "CUDA_VISIBLE_DEVICES" not in env
        for file in process["launch_files"]:
            assert re.fullmatch(rf"launch-files/{file['sha256']}/[^/]+", file["relative_path"])
            resolved = f"{allocation['cache']}/{file['relative_path']}"
            assert resolved in argv or resolved in env.values()


def _paths(value: Any, path: str = "") -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}.{key}"
            yield from _paths(item, f"{path}.{key}")


def serve(
    adapter: Adapter,
    request: Json,
    placement: Placement | None = None,
    framework_version: str = "0.32.0",
) -> tuple[Json, list[Json], Json]:
    """Plan, check, allocate, render and check: (plan, allocations, rendered)."""
    plan = output(ask(adapter, request, framework_version))
    check_plan(request, plan, adapter.framework)
    allocations = allocate(plan, placement)
    answer = ask(adapter, render_request(request, plan, allocations), framework_version)
    rendered = output(answer)
    check_render(plan, allocations, rendered)
    return plan, allocations, rendered


def argv_of(rendered: Json, process: str) -> list[str]:
    """The argv of one rendered process, without the program that serves OpenEngine for it."""
    found = next(item for item in rendered["processes"] if item["process"] == process)
    return list(unwrapped(found["command"]["argv"]))


def env_of(rendered: Json, process: str) -> dict[str, str]:
    """The environment of one rendered process."""
    found = next(item for item in rendered["processes"] if item["process"] == process)
    env: dict[str, str] = found["command"]["env"]
    return env
