"""KV transfer between prefill and decode: decode finds prefill at its side channel."""

from __future__ import annotations

from inferlab_adapters.allocation import Rank
from inferlab_adapters.deployment import Mechanism, Plan, RolePlan
from inferlab_adapters.kv_transfer import SIDE_CHANNEL
from inferlab_adapters.kv_transfer import environment as library_environment
from inferlab_adapters.protocol import KvTransferMechanism

MECHANISMS: dict[KvTransferMechanism, Mechanism] = {
    # The control plane's own router speaks to toy as it does to vLLM.
    "nixl": Mechanism(builtin="vllm_nixl", link=SIDE_CHANNEL, port=SIDE_CHANNEL),
}


def environment(plan: Plan, role: RolePlan, rank: Rank) -> dict[str, str]:
    """Where a rank listens for its peer, and what carries the KV cache."""
    if plan.mechanism is None:
        return {}
    address = rank.port(SIDE_CHANNEL)
    return {
        "TOY_SIDE_CHANNEL_HOST": address.host,
        "TOY_SIDE_CHANNEL_PORT": str(address.port),
        **library_environment(plan.scope.mechanism, role.settings),
    }
