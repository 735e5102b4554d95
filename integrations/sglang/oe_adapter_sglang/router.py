"""sglang-router, as run at 0.3.2: ``python3 -m sglang_router.launch_router``."""

from __future__ import annotations

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import http_url
from inferlab_adapters.allocation import Deployment, Rank
from inferlab_adapters.deployment import POLICY, NativeRouter
from inferlab_adapters.kv_transfer import BOOTSTRAP

NAME = "sglang-router"
PROMETHEUS = "prometheus"

# The router answers /readiness once one server of each role is healthy; that all of them are, its
# list of workers tells.
ROUTER = NativeRouter(
    readiness={
        "kind": "http_target_registry",
        "target_scheme": "http",
        "readiness_path": "/readiness",
        "registry_path": "/workers",
        "targets_field": "workers",
        "target_url_field": "url",
        "target_role_field": "worker_type",
        "target_healthy_field": "is_healthy",
        "target_bootstrap_port_field": "bootstrap_port",
        "prefill_role_value": "prefill",
        "decode_role_value": "decode",
        "prefill_bootstrap_port": BOOTSTRAP,
    },
    settings={
        "policy": POLICY,
        "worker_startup_timeout_secs": 1800,
        "worker_startup_check_interval": 5,
    },
    ports=(PROMETHEUS,),
)
ROUTERS = {NAME: ROUTER}


def render(deployment: Deployment, rank: Rank) -> Command:
    """The router's command: every prefill with its bootstrap port, every decode, in order."""
    plan = deployment.plan
    metrics = rank.port(PROMETHEUS)
    argv = ["python3", "-m", "sglang_router.launch_router", "--pd-disaggregation"]
    argv += ["--host", rank.endpoint.host, "--port", str(rank.endpoint.port)]
    argv += ["--policy", POLICY]
    for replica in deployment.of_role(plan.role("prefill").id):
        primary = replica.primary
        argv += ["--prefill", http_url(primary.endpoint), str(primary.port(BOOTSTRAP).port)]
    for replica in deployment.of_role(plan.role("decode").id):
        argv += ["--decode", http_url(replica.primary.endpoint)]
    for name in ("worker_startup_timeout_secs", "worker_startup_check_interval"):
        argv += [f"--{name.replace('_', '-')}", str(ROUTER.settings[name])]
    argv += ["--prometheus-host", metrics.host, "--prometheus-port", str(metrics.port)]
    return Command(argv=argv, env={"NO_PROXY": "*", "no_proxy": "*"})
