"""KV transfer between prefill and decode: vLLM's connector config, ports and environment.

Sources (vLLM 0.32.0): vllm/config/kv_transfer.py for the config, and
vllm/distributed/kv_transfer/kv_connector/v1/{nixl,mooncake}/ for ports and extra config.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inferlab_adapters.allocation import Rank, Replica
from inferlab_adapters.deployment import (
    Mechanism,
    Plan,
    PortPlan,
    RolePlan,
    Scope,
    span_names,
)
from inferlab_adapters.errors import Faults, one_of, pointer
from inferlab_adapters.kv_transfer import (
    BOOTSTRAP,
    PROTOCOL,
    SIDE_CHANNEL,
    check_protocol,
    check_same_protocol,
)
from inferlab_adapters.kv_transfer import environment as library_environment
from inferlab_adapters.parallelism import Layout
from inferlab_adapters.protocol import KvTransferMechanism, ServeRoleKind
from inferlab_adapters.settings import Settings

MECHANISMS: dict[KvTransferMechanism, Mechanism] = {
    "nixl": Mechanism(builtin="vllm_nixl", link=SIDE_CHANNEL, port=SIDE_CHANNEL),
    "mooncake": Mechanism(builtin="vllm_mooncake", link=BOOTSTRAP, port=BOOTSTRAP),
}

_CONNECTORS = {"nixl": "NixlConnector", "mooncake": "MooncakeConnector"}
_ROLES: dict[ServeRoleKind, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}

_OWNED_EXTRA_CONFIG = {
    "backends": PROTOCOL,
    "mooncake_protocol": PROTOCOL,
    "num_workers": "mooncake_num_workers",
    "bootstrap_server_address": "the port bootstrap of the allocation",
}


def ports(mechanism: KvTransferMechanism | None, kind: ServeRoleKind, layout: Layout) -> PortPlan:
    """The ports that meeting the peer takes.

    NIXL: every data parallel rank listens on the first port plus its own index
    (base_scheduler.py), on both sides. Mooncake: one bootstrap server at the prefill side.
    """
    if mechanism == "nixl":
        count = layout.attention_data
        return PortPlan(ports=span_names(SIDE_CHANNEL, count), spans={SIDE_CHANNEL: count})
    return PortPlan(ports=(BOOTSTRAP,) if mechanism == "mooncake" and kind == "prefill" else ())


def check_role(
    scope: Scope, kind: ServeRoleKind, layout: Layout, settings: Settings, faults: Faults
) -> None:
    """Refuse transfer settings and shapes that the connector cannot serve."""
    mechanism = scope.mechanism
    if mechanism is None:
        return
    check_protocol(mechanism, settings, faults)
    for key in settings.own.get("kv_connector_extra_config", {}):
        owner = _OWNED_EXTRA_CONFIG.get(key)
        if owner:
            where = pointer(settings.at("kv_connector_extra_config"), key)
            faults.add(where, f"is decided by {owner}", "remove it")
    if mechanism == "nixl":
        _check_nixl_shape(kind, layout, settings, faults)


def _check_nixl_shape(
    kind: ServeRoleKind, layout: Layout, settings: Settings, faults: Faults
) -> None:
    decode_context = settings.options.get("decode_context_parallel_size", 1)
    base = settings.pointer.rpartition("/")[0]
    sizes = (("pipeline", layout.pipeline), ("prefill context", layout.attention_context))
    for name, size in sizes:
        if kind == "decode" and size > 1:
            what = f"{name} parallel is {size} in the decode role, where NIXL takes only 1"
            faults.add(base, what, "set it to 1 for decode")
    where = settings.at("decode_context_parallel_size")
    whole = max(layout.tensor, layout.attention_context)
    if decode_context not in (1, whole):
        faults.add(where, f"must be {one_of((1, whole))} with NIXL, got {decode_context}")
    elif decode_context > 1 and layout.attention_context > 1 and layout.tensor > 1:
        what = "NIXL takes it beside prefill context parallel only where tensor parallel is 1"
        faults.add(where, what)


def check_pair(
    mechanism: KvTransferMechanism,
    prefill: RolePlan,
    decode: RolePlan,
    faults: Faults,
    note: Callable[[str], None],
) -> None:
    """Refuse a pair whose sides would not understand each other, and say what is uncertain."""
    check_same_protocol(prefill, decode, faults)
    if mechanism == "nixl" and prefill.layout.pipeline > 1:
        # Read, not run (nixl/pull_worker.py): the reading side has no routing for stages.
        note(
            f"{prefill.request.pointer}: vLLM's NIXL connector was not seen to read from a prefill "
            f"replica of {prefill.layout.pipeline} pipeline stages; try it before you rely on it"
        )


def transfer_config(plan: Plan, role: RolePlan) -> dict[str, Any]:
    """The value of ``--kv-transfer-config``: closed, with a definite role on either side."""
    mechanism = plan.scope.mechanism
    assert mechanism is not None
    own = role.settings.own
    config: dict[str, Any] = {
        "kv_connector": _CONNECTORS[mechanism],
        "kv_role": _ROLES[role.kind],
        "kv_load_failure_policy": own["kv_load_failure_policy"],
    }
    if "kv_buffer_device" in own:
        config["kv_buffer_device"] = own["kv_buffer_device"]
    extra = dict(own.get("kv_connector_extra_config", {}))
    if mechanism == "mooncake":
        extra["mooncake_protocol"] = own[PROTOCOL]
        if "mooncake_num_workers" in own:
            extra["num_workers"] = own["mooncake_num_workers"]
    elif own.get(PROTOCOL) == "gds":
        extra["backends"] = ["UCX", "GDS"]
    if extra:
        config["kv_connector_extra_config"] = extra
    return config


def environment(plan: Plan, role: RolePlan, replica: Replica, rank: Rank) -> dict[str, str]:
    """The variables through which the transfer library learns its ports and its wire.

    A Mooncake replica has one bootstrap server, at rank 0, so every rank is given rank 0's
    port; NIXL listens at every rank that holds a data parallel engine, at its own address.
    """
    env = library_environment(plan.scope.mechanism, role.settings)
    if plan.scope.mechanism == "nixl":
        address = rank.port(SIDE_CHANNEL)
        env["VLLM_NIXL_SIDE_CHANNEL_HOST"] = address.host
        env["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(address.port)
    elif role.kind == "prefill":
        env["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(replica.primary.port(BOOTSTRAP).port)
    return env
