"""KV transfer between prefill and decode, as SGLang wires it.

Sources (0.5.23): sglang/srt/managers/disagg_service.py and srt/disaggregation/common/conn.py.
The bootstrap server is prefill's rank 0, at its HTTP host; every rank of a replica must be told
that one port.
"""

from __future__ import annotations

from inferlab_adapters.allocation import Replica
from inferlab_adapters.deployment import Mechanism, Plan, RolePlan
from inferlab_adapters.kv_transfer import BOOTSTRAP
from inferlab_adapters.protocol import KvTransferMechanism

MECHANISMS: dict[KvTransferMechanism, Mechanism] = {
    "mooncake": Mechanism(builtin="sglang", link=BOOTSTRAP, port=BOOTSTRAP),
    "nixl": Mechanism(builtin="sglang", link=BOOTSTRAP, port=BOOTSTRAP),
}


def arguments(plan: Plan, role: RolePlan, replica: Replica) -> list[str]:
    """The options that make a server one side of a pair."""
    mechanism = plan.scope.mechanism
    if mechanism is None:
        return []
    argv = plan.argument("disaggregation_mode", role.kind)
    argv += plan.argument("disaggregation_transfer_backend", mechanism)
    if role.kind == "prefill":
        port = replica.primary.port(BOOTSTRAP).port
        argv += plan.argument("disaggregation_bootstrap_port", port)
    return argv
