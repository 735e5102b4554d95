"""The vLLM adapter: plans and renders vLLM deployments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from inferlab_adapters.adapter import Adapter, Command
from inferlab_adapters.allocation import Deployment, Rank, Replica
from inferlab_adapters.deployment import (
    Plan,
    PortPlan,
    RoleRequest,
    Scope,
)
from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout
from inferlab_adapters.protocol.answers import HttpActionSpec
from inferlab_adapters.settings import Settings
from oe_adapter_vllm import kv_transfer, options, parallelism, plan, render, router, settings

__version__ = "0.1.0"


class VllmAdapter(Adapter):
    """What vLLM adds to the common steps of planning and rendering."""

    name: ClassVar[str] = "oe-adapter-vllm"
    version: ClassVar[str] = __version__
    framework: ClassVar[str] = "vllm"
    distribution: ClassVar[str] = "vllm"
    catalogues = options.CATALOGUES
    nothing: ClassVar[str] = "None"
    mechanisms = kv_transfer.MECHANISMS
    routers: ClassVar = {router.NAME: router.ROUTER}
    own_settings = settings.OWN_SETTINGS
    reserved_env = options.RESERVED_ENV

    def option_table(self, framework_version: str) -> OptionTable:
        return options.option_table(framework_version)

    def layout(self, declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
        return parallelism.layout(declared, table, faults)

    def absent_settings(self, scope: Scope, role: RoleRequest) -> Mapping[str, str]:
        return settings.absent_settings(scope, role)

    def complete(
        self, scope: Scope, role: RoleRequest, layout: Layout, checked: Settings, faults: Faults
    ) -> Settings:
        return plan.complete(scope, role, layout, checked, faults)

    def ports(self, scope: Scope, role: RoleRequest, layout: Layout) -> PortPlan:
        return plan.ports(scope, role, layout)

    def check_plan(self, planned: Plan, faults: Faults, note: Callable[[str], None]) -> None:
        plan.check_plan(planned, faults, note)

    def prefix_cache_reset(self, planned: Plan) -> HttpActionSpec | None:
        return plan.prefix_cache_reset(planned)

    def check_deployment(self, deployment: Deployment, faults: Faults) -> None:
        render.check_deployment(deployment, faults)

    def render_rank(self, deployment: Deployment, replica: Replica, rank: Rank) -> Command:
        return render.render(deployment, replica, rank)

    def render_router(self, deployment: Deployment, rank: Rank) -> Command:
        return router.render(deployment, rank)


ADAPTER = VllmAdapter()
