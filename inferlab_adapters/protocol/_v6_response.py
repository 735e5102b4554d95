# Generated from schema/adapter-protocol-v6.schema.json by scripts/generate_protocol.py
# with datamodel-code-generator 0.89.0: change the schema and run the script instead.

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ._v6 import U32, ProtocolVersion, WireModel
from ._v6_render import ReadinessProbe, RoutingResult, ServeRoleLink, ServeRoleResult


class RenderInputDeclaration(WireModel):
    """A UTF-8 file of the workspace that rendering needs."""

    source_path: str


class CaptureControlRequirement(WireModel):
    """HTTP paths that start and stop a profile."""

    start_path: str
    stop_path: str


EndpointProtocol: TypeAlias = Literal["http"]
HttpMethod: TypeAlias = Literal["post"]


class LaunchFileDeclaration(WireModel):
    """A text file to write before the process starts."""

    relative_path: str
    text: str
    sha256: str


class ProcessSpec(WireModel):
    """Arguments, program first, and environment of a process; no shell reads them."""

    argv: list[str]
    env: dict[str, str]


class IntegrationIdentity(WireModel):
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


class CaptureTargetRequirement(WireModel):
    """Says that a replica can be profiled, and how."""

    control: CaptureControlRequirement


class HttpActionSpec(WireModel):
    """An HTTP call without a body."""

    method: HttpMethod
    path: str


class RenderedServeProcess(WireModel):
    """The command of one allocation, whose identity it repeats."""

    process: str
    role: str
    replica: U32
    rank: U32
    rank_count: U32
    launch_files: list[LaunchFileDeclaration]
    command: ProcessSpec


class AdapterError(WireModel):
    """Why there is no result: a code for programs, a sentence for people."""

    code: AdapterErrorCode
    message: str


class ErrorResponse(WireModel):
    """The operation was refused or went wrong."""

    status: Literal["error"]
    protocol_version: ProtocolVersion
    error: AdapterError


class EndpointRequirement(WireModel):
    """What clients of the whole deployment talk to."""

    protocol: EndpointProtocol
    completions_path: str
    chat_completions_path: str
    prefix_cache_reset: HttpActionSpec | None = None


class RenderServeResult(WireModel):
    """The processes to start, one an allocation."""

    integration: IntegrationIdentity
    processes: list[RenderedServeProcess]


class RenderServeAdapterResult(WireModel):
    """Wraps the output of render_serve."""

    operation: Literal["render_serve"]
    output: RenderServeResult


class ServeReplicaRequirement(WireModel):
    """What one replica needs wherever it is placed."""

    id: str
    role_id: str
    replica_index: U32
    device_count: U32
    ports: list[str]
    primary_ports: list[str]
    primary_readiness: ReadinessProbe
    worker_readiness: ReadinessProbe
    capture_target: CaptureTargetRequirement | None = None


class PlanServeResult(WireModel):
    """A complete topology for the control plane to place."""

    integration: IntegrationIdentity
    roles: list[ServeRoleResult]
    replicas: list[ServeReplicaRequirement]
    links: list[ServeRoleLink]
    routing: RoutingResult
    endpoint: EndpointRequirement
    render_inputs: list[RenderInputDeclaration] = []


class PlanServeAdapterResult(WireModel):
    """Wraps the output of plan_serve."""

    operation: Literal["plan_serve"]
    output: PlanServeResult


AdapterResult: TypeAlias = Annotated[
    PlanServeAdapterResult | RenderServeAdapterResult, Field(discriminator="operation")
]


class OkResponse(WireModel):
    """The operation was carried out."""

    status: Literal["ok"]
    protocol_version: ProtocolVersion
    result: AdapterResult


AdapterResponse: TypeAlias = Annotated[OkResponse | ErrorResponse, Field(discriminator="status")]
