# Generated from schema/adapter-protocol-v6.schema.json by scripts/generate_protocol.py
# with datamodel-code-generator 0.89.0. Do not edit: change the schema and run the script.

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ._v6 import (
    U32,
    KvTransferMechanism,
    PlanServeRequest,
    ProtocolVersion,
    ServeModelInput,
    ServeTopology,
    WireModel,
)
from ._v6_response import RoutingResult, ServeRoleLink, ServeRoleResult

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


AllocationLaunch: TypeAlias = Annotated[LocalLaunch | SshLaunch, Field(discriminator="kind")]


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
