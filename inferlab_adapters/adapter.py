"""What an adapter is: one framework's knowledge behind the two operations of the protocol.

A framework subclasses :class:`Adapter` and says how it spells things; the order of the
steps, the checks that hold for every framework and the shape of the answers are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from inferlab_adapters.catalogue import UNAVAILABLE, recorded
from inferlab_adapters.deployment import (
    ASKED,
    ROUTER,
    Mechanism,
    NativeRouter,
    Plan,
    PortPlan,
    RolePlan,
    RoleRequest,
    Scope,
)
from inferlab_adapters.errors import AdapterError, Faults
from inferlab_adapters.installed import installed_version
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import MAX_DEVICES, DeclaredLayout, Layout
from inferlab_adapters.settings import OwnSetting, Reserved, Settings, SettingsReader
from inferlab_adapters.topology import check_names, check_shape, links, roles, routing

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Deployment, Rank, Replica
    from inferlab_adapters.launch_files import LaunchFile
    from inferlab_adapters.origins import Explanation, ProcessTrace
    from inferlab_adapters.protocol import KvTransferMechanism, PlanServeInput, RenderServeInput
    from inferlab_adapters.protocol.answers import (
        EndpointRequirement,
        HttpActionSpec,
        IntegrationIdentity,
        PlanServeResult,
        ReadinessProbe,
        RenderedServeProcess,
        RenderServeResult,
        ServeReplicaRequirement,
    )


class Command(NamedTuple):
    """A process to start: tokens and environment; no shell reads either."""

    argv: Sequence[str]
    env: Mapping[str, str]
    files: Sequence[LaunchFile] = ()


class Context(NamedTuple):
    """What surrounds one request: the framework version seen, and who is told what.

    ``note`` takes warnings. ``refused`` is told every fault of a refusal, of which the response
    names the first few. ``trace`` is told, process by process, why each token of a command is
    there; without it nothing is traced.
    """

    framework_version: str
    note: Callable[[str], None] = lambda text: None
    refused: Callable[[AdapterError], None] | None = None
    trace: Callable[[ProcessTrace], None] | None = None


class Adapter(ABC):
    """One framework's adapter. Subclasses fill in the class attributes and the hooks."""

    name: str
    """Distribution, console script and adapter id: ``oe-adapter-vllm``."""
    version: str
    framework: str
    """The framework's id on the wire, which a control plane compares: ``vllm``."""
    distribution: str
    """The installed distribution whose version is the framework's."""
    catalogues: Path
    """The folder of recorded option lists, one file a framework version."""
    readiness_path: str = "/v1/models"
    capture_paths: tuple[str, str] = ("/start_profile", "/stop_profile")
    nothing: str = ""
    """A word that the framework's parser reads as no value at all, so that no name may be it."""
    real_parser: str = ""
    """The module with the framework's own parsers, for ``engine_side``; empty without one."""
    engine_backend: str = ""
    """The module through which OpenEngine talks to the engine; empty without one."""
    mechanisms: Mapping[KvTransferMechanism, Mechanism]
    routers: Mapping[str, NativeRouter]
    own_settings: Sequence[OwnSetting]
    reserved_env: Reserved

    # -- what a framework says ------------------------------------------------------------

    @abstractmethod
    def option_table(self, framework_version: str) -> OptionTable:
        """The options of a framework version."""

    @abstractmethod
    def layout(self, declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
        """Complete a declared shape by the framework's rules, or record why it cannot be."""

    @abstractmethod
    def absent_settings(self, scope: Scope, role: RoleRequest) -> Mapping[str, str]:
        """Our settings that do not apply to a role, with the reason."""

    @abstractmethod
    def complete(
        self, scope: Scope, role: RoleRequest, layout: Layout, checked: Settings, faults: Faults
    ) -> Settings:
        """Add what the framework needs for this role, and refuse what contradicts it."""

    @abstractmethod
    def ports(self, scope: Scope, role: RoleRequest, layout: Layout) -> PortPlan:
        """The named ports of every replica of a role."""

    @abstractmethod
    def check_plan(self, planned: Plan, faults: Faults, note: Callable[[str], None]) -> None:
        """Refuse what contradicts between roles, and note what may not work."""

    @abstractmethod
    def prefix_cache_reset(self, planned: Plan) -> HttpActionSpec | None:
        """The reset action, where the public endpoint will really answer it."""

    def render_inputs(self, planned: Plan) -> list[str]:
        """Workspace files that rendering must be given, as paths from the workspace root."""
        return []

    @abstractmethod
    def check_deployment(self, deployment: Deployment, faults: Faults) -> None:
        """Refuse allocations that this framework cannot start on."""

    @abstractmethod
    def render_rank(self, deployment: Deployment, replica: Replica, rank: Rank) -> Command:
        """The command of one process of a serving replica."""

    @abstractmethod
    def render_router(self, deployment: Deployment, rank: Rank) -> Command:
        """The command of the framework's own router."""

    def explanation(self) -> Explanation:
        """Where what rendering writes comes from, for people who ask."""
        from inferlab_adapters.origins import Unexplained

        return Unexplained()

    # -- the two operations ---------------------------------------------------------------

    def plan(self, wire: PlanServeInput, context: Context) -> PlanServeResult:
        """Lower a wanted shape into a topology. Raises :class:`AdapterError`."""
        asked = tuple(
            RoleRequest.read(position, role, ASKED) for position, role in enumerate(wire.roles)
        )
        plan = self._resolve(_scope(wire, asked), context)
        endpoint: EndpointRequirement = {
            "protocol": "http",
            "completions_path": "/v1/completions",
            "chat_completions_path": "/v1/chat/completions",
        }
        reset = self.prefix_cache_reset(plan)
        if reset is not None:
            endpoint["prefix_cache_reset"] = reset
        return {
            "integration": self.identity(context),
            "roles": roles(plan),
            "replicas": self._replicas(plan),
            "links": links(plan),
            "routing": routing(plan),
            "endpoint": endpoint,
            "render_inputs": [{"source_path": path} for path in self.render_inputs(plan)],
        }

    def render(self, wire: RenderServeInput, context: Context) -> RenderServeResult:
        """Turn a plan and its allocations into commands. Raises :class:`AdapterError`.

        The plan is made again from the effective roles and must come out as it was sent.
        """
        # Planning, the more frequent operation, starts without what only rendering needs.
        from inferlab_adapters import allocation, replay

        plan = self._resolve(_scope(wire, replay.planned_roles(wire)), context)
        replay.check_unchanged(plan, wire)
        inputs = replay.supplied_inputs(self.render_inputs(plan), wire)
        deployment = allocation.check(plan, wire.allocations, inputs)
        faults = Faults("invalid_request")
        self.check_deployment(deployment, faults)
        faults.check()
        return {
            "integration": self.identity(context),
            "processes": [
                self._render_process(deployment, rank, context.trace) for rank in deployment.ranks
            ],
        }

    def identity(self, context: Context) -> IntegrationIdentity:
        """Who answers: the same in plan and render, byte for byte."""
        return {
            "adapter_id": self.name,
            "adapter_version": self.version,
            "framework": self.framework,
            "framework_version": context.framework_version,
        }

    def observed_version(self) -> str:
        """The framework version installed beside the adapter, or ``unavailable``."""
        return installed_version(self.distribution) or UNAVAILABLE

    def recorded_versions(self) -> list[str]:
        """The framework versions with a catalogue, oldest first."""
        return recorded(self.catalogues)

    # -- the steps ------------------------------------------------------------------------

    def _resolve(self, scope: Scope, context: Context) -> Plan:
        names = Faults("invalid_request")
        check_names(scope, self.nothing, names)
        faults = Faults("invalid_settings")
        check_shape(scope, self.mechanisms, self.routers, faults)
        table = self.option_table(context.framework_version)
        reader = SettingsReader(table, self.own_settings, self.reserved_env, faults, context.note)
        read = [
            (role, self._layout(role, table, faults), self._settings(scope, role, reader))
            for role in scope.roles
        ]
        # What follows reads names, shapes and settings as if they were sound.
        names.check(faults)
        resolved = []
        for role, layout, settings in read:
            done = self.complete(scope, role, layout, settings, faults)
            reader.check_added(settings, done)
            ports = self.ports(scope, role, layout)
            resolved.append(RolePlan(request=role, layout=layout, settings=done, ports=ports))
        plan = Plan(
            scope=scope,
            roles=tuple(resolved),
            table=table,
            mechanism=self.mechanisms[scope.mechanism] if scope.mechanism else None,
            router=self.routers[scope.native_router] if scope.native_router else None,
        )
        faults.check()
        self.check_plan(plan, faults, context.note)
        faults.check()
        return plan

    def _layout(self, role: RoleRequest, table: OptionTable, faults: Faults) -> Layout:
        layout = self.layout(role.declared, table, faults)
        if layout.devices > MAX_DEVICES:
            what = f"asks for {layout.devices} devices in one replica"
            faults.add(role.declared.base, what, f"the limit is {MAX_DEVICES}")
        return layout

    def _settings(self, scope: Scope, role: RoleRequest, reader: SettingsReader) -> Settings:
        absent = self.absent_settings(scope, role)
        return reader.read(role.settings, role.settings_pointer, absent)

    def _replicas(self, plan: Plan) -> list[ServeReplicaRequirement]:
        ready: ReadinessProbe = {"kind": "http", "path": self.readiness_path}
        found = [
            self._replica(plan, role, name, index, ready)
            for role in plan.roles
            for index, name in enumerate(role.request.replica_ids())
        ]
        if plan.router is not None:
            found.append(
                {
                    "id": ROUTER,
                    "role_id": ROUTER,
                    "replica_index": 0,
                    "device_count": 0,
                    "ports": list(plan.router.ports),
                    "primary_ports": [],
                    "primary_readiness": plan.router.readiness,
                    "worker_readiness": {"kind": "process_alive"},
                }
            )
        return found

    def _replica(
        self, plan: Plan, role: RolePlan, name: str, index: int, ready: ReadinessProbe
    ) -> ServeReplicaRequirement:
        requirement: ServeReplicaRequirement = {
            "id": name,
            "role_id": role.id,
            "replica_index": index,
            "device_count": role.layout.devices,
            "ports": list(role.ports.ports),
            "primary_ports": list(role.ports.primary_ports),
            "primary_readiness": ready,
            "worker_readiness": {"kind": "process_alive"},
        }
        if plan.scope.profiling:
            start, stop = self.capture_paths
            requirement["capture_target"] = {"control": {"start_path": start, "stop_path": stop}}
        return requirement

    def _render_process(
        self,
        deployment: Deployment,
        rank: Rank,
        trace: Callable[[ProcessTrace], None] | None,
    ) -> RenderedServeProcess:
        replica = deployment.replica_of(rank)
        if replica.role is None:
            command = self.render_router(deployment, rank)
        else:
            command = self.render_rank(deployment, replica, rank)
        if trace is not None:
            from inferlab_adapters import origins

            trace(origins.trace(self.explanation(), deployment, replica, rank, command))
        wire = rank.allocation
        return {
            "process": wire.process,
            "role": wire.role,
            "replica": wire.replica,
            "rank": wire.rank,
            "rank_count": wire.rank_count,
            "launch_files": [file.to_wire() for file in command.files],
            "command": {"argv": list(command.argv), "env": dict(sorted(command.env.items()))},
        }


def _scope(wire: PlanServeInput | RenderServeInput, roles: tuple[RoleRequest, ...]) -> Scope:
    return Scope(
        model=wire.model,
        topology=wire.topology,
        routing_backend=wire.routing_backend,
        mechanism=wire.kv_transfer,
        profiling=wire.profiling,
        roles=roles,
    )
