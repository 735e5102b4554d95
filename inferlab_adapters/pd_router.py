"""The command line that sglang-router and vllm-router, its descendant, have in common.

Both were run (sglang-router 0.3.2, vllm-router 0.1.17): they serve only once all their servers are
healthy, end when that takes too long, look for them only every 30 s by themselves, open a metrics
port at 29000 whatever happens, and obey proxy variables even towards their own machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import http_url
from inferlab_adapters.deployment import POLICY
from inferlab_adapters.kv_transfer import BOOTSTRAP
from inferlab_adapters.values import SettingMap

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Deployment, Rank

PROMETHEUS: Final = "prometheus"
"""The planned port of the router's metrics."""

SETTINGS: SettingMap = {
    "policy": POLICY,
    "worker_startup_timeout_secs": 1800,
    "worker_startup_check_interval": 5,
}
"""The effective settings of the router's role, which are also its options."""


def command(program: list[str], deployment: Deployment, rank: Rank, *, bootstrap: bool) -> Command:
    """The router's command: every prefill, with its bootstrap port if asked, and every decode."""
    plan = deployment.plan
    argv = [*program, "--host", rank.endpoint.host, "--port", str(rank.endpoint.port)]
    for replica in deployment.of_role(plan.role("prefill").id):
        argv += ["--prefill", http_url(replica.primary.endpoint)]
        if bootstrap:
            argv.append(str(replica.primary.port(BOOTSTRAP).port))
    for replica in deployment.of_role(plan.role("decode").id):
        argv += ["--decode", http_url(replica.primary.endpoint)]
    for name, value in SETTINGS.items():
        argv += [f"--{name.replace('_', '-')}", str(value)]
    metrics = rank.port(PROMETHEUS)
    argv += ["--prometheus-host", metrics.host, "--prometheus-port", str(metrics.port)]
    return Command(argv=argv, env={"NO_PROXY": "*", "no_proxy": "*"})
