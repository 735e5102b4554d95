"""The command line that sglang-router and vllm-router, its descendant, have in common.

Both were run (sglang-router 0.3.2, vllm-router 0.1.17): they serve only once all their servers are
healthy, end when that takes too long, look for them only every 30 s by themselves, open a metrics
port at 29000 whatever happens, and obey proxy variables even towards their own machine, where
``NO_PROXY=*`` does not help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import http_url, is_ip
from inferlab_adapters.deployment import POLICY
from inferlab_adapters.errors import Faults, pointer, shown
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

PROXIES = ("ALL_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy")


def check_addresses(deployment: Deployment, faults: Faults, *, bind_names: bool) -> None:
    """Refuse a name as the host of the metrics, which opens them on every interface.

    ``bind_names`` says whether the router binds its endpoint to a name, or ends on one.
    """
    for replica in deployment.replicas.values():
        if replica.role is not None:
            continue
        primary = replica.primary
        hosts: dict[tuple[str, ...], str] = {}
        hosts["ports", PROMETHEUS, "host"] = primary.port(PROMETHEUS).host
        if not bind_names:
            hosts["endpoint", "host"] = primary.endpoint.host
        for part, host in hosts.items():
            if not is_ip(host):
                what = f"{shown(host)} is a name, and the router binds this to addresses only"
                faults.add(pointer(primary.pointer, *part), what, "give the IP address")


def command(program: list[str], deployment: Deployment, rank: Rank, *, bootstrap: bool) -> Command:
    """The router's command: every prefill, with its bootstrap port if asked, and every decode.

    ``program`` ends with the host, which the two spell differently.
    """
    plan = deployment.plan
    argv = [*program, "--port", str(rank.endpoint.port)]
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
    return Command(argv=argv, env=dict.fromkeys(PROXIES, ""))
