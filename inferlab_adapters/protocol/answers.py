# Generated from schema/adapter-protocol-v6.schema.json by scripts/generate_protocol.py
# with datamodel-code-generator 0.89.0: change the schema and run the script instead.
"""What an adapter answers, as the plain dictionaries it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from inferlab_adapters.protocol._setting_value import SettingValue


U32: TypeAlias = int
PositiveU32: TypeAlias = int
ProtocolVersion: TypeAlias = Literal["6"]
ServeRoleKind: TypeAlias = Literal["serve", "prefill", "decode", "router"]
KvTransferMechanism: TypeAlias = Literal["mooncake", "nixl"]


class ParallelismOuter(TypedDict):
    """Degrees of the whole model, in ranks."""

    tensor_parallel_size: NotRequired[PositiveU32]
    pipeline_parallel_size: NotRequired[PositiveU32]


class ParallelismAttention(TypedDict):
    """Degrees of the attention blocks, in ranks."""

    tensor_parallel_size: NotRequired[PositiveU32]
    data_parallel_size: NotRequired[PositiveU32]
    context_parallel_size: NotRequired[PositiveU32]


class ParallelismExperts(TypedDict):
    """Degrees of the expert layers and of the dense layers beside them, in ranks."""

    tensor_parallel_size: NotRequired[PositiveU32]
    data_parallel_size: NotRequired[PositiveU32]
    expert_parallel_size: NotRequired[PositiveU32]
    dense_tensor_parallel_size: NotRequired[PositiveU32]


class RenderInputDeclaration(TypedDict):
    """A UTF-8 file of the workspace that rendering needs."""

    source_path: str


class CaptureControlRequirement(TypedDict):
    """HTTP paths that start and stop a profile."""

    start_path: str
    stop_path: str


class HttpReadiness(TypedDict):
    """Once a GET of the path succeeds."""

    kind: Literal["http"]
    path: str


class ProcessAliveReadiness(TypedDict):
    """As soon as the process runs."""

    kind: Literal["process_alive"]


TargetEndpointScheme: TypeAlias = Literal["http", "grpc"]


class RequestRoutingLink(TypedDict):
    """Requests go from the source to the targets."""

    kind: Literal["request_routing"]
    source: str
    targets: list[str]


class KvTransferLink(TypedDict):
    """KV cache goes from the source to the target."""

    kind: Literal["kv_transfer"]
    source: str
    target: str
    mechanism: KvTransferMechanism


class BootstrapLink(TypedDict):
    """The source finds the target at a bootstrap port."""

    kind: Literal["bootstrap"]
    source: str
    target: str
    port: str


class SideChannelLink(TypedDict):
    """Source and target talk beside the KV transfer itself."""

    kind: Literal["side_channel"]
    source: str
    target: str
    port: str


class DirectRouting(TypedDict):
    """Nobody: clients reach one replica."""

    owner: Literal["direct"]
    role: str
    replica: U32


class IntegrationNativeRouting(TypedDict):
    """A router of the framework's own, planned as a role."""

    owner: Literal["integration_native"]
    role: str
    replica: U32
    policy: str


BuiltinRouterKind: TypeAlias = Literal["vllm_mooncake", "vllm_nixl", "sglang", "trtllm"]
EndpointProtocol: TypeAlias = Literal["http"]
HttpMethod: TypeAlias = Literal["post"]


class LaunchFileDeclaration(TypedDict):
    """A text file to write before the process starts."""

    relative_path: str
    text: str
    sha256: str


class ProcessSpec(TypedDict):
    """Arguments, program first, and environment of a process; no shell reads them."""

    argv: list[str]
    env: dict[str, str]


class IntegrationIdentity(TypedDict):
    """Which adapter answered, and the framework version it saw."""

    adapter_id: str
    adapter_version: str
    framework: str
    framework_version: str


AdapterErrorCode: TypeAlias = Literal[
    "invalid_request",
    "unsupported_protocol_version",
    "invalid_settings",
    "internal",
    "unsupported_operation",
]


