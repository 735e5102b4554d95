"""vllm-router: the Rust router of vllm-project/router (PyPI ``vllm-router``), as run at 0.1.17.

Another program of that name, in vllm-project/production-stack, has other options; it is not
this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferlab_adapters import pd_router
from inferlab_adapters.adapter import Command
from inferlab_adapters.deployment import NativeRouter

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Deployment, Rank

NAME = "vllm-router"

ROUTERS = {
    NAME: NativeRouter(
        readiness={"kind": "http", "path": "/readiness"},
        settings=pd_router.SETTINGS,
        ports=(pd_router.PROMETHEUS,),
    )
}


def render(deployment: Deployment, rank: Rank) -> Command:
    """The router's command; only with Mooncake does it ask prefill's bootstrap port."""
    mechanism = str(deployment.plan.scope.mechanism)
    program = [NAME, "--vllm-pd-disaggregation", "--kv-connector", mechanism]
    program += ["--host", rank.endpoint.host]
    return pd_router.command(program, deployment, rank, bootstrap=mechanism == "mooncake")
