# Generated from schema/adapter-protocol-v6.schema.json by scripts/generate_protocol.py
# with datamodel-code-generator 0.89.0: change the schema and run the script instead.

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from ._setting_value import SettingValue


class WireModel(BaseModel):
    """What all messages share: nothing unknown, nothing coerced, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


U32: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=4294967295)]
PositiveU32: TypeAlias = Annotated[int, Field(strict=True, ge=1, le=4294967295)]
ProtocolVersion: TypeAlias = Literal["6"]
ServeTopology: TypeAlias = Literal["single", "prefill_decode"]
ServeRoleKind: TypeAlias = Literal["serve", "prefill", "decode", "router"]
KvTransferMechanism: TypeAlias = Literal["mooncake", "nixl"]


class ParallelismOuter(WireModel):
    """Degrees of the whole model, in ranks."""

    tensor_parallel_size: PositiveU32 | None = None
    pipeline_parallel_size: PositiveU32 | None = None


class ParallelismAttention(WireModel):
    """Degrees of the attention blocks, in ranks."""

    tensor_parallel_size: PositiveU32 | None = None
    data_parallel_size: PositiveU32 | None = None
    context_parallel_size: PositiveU32 | None = None


class ParallelismExperts(WireModel):
    """Degrees of the expert layers and of the dense layers beside them, in ranks."""

    tensor_parallel_size: PositiveU32 | None = None
    data_parallel_size: PositiveU32 | None = None
    expert_parallel_size: PositiveU32 | None = None
    dense_tensor_parallel_size: PositiveU32 | None = None


class ServeModelInput(WireModel):
    """The model by its logical id, and the name clients will call it by."""

    id: str
    served_name: str


class Parallelism(WireModel):
    """How a role is spread over devices, by component; any part may be left out."""

    outer: ParallelismOuter | None = None
    attention: ParallelismAttention | None = None
    experts: ParallelismExperts | None = None


class ServeRoleInput(WireModel):
    """A role as wanted; sizes and settings left out are the adapter's to fill."""

    id: str
    kind: ServeRoleKind
    replica_count: U32
    parallelism: Parallelism
    settings: dict[str, SettingValue]


class PlanServeInput(WireModel):
    """The shape somebody wants served."""

    model: ServeModelInput
    topology: ServeTopology
    routing_backend: str | None = None
    kv_transfer: KvTransferMechanism | None = None
    roles: list[ServeRoleInput]
    profiling: bool = False


class PlanServeRequest(WireModel):
    """Asks for a topology: roles, replicas, links, routing and endpoint, without any machine fact."""

    operation: Literal["plan_serve"]
    protocol_version: ProtocolVersion
    input: PlanServeInput
