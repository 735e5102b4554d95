"""The settings of this adapter that are not options of toy."""

from __future__ import annotations

from collections.abc import Mapping

from inferlab_adapters.deployment import RoleRequest, Scope
from inferlab_adapters.kv_transfer import protocol_setting
from inferlab_adapters.settings import EXTRA_ARGS, EXTRA_ENV

KV_TRANSFER_PROTOCOL = protocol_setting("What carries the KV cache.", "tcp", "rdma")
OWN_SETTINGS = (EXTRA_ARGS, EXTRA_ENV, KV_TRANSFER_PROTOCOL)


def absent_settings(scope: Scope, role: RoleRequest) -> Mapping[str, str]:
    """Settings that do not apply to a role, with the reason."""
    if scope.mechanism is None:
        return {KV_TRANSFER_PROTOCOL.name: "topology single transfers no KV cache"}
    return {}