class Parallelism(TypedDict):
    """How a role is spread over devices, by component; any part may be left out."""

    outer: NotRequired[ParallelismOuter]
    attention: NotRequired[ParallelismAttention]
    experts: NotRequired[ParallelismExperts]


class CaptureTargetRequirement(TypedDict):
    """Says that a replica can be profiled, and how."""

    control: CaptureControlRequirement


class HttpTargetRegistryProbe(TypedDict):
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


ServeRoleLink: TypeAlias = RequestRoutingLink | KvTransferLink | BootstrapLink | SideChannelLink


class HttpActionSpec(TypedDict):
    """An HTTP call without a body."""

    method: HttpMethod
    path: str


class RenderedServeProcess(TypedDict):
    """The command of one allocation, whose identity it repeats."""

    process: str
    role: str
    replica: U32
    rank: U32
    rank_count: U32
    launch_files: list[LaunchFileDeclaration]
    command: ProcessSpec


class AdapterError(TypedDict):
    """Why there is no result: a code for programs, a sentence for people."""

    code: AdapterErrorCode
    message: str


class ServeRoleResult(TypedDict):
    """A role as it will run: identity kept, sizes and settings complete."""

    id: str
    kind: ServeRoleKind
    declared_replica_count: U32
    effective_replica_count: U32
    effective_settings: dict[str, SettingValue]
    effective_parallelism: Parallelism


class ErrorResponse(TypedDict):
    """The operation was refused or went wrong."""

    status: Literal["error"]
    protocol_version: ProtocolVersion
    error: AdapterError


ReadinessProbe: TypeAlias = HttpReadiness | HttpTargetRegistryProbe | ProcessAliveReadiness


class InferlabBuiltinRouting(TypedDict):
    """The control plane's own router, which the adapter starts no process for."""

    owner: Literal["inferlab_builtin"]
    implementation: BuiltinRouterKind
    policy: str
    prefill_role: str
    decode_role: str
    ports: list[str]
    readiness: ReadinessProbe


class EndpointRequirement(TypedDict):
    """What clients of the whole deployment talk to."""

    protocol: EndpointProtocol
    completions_path: str
    chat_completions_path: str
    prefix_cache_reset: NotRequired[HttpActionSpec]


class RenderServeResult(TypedDict):
    """The processes to start, one an allocation."""

    integration: IntegrationIdentity
    processes: list[RenderedServeProcess]


class RenderServeAdapterResult(TypedDict):
    """Wraps the output of render_serve."""

    operation: Literal["render_serve"]
    output: RenderServeResult


class ServeReplicaRequirement(TypedDict):
    """What one replica needs wherever it is placed."""

    id: str
    role_id: str
    replica_index: U32
    device_count: U32
    ports: list[str]
    primary_ports: list[str]
    primary_readiness: ReadinessProbe
    worker_readiness: ReadinessProbe
    capture_target: NotRequired[CaptureTargetRequirement]


RoutingResult: TypeAlias = DirectRouting | InferlabBuiltinRouting | IntegrationNativeRouting


class PlanServeResult(TypedDict):
    """A complete topology for the control plane to place."""

    integration: IntegrationIdentity
    roles: list[ServeRoleResult]
    replicas: list[ServeReplicaRequirement]
    links: list[ServeRoleLink]
    routing: RoutingResult
    endpoint: EndpointRequirement
    render_inputs: list[RenderInputDeclaration]


class PlanServeAdapterResult(TypedDict):
    """Wraps the output of plan_serve."""

    operation: Literal["plan_serve"]
    output: PlanServeResult


AdapterResult: TypeAlias = PlanServeAdapterResult | RenderServeAdapterResult


class OkResponse(TypedDict):
    """The operation was carried out."""

    status: Literal["ok"]
    protocol_version: ProtocolVersion
    result: AdapterResult


AdapterResponse: TypeAlias = OkResponse | ErrorResponse
