# Generated from schema/adapter-protocol-v6.schema.json by scripts/generate_protocol.py
# with datamodel-code-generator 0.89.0: change the schema and run the script instead.

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ._setting_value import SettingValue
from ._v6 import (
    U32,
    KvTransferMechanism,
    Parallelism,
    PlanServeRequest,
    ProtocolVersion,
    ServeModelInput,
    ServeRoleKind,
    ServeTopology,
    WireModel,
)

U16: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=65535)]


class SuppliedRenderInput(WireModel):
    """A file the plan declared, with its text and digest."""

    source_path: str
    text: str
    sha256: str


class EndpointAssignment(WireModel):
    """A host and TCP port given to a process."""

    host: str
    port: U16


class LocalLaunch(WireModel):
    """On the control plane's own machine."""

    kind: Literal["local"]


class SshLaunch(WireModel):
    """On another machine, over SSH."""

    kind: Literal["ssh"]
    target: str


class HttpReadiness(WireModel):
    """Once a GET of the path succeeds."""

    kind: Literal["http"]
    path: str


class ProcessAliveReadiness(WireModel):
    """As soon as the process runs."""

    kind: Literal["process_alive"]


TargetEndpointScheme: TypeAlias = Literal["http", "grpc"]


class RequestRoutingLink(WireModel):
    """Requests go from the source to the targets."""

    kind: Literal["request_routing"]
    source: str
    targets: list[str]


class KvTransferLink(WireModel):
    """KV cache goes from the source to the target."""

    kind: Literal["kv_transfer"]
    source: str
    target: str
    mechanism: KvTransferMechanism


class BootstrapLink(WireModel):
    """The source finds the target at a bootstrap port."""

    kind: Literal["bootstrap"]
    source: str
    target: str
    port: str


class SideChannelLink(WireModel):
    """Source and target talk beside the KV transfer itself."""

    kind: Literal["side_channel"]
    source: str
    target: str
    port: str


class DirectRouting(WireModel):
    """Nobody: clients reach one replica."""

    owner: Literal["direct"]
    role: str
    replica: U32


class IntegrationNativeRouting(WireModel):
    """A router of the framework's own, planned as a role."""

    owner: Literal["integration_native"]
    role: str
    replica: U32
    policy: str


BuiltinRouterKind: TypeAlias = Literal["vllm_mooncake", "vllm_nixl", "sglang", "trtllm"]
AllocationLaunch: TypeAlias = Annotated[LocalLaunch | SshLaunch, Field(discriminator="kind")]


class HttpTargetRegistryProbe(WireModel):
    """Once the public endpoint answers and its registry lists every serving target: HttpTargetRegistryReadiness with its tag."""

    kind: Literal["http_target_registry"]
    target_scheme: TargetEndpointScheme
    readiness_path: str
    registry_path: str
    targets_field: str
    target_url_field: str
    target_role_field: str
    target_healthy_field: str
    target_bootstrap_port_field: str
    prefill_role_value: str
    decode_role_value: str
    prefill_bootstrap_port: str


ServeRoleLink: TypeAlias = Annotated[
    RequestRoutingLink | KvTransferLink | BootstrapLink | SideChannelLink,
    Field(discriminator="kind"),
]


class ServeRoleResult(WireModel):
    """A role as it will run: identity kept, sizes and settings complete."""

    id: str
    kind: ServeRoleKind
    declared_replica_count: U32
    effective_replica_count: U32
    effective_settings: dict[str, SettingValue]
    effective_parallelism: Parallelism


class ServeProcessAllocation(WireModel):
    """A process the control plane has placed: its rank, devices, addresses and files."""

    process: str
    role: str
    replica: U32
    rank: U32
    rank_count: U32
    machine: str
    devices: list[U32]
    model_locator: str | None = None
    endpoint: EndpointAssignment | None = None
    ports: dict[str, EndpointAssignment]
    cache: str
    launch: AllocationLaunch
    dependencies: list[str] = []


ReadinessProbe: TypeAlias = Annotated[
    HttpReadiness | HttpTargetRegistryProbe | ProcessAliveReadiness, Field(discriminator="kind")
]


class InferlabBuiltinRouting(WireModel):
    """The control plane's own router, which the adapter starts no process for."""

    owner: Literal["inferlab_builtin"]
    implementation: BuiltinRouterKind
    policy: str
    prefill_role: str
    decode_role: str
    ports: list[str] = []
    readiness: ReadinessProbe


RoutingResult: TypeAlias = Annotated[
    DirectRouting | InferlabBuiltinRouting | IntegrationNativeRouting, Field(discriminator="owner")
]


class RenderServeInput(WireModel):
    """A plan, repeated, with the allocations made for it."""

    model: ServeModelInput
    topology: ServeTopology
    routing_backend: str | None = None
    kv_transfer: KvTransferMechanism | None = None
    roles: list[ServeRoleResult]
    routing: RoutingResult
    links: list[ServeRoleLink]
    allocations: list[ServeProcessAllocation]
    render_inputs: list[SuppliedRenderInput] = []
    profiling: bool = False


class RenderServeRequest(WireModel):
    """Asks for the command of every process, given the plan and where the control plane put it."""

    operation: Literal["render_serve"]
    protocol_version: ProtocolVersion
    input: RenderServeInput


AdapterRequest: TypeAlias = Annotated[
    PlanServeRequest | RenderServeRequest, Field(discriminator="operation")
]
