"""A deployment before it has machines: what was asked for, and what it resolved to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from inferlab_adapters.catalogue import Option
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout
from inferlab_adapters.settings import Settings
from inferlab_adapters.values import SettingMap

if TYPE_CHECKING:
    from inferlab_adapters.protocol import (
        KvTransferMechanism,
        ServeModelInput,
        ServeRoleInput,
        ServeRoleKind,
        ServeTopology,
    )
    from inferlab_adapters.protocol import ServeRoleResult as WireRoleResult
    from inferlab_adapters.protocol.answers import (
        BuiltinRouterKind,
        ReadinessProbe,
        ServeRoleResult,
    )

ROUTER = "router"
"""The role id of every router, planned by us or owned by the control plane."""

MASTER = "master"
"""The port at which rank 0 of a replica is found by its other ranks."""

BUILTIN = "builtin"
POLICY = "round_robin"

MAX_REPLICAS = 65_536
"""More replicas in a request than any real deployment has."""


class Mechanism(NamedTuple):
    """How a framework uses one KV transfer mechanism.

    ``builtin`` is the control plane's router for it. ``port`` is the planned port on which
    the peers meet, ``link`` who opens it: ``bootstrap`` the router towards prefill,
    ``side_channel`` decode towards prefill, ``None`` nobody (in-band).
    """

    builtin: BuiltinRouterKind
    link: Literal["bootstrap", "side_channel"] | None
    port: str | None


class NativeRouter(NamedTuple):
    """A router that the framework brings: its readiness, ports and settings as planned."""

    readiness: ReadinessProbe
    settings: SettingMap
    ports: tuple[str, ...] = ()


class PortPlan(NamedTuple):
    """Named ports of a replica: for every rank, for rank 0 of several, and runs of them.

    ``spans`` maps the first name of a run to how many consecutive ports the engine takes
    from there; the names of a run are ``name``, ``name_1``, ``name_2``, …
    """

    ports: tuple[str, ...] = ()
    primary_ports: tuple[str, ...] = ()
    spans: Mapping[str, int] = MappingProxyType({})


def span_names(name: str, count: int) -> tuple[str, ...]:
    """The port names that reserve ``count`` consecutive ports."""
    return (name, *(f"{name}_{index}" for index in range(1, count)))


class RoleFields(NamedTuple):
    """What the wire calls a role's replica count, parallelism and settings."""

    replicas: str
    parallelism: str
    settings: str


ASKED = RoleFields("replica_count", "parallelism", "settings")
PLANNED = RoleFields("declared_replica_count", "effective_parallelism", "effective_settings")


class RoleRequest(NamedTuple):
    """One serving role as it came in, from a plan request or from a plan given to render."""

    position: int
    id: str
    kind: ServeRoleKind
    replica_count: int
    declared: DeclaredLayout
    settings: SettingMap
    settings_pointer: str
    count_pointer: str

    @classmethod
    def read(
        cls, position: int, wire: ServeRoleInput | WireRoleResult, names: RoleFields
    ) -> RoleRequest:
        """Read the role at ``position``, whose fields are called ``names``."""
        base = f"/input/roles/{position}"
        parallelism = getattr(wire, names.parallelism)
        return cls(
            position=position,
            id=wire.id,
            kind=wire.kind,
            replica_count=getattr(wire, names.replicas),
            declared=DeclaredLayout.from_wire(parallelism, f"{base}/{names.parallelism}"),
            settings=getattr(wire, names.settings),
            settings_pointer=f"{base}/{names.settings}",
            count_pointer=f"{base}/{names.replicas}",
        )

    @property
    def pointer(self) -> str:
        return f"/input/roles/{self.position}"

    def replica_ids(self) -> list[str]:
        """Process-visible names: ``server`` or the role id, numbered where there are several."""
        name = "server" if self.kind == "serve" else self.id
        count = self.replica_count
        return [name] if count == 1 else [f"{name}-{index:03d}" for index in range(count)]


class Scope(NamedTuple):
    """What a deployment is, apart from its roles: the same in plan and in render."""

    model: ServeModelInput
    topology: ServeTopology
    routing_backend: str | None
    mechanism: KvTransferMechanism | None
    profiling: bool
    roles: tuple[RoleRequest, ...]

    @property
    def native_router(self) -> str | None:
        """The framework's own router, where one was asked for."""
        backend = self.routing_backend
        return None if backend in (None, BUILTIN) else backend


class RolePlan(NamedTuple):
    """One serving role, resolved."""

    request: RoleRequest
    layout: Layout
    settings: Settings
    ports: PortPlan

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def kind(self) -> ServeRoleKind:
        return self.request.kind

    def to_wire(self) -> ServeRoleResult:
        return {
            "id": self.id,
            "kind": self.kind,
            "declared_replica_count": self.request.replica_count,
            "effective_replica_count": self.request.replica_count,
            "effective_settings": self.settings.to_wire(),
            "effective_parallelism": self.layout.to_wire(),
        }


class Plan(NamedTuple):
    """A deployment, resolved: what plan answers from and what render starts from."""

    scope: Scope
    roles: tuple[RolePlan, ...]
    table: OptionTable
    mechanism: Mechanism | None
    router: NativeRouter | None

    def role(self, kind: ServeRoleKind) -> RolePlan:
        return next(role for role in self.roles if role.kind == kind)

    def option(self, name: str) -> Option:
        """The catalogue entry of an option that the adapter itself writes."""
        return self.table[name]

    def argument(self, name: str, value: str | int) -> list[str]:
        """An option that the adapter itself writes, with its value, as tokens."""
        return [self.table[name].names[0], str(value)]

    def sizes(self, sizes: Mapping[str, int]) -> list[str]:
        """Those options for parallel sizes that are above 1; an engine's own default is 1."""
        above = (self.argument(name, size) for name, size in sizes.items() if size > 1)
        return [token for tokens in above for token in tokens]
