"""The settings of this adapter that are not options of vLLM."""

from __future__ import annotations

from collections.abc import Mapping

from inferlab_adapters.deployment import RoleRequest, Scope
from inferlab_adapters.kv_transfer import protocol_setting
from inferlab_adapters.openengine.launch import SETTING as OPENENGINE
from inferlab_adapters.settings import EXTRA_ARGS, EXTRA_ENV, OwnSetting

DEV_ENDPOINTS = OwnSetting(
    name="dev_endpoints",
    kind="boolean",
    meaning=(
        "Opens vLLM's development endpoints (VLLM_SERVER_DEV_MODE), among them the one that "
        "resets the prefix cache; they also let anyone who reaches the port administer it."
    ),
    default=False,
)
KV_TRANSFER_PROTOCOL = protocol_setting(
    "What carries the KV cache: tcp, rdma, or (NIXL) gds; left out, NIXL's UCX picks by itself "
    "and Mooncake uses rdma. Both roles must agree.",
    "tcp",
    "rdma",
    "gds",
)
KV_LOAD_FAILURE_POLICY = OwnSetting(
    name="kv_load_failure_policy",
    kind="string",
    meaning="What decode does when the KV cache does not arrive: fail the request, or recompute.",
    default="fail",
    choices=("fail", "recompute"),
)
KV_BUFFER_DEVICE = OwnSetting(
    name="kv_buffer_device",
    kind="string",
    meaning="Where NIXL stages the KV cache; left out, the memory of the serving device.",
    choices=("cuda", "cpu", "xpu"),
)
KV_CONNECTOR_EXTRA_CONFIG = OwnSetting(
    name="kv_connector_extra_config",
    kind="object",
    meaning="Further entries of the connector's kv_connector_extra_config.",
)
MOONCAKE_NUM_WORKERS = OwnSetting(
    name="mooncake_num_workers",
    kind="integer",
    meaning="Threads with which a Mooncake prefill server sends; left out, vLLM's own 10.",
    minimum=1,
)

OWN_SETTINGS = (
    EXTRA_ARGS,
    EXTRA_ENV,
    DEV_ENDPOINTS,
    OPENENGINE,
    KV_TRANSFER_PROTOCOL,
    KV_LOAD_FAILURE_POLICY,
    KV_BUFFER_DEVICE,
    KV_CONNECTOR_EXTRA_CONFIG,
    MOONCAKE_NUM_WORKERS,
)


def absent_settings(scope: Scope, role: RoleRequest) -> Mapping[str, str]:
    """Settings that do not apply to a role, with the reason."""
    if scope.topology == "single":
        reason = "topology single transfers no KV cache"
        return {setting.name: reason for setting in OWN_SETTINGS if _is_transfer(setting)}
    if scope.mechanism == "nixl":
        return {MOONCAKE_NUM_WORKERS.name: "kv_transfer is nixl"}
    absent = {KV_BUFFER_DEVICE.name: "Mooncake has no buffer device"}
    if role.kind == "decode":
        absent[MOONCAKE_NUM_WORKERS.name] = "only prefill sends"
    return absent


def _is_transfer(setting: OwnSetting) -> bool:
    return setting.name.startswith(("kv_", "mooncake_"))
