"""sglang-router, as run at 0.3.2: ``python3 -m sglang_router.launch_router``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferlab_adapters import pd_router
from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import url_host
from inferlab_adapters.deployment import NativeRouter
from inferlab_adapters.kv_transfer import BOOTSTRAP

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Deployment, Rank

NAME = "sglang-router"

# The router answers /readiness once one server of each role is healthy; that all of them are, its
# list of workers tells.
ROUTERS = {
    NAME: NativeRouter(
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
        settings=pd_router.SETTINGS,
        ports=(pd_router.PROMETHEUS,),
    )
}


def render(deployment: Deployment, rank: Rank) -> Command:
    """The router's command."""
    program = ["python3", "-m", "sglang_router.launch_router", "--pd-disaggregation"]
    program += ["--host", url_host(rank.endpoint.host)]
    return pd_router.command(program, deployment, rank, bootstrap=True)
