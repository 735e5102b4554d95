"""vllm-router: the Rust router of vllm-project/router (PyPI ``vllm-router``), as run at 0.1.17.

Another program of that name, in vllm-project/production-stack, has other options; it is not
this one.
"""

from __future__ import annotations

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import http_url
from inferlab_adapters.allocation import Deployment, Rank
from inferlab_adapters.deployment import POLICY, NativeRouter
from inferlab_adapters.kv_transfer import BOOTSTRAP

NAME = "vllm-router"
PROMETHEUS = "prometheus"

ROUTER = NativeRouter(
    readiness={"kind": "http", "path": "/readiness"},
    # The router ends when its workers are not up in time, and looks for them only so often.
    settings={
        "policy": POLICY,
        "worker_startup_timeout_secs": 1800,
        "worker_startup_check_interval": 5,
    },
    ports=(PROMETHEUS,),
)


def render(deployment: Deployment, rank: Rank) -> Command:
    """The router's command: every prefill with its bootstrap port, every decode, in order."""
    plan = deployment.plan
    metrics = rank.port(PROMETHEUS)
    argv = [NAME, "--host", rank.endpoint.host, "--port", str(rank.endpoint.port)]
    argv += ["--policy", POLICY, "--vllm-pd-disaggregation"]
    argv += ["--kv-connector", str(plan.scope.mechanism)]
    for replica in deployment.of_role(plan.role("prefill").id):
        argv += ["--prefill", http_url(replica.primary.endpoint)]
        if plan.scope.mechanism == "mooncake":
            argv.append(str(replica.primary.port(BOOTSTRAP).port))
    for replica in deployment.of_role(plan.role("decode").id):
        argv += ["--decode", http_url(replica.primary.endpoint)]
    for name in ("worker_startup_timeout_secs", "worker_startup_check_interval"):
        argv += [f"--{name.replace('_', '-')}", str(ROUTER.settings[name])]
    argv += ["--prometheus-host", metrics.host, "--prometheus-port", str(metrics.port)]
    # It obeys proxy variables that it inherits, even towards workers on its own machine.
    return Command(argv=argv, env={"NO_PROXY": "*", "no_proxy": "*"})
