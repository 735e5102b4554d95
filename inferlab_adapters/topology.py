"""The two topologies: which roles they take, and the links, routing and endpoint they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from inferlab_adapters.deployment import (
    BUILTIN,
    MAX_REPLICAS,
    POLICY,
    ROUTER,
    Mechanism,
    NativeRouter,
    Plan,
    RoleRequest,
    Scope,
)
from inferlab_adapters.errors import Faults, did_you_mean, one_of, shown

if TYPE_CHECKING:
    from inferlab_adapters.protocol import (
        KvTransferMechanism,
    )
    from inferlab_adapters.protocol.answers import (
        RoutingResult,
        ServeRoleLink,
        ServeRoleResult,
    )


def check_names(scope: Scope, nothing: str, faults: Faults) -> None:
    """Refuse names that are empty or that a parser would take for something else.

    ``nothing`` is a word that the framework's parser reads as no value at all.
    """
    for name, value in (("id", scope.model.id), ("served_name", scope.model.served_name)):
        at = f"/input/model/{name}"
        if not value:
            faults.add(at, "must not be empty")
        elif "\0" in value:
            faults.add(at, "must not contain a NUL character")
    if nothing and scope.model.served_name == nothing:
        what = f"{shown(nothing)} would be read as no name"
        faults.add("/input/model/served_name", what, "choose another")
    if scope.model.served_name.startswith("-"):
        what = f"{shown(scope.model.served_name)} would be read as an option"
        faults.add("/input/model/served_name", what, "do not begin it with -")
    for role in scope.roles:
        if not role.id:
            faults.add(f"{role.pointer}/id", "must not be empty")
        if not 1 <= role.replica_count <= MAX_REPLICAS:
            legal = f"must be 1 to {MAX_REPLICAS}"
            faults.add(role.count_pointer, f"{legal}, got {role.replica_count}")
    if faults:
        return
    owners: dict[str, RoleRequest] = {}
    for role in scope.roles:
        for name in role.replica_ids():
            other = owners.setdefault(name, role)
            if other.id != role.id and (other.kind, role.kind) != ("serve", "serve"):
                what = f"its replica {shown(name)} would be called like one of {shown(other.id)}"
                faults.add(f"{role.pointer}/id", what, "rename one")
                break


def check_shape(
    scope: Scope,
    mechanisms: Mapping[KvTransferMechanism, Mechanism],
    routers: Mapping[str, NativeRouter],
    faults: Faults,
) -> None:
    """Refuse a topology with missing, extra or doubled roles, or with routing it cannot have."""
    wanted = ("serve",) if scope.topology == "single" else ("prefill", "decode")
    hint = f"{scope.topology} takes exactly one {' and one '.join(wanted)}"
    kinds = [role.kind for role in scope.roles]
    ids = [role.id for role in scope.roles]
    for kind in wanted:
        if kind not in kinds:
            faults.add("/input/roles", f"the {kind} role is missing", hint)
    for index, role in enumerate(scope.roles):
        named = f"role {shown(role.id)} of kind {role.kind}"
        if role.kind == ROUTER:
            faults.add(role.pointer, f"{named} cannot be asked for", "name a routing_backend")
        elif role.kind not in wanted or role.kind in kinds[:index]:
            faults.add(role.pointer, f"{named} is one too many", hint)
        if role.id in ids[:index]:
            faults.add(f"{role.pointer}/id", f"{shown(role.id)} is used twice", "rename one")
        if role.id == ROUTER and scope.topology == "prefill_decode":
            what = f"{shown(role.id)} is the name of the router's own role"
            faults.add(f"{role.pointer}/id", what, "rename the role")
    if scope.topology == "single":
        for name, value in (
            ("kv_transfer", scope.mechanism),
            ("routing_backend", scope.routing_backend),
        ):
            if value is not None:
                what = f"{shown(value)} has no use in topology single"
                faults.add(f"/input/{name}", what, "remove it")
        return
    if scope.mechanism is None:
        what = "is missing: prefill and decode need a way to hand over the KV cache"
        faults.add("/input/kv_transfer", what, f"use {one_of(mechanisms)}")
    elif scope.mechanism not in mechanisms:
        what = f"{shown(scope.mechanism)} is not supported"
        faults.add("/input/kv_transfer", what, f"use {one_of(mechanisms)}")
    backend = scope.native_router
    if backend is not None and backend not in routers:
        known = [BUILTIN, *routers]
        hint = did_you_mean(backend, known) or f"use {one_of(known)}"
        faults.add("/input/routing_backend", f"{shown(backend)} is not supported", hint)


def links(plan: Plan) -> list[ServeRoleLink]:
    """Who talks to whom, as the control plane checks it."""
    if plan.mechanism is None or plan.scope.mechanism is None:
        return []
    prefill, decode = plan.role("prefill").id, plan.role("decode").id
    found: list[ServeRoleLink] = [
        {"kind": "request_routing", "source": ROUTER, "targets": [prefill, decode]},
        {
            "kind": "kv_transfer",
            "source": prefill,
            "target": decode,
            "mechanism": plan.scope.mechanism,
        },
    ]
    port = plan.mechanism.port
    if plan.mechanism.link == "bootstrap" and port:
        found.append({"kind": "bootstrap", "source": ROUTER, "target": prefill, "port": port})
    elif plan.mechanism.link == "side_channel" and port:
        found.append({"kind": "side_channel", "source": prefill, "target": decode, "port": port})
    return found


def routing(plan: Plan) -> RoutingResult:
    """Who owns the public endpoint."""
    if plan.mechanism is None:
        return {"owner": "direct", "role": plan.role("serve").id, "replica": 0}
    if plan.router is not None:
        return {"owner": "integration_native", "role": ROUTER, "replica": 0, "policy": POLICY}
    return {
        "owner": "inferlab_builtin",
        "implementation": plan.mechanism.builtin,
        "policy": POLICY,
        "prefill_role": plan.role("prefill").id,
        "decode_role": plan.role("decode").id,
        "ports": [],
        "readiness": {"kind": "http", "path": "/healthcheck"},
    }


def roles(plan: Plan) -> list[ServeRoleResult]:
    """The serving roles, and the native router: one replica, no devices, no parallelism."""
    found = [role.to_wire() for role in plan.roles]
    if plan.router is not None:
        found.append(
            {
                "id": ROUTER,
                "kind": "router",
                "declared_replica_count": 1,
                "effective_replica_count": 1,
                "effective_settings": dict(plan.router.settings),
                "effective_parallelism": {},
            }
        )
    return found
