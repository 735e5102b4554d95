"""An adapter put together from an integration's modules.

``plan.py`` of an integration is a :class:`Planning`, ``render.py`` a :class:`Rendering`: each
hook of :class:`Adapter` is a function of that name there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from inferlab_adapters.adapter import Adapter, Command
from inferlab_adapters.deployment import (
    Mechanism,
    NativeRouter,
    Plan,
    PortPlan,
    RoleRequest,
    Scope,
)
from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout
from inferlab_adapters.settings import OwnSetting, Reserved, Settings

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Deployment, Rank, Replica
    from inferlab_adapters.origins import Explanation
    from inferlab_adapters.protocol import KvTransferMechanism
    from inferlab_adapters.protocol.answers import HttpActionSpec

Note = Callable[[str], None]


class Planning(Protocol):
    """What an integration's ``plan.py`` says; see the hooks of :class:`Adapter`."""

    def option_table(self, framework_version: str, /) -> OptionTable: ...
    def layout(self, declared: DeclaredLayout, table: OptionTable, faults: Faults, /) -> Layout: ...
    def absent_settings(self, scope: Scope, role: RoleRequest, /) -> Mapping[str, str]: ...
    def complete(
        self,
        scope: Scope,
        role: RoleRequest,
        layout: Layout,
        settings: Settings,
        faults: Faults,
        /,
    ) -> Settings: ...
    def ports(self, scope: Scope, role: RoleRequest, layout: Layout, /) -> PortPlan: ...
    def check_plan(self, plan: Plan, faults: Faults, note: Note, /) -> None: ...
    def prefix_cache_reset(self, plan: Plan, /) -> HttpActionSpec | None: ...
    def render_inputs(self, plan: Plan, /) -> list[str]: ...


class Rendering(Protocol):
    """What an integration's ``render.py`` says; see the hooks of :class:`Adapter`."""

    def check_deployment(self, deployment: Deployment, faults: Faults, /) -> None: ...
    def render_rank(self, deployment: Deployment, replica: Replica, rank: Rank, /) -> Command: ...
    def render_router(self, deployment: Deployment, rank: Rank, /) -> Command: ...


class Identity(NamedTuple):
    """What the adapter is called, and the engine it is for; see :class:`Adapter`."""

    name: str
    version: str
    framework: str
    distribution: str


class Declarations(NamedTuple):
    """What an integration's modules declare; see the fields of the same names there."""

    catalogues: Path
    mechanisms: Mapping[KvTransferMechanism, Mechanism]
    routers: Mapping[str, NativeRouter]
    own_settings: Sequence[OwnSetting]
    reserved_env: Reserved


class FrameworkAdapter(Adapter):
    """An adapter whose hooks are the functions of two modules."""

    def __init__(
        self,
        identity: Identity,
        declarations: Declarations,
        *,
        planning: Planning,
        rendering: Rendering,
        readiness_path: str = "/v1/models",
        nothing: str = "",
        explaining: str = "",
        real_parser: str = "",
        engine_backend: str = "",
    ) -> None:
        """The last three name modules that are loaded when asked: an :class:`Explanation`, what an
        engine's own Python runs (see ``engine_side``), and the backend of OpenEngine."""
        self.name, self.version, self.framework, self.distribution = identity
        self.catalogues = declarations.catalogues
        self.mechanisms = declarations.mechanisms
        self.routers = declarations.routers
        self.own_settings = declarations.own_settings
        self.reserved_env = declarations.reserved_env
        self.readiness_path = readiness_path
        self.nothing = nothing
        self._planning = planning
        self._rendering = rendering
        self._explaining = explaining
        self.real_parser = real_parser
        self.engine_backend = engine_backend

    def option_table(self, framework_version: str) -> OptionTable:
        return self._planning.option_table(framework_version)

    def layout(self, declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
        return self._planning.layout(declared, table, faults)

    def absent_settings(self, scope: Scope, role: RoleRequest) -> Mapping[str, str]:
        return self._planning.absent_settings(scope, role)

    def complete(
        self, scope: Scope, role: RoleRequest, layout: Layout, checked: Settings, faults: Faults
    ) -> Settings:
        return self._planning.complete(scope, role, layout, checked, faults)

    def ports(self, scope: Scope, role: RoleRequest, layout: Layout) -> PortPlan:
        return self._planning.ports(scope, role, layout)

    def check_plan(self, planned: Plan, faults: Faults, note: Note) -> None:
        self._planning.check_plan(planned, faults, note)

    def prefix_cache_reset(self, planned: Plan) -> HttpActionSpec | None:
        return self._planning.prefix_cache_reset(planned)

    def render_inputs(self, planned: Plan) -> list[str]:
        return self._planning.render_inputs(planned)

    def check_deployment(self, deployment: Deployment, faults: Faults) -> None:
        self._rendering.check_deployment(deployment, faults)

    def render_rank(self, deployment: Deployment, replica: Replica, rank: Rank) -> Command:
        return self._rendering.render_rank(deployment, replica, rank)

    def render_router(self, deployment: Deployment, rank: Rank) -> Command:
        return self._rendering.render_router(deployment, rank)

    def explanation(self) -> Explanation:
        if not self._explaining:
            return super().explanation()
        return cast("Explanation", import_module(self._explaining))
