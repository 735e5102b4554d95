"""The deployment file: what somebody wants served, in as few lines as it takes.

These models are the edge where the file comes in, and the JSON Schema that editors complete it
by. They hold the form of the file only: which sizes, settings and routers are legal, the adapter
knows and says. A key without a value counts as left out.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import WithDefaultSchema

from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import typed
from inferlab_adapters.protocol import KvTransferMechanism, ServeTopology

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""Names of deployments: they are names of folders too, and never hidden or an option."""

Count: TypeAlias = Annotated[int, Field(ge=1)]
Size: TypeAlias = Count | None
RoleKind: TypeAlias = Literal["serve", "prefill", "decode"]
Settings: TypeAlias = dict[str, Any]

_TENSOR = "Ranks that each layer is split over."
_PIPELINE = "Stages that the layers are split into."
_ATTENTION_TENSOR = "Ranks that each attention block is split over."
_DATA = "Groups of ranks whose attention serves requests of its own."
_CONTEXT = "Ranks that the tokens of a long prompt are split over."
_EXPERTS_TENSOR = "Ranks that each expert is split over."
_EXPERTS_DATA = "Copies of all experts."
_EXPERT = "Ranks that the experts are spread over."
_DENSE = "Ranks that the dense layers beside the experts are split over."


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        field_title_generator=lambda name, _: name.replace("_", " ").capitalize(),
    )


class Model(_Part):
    """The model, and the names it goes by."""

    id: str = Field(description="The model's name; an inventory finds its files by it.")
    served_name: str | None = Field(
        default=None, description="The name that clients call it by; its id where left out."
    )
    path: str | None = Field(
        default=None,
        description="Where its files are on the machines, or its name on a hub. Counts from the"
        " file's folder where it begins with ./ or ../, from the home folder with ~/.",
    )


class Outer(_Part):
    """Sizes of the whole model."""

    tensor: Size = Field(default=None, description=_TENSOR)
    tensor_parallel_size: Size = Field(default=None, description=_TENSOR)
    pipeline: Size = Field(default=None, description=_PIPELINE)
    pipeline_parallel_size: Size = Field(default=None, description=_PIPELINE)


class Attention(_Part):
    """Sizes of the attention blocks."""

    tensor: Size = Field(default=None, description=_ATTENTION_TENSOR)
    tensor_parallel_size: Size = Field(default=None, description=_ATTENTION_TENSOR)
    data: Size = Field(default=None, description=_DATA)
    data_parallel_size: Size = Field(default=None, description=_DATA)
    context: Size = Field(default=None, description=_CONTEXT)
    context_parallel_size: Size = Field(default=None, description=_CONTEXT)


class Experts(_Part):
    """Sizes of the expert layers, and of the dense layers beside them."""

    tensor: Size = Field(default=None, description=_EXPERTS_TENSOR)
    tensor_parallel_size: Size = Field(default=None, description=_EXPERTS_TENSOR)
    data: Size = Field(default=None, description=_EXPERTS_DATA)
    data_parallel_size: Size = Field(default=None, description=_EXPERTS_DATA)
    expert: Size = Field(default=None, description=_EXPERT)
    expert_parallel_size: Size = Field(default=None, description=_EXPERT)
    dense_tensor: Size = Field(default=None, description=_DENSE)
    dense_tensor_parallel_size: Size = Field(default=None, description=_DENSE)


class Parallelism(_Part):
    """How a role's replicas are spread over devices; the adapter works out what is left out."""

    tensor: Size = Field(default=None, description=f"{_TENSOR} Short for outer: tensor.")
    pipeline: Size = Field(default=None, description=f"{_PIPELINE} Short for outer: pipeline.")
    data: Size = Field(default=None, description=f"{_DATA} Short for attention: data.")
    context: Size = Field(default=None, description=f"{_CONTEXT} Short for attention: context.")
    expert: Size = Field(default=None, description=f"{_EXPERT} Short for experts: expert.")
    outer: Outer | None = Field(default=None, description="Sizes of the whole model.")
    attention: Attention | None = Field(default=None, description="Sizes of attention blocks.")
    experts: Experts | None = Field(
        default=None, description="Sizes of the expert layers and the dense ones beside them."
    )


class Role(_Part):
    """One kind of server, and how many of it."""

    kind: RoleKind | None = Field(
        default=None,
        description="What its servers do; the role's own name where that is serve, prefill or"
        " decode.",
    )
    replicas: Count | None = Field(default=None, description="How many servers; 1 where left out.")
    parallelism: Parallelism | None = Field(
        default=None, description="How each server is spread over devices."
    )
    settings: Settings | None = Field(
        default=None,
        description="The framework's options by their own names, for this role alone. A key takes"
        " the place of the whole common one.",
    )


def _model(value: object) -> object:
    if isinstance(value, str):
        return {"id": value}
    if isinstance(value, dict):
        return value
    reason = f"must be a model id or an object with an id, got {typed(value)}"
    raise PydanticCustomError("setting_value", "{reason}", {"path": (), "reason": reason})


class DeploymentFile(_Part):
    """What somebody wants served."""

    name: str | None = Field(
        default=None,
        description="What the deployment is called when it runs; the file's name where left out.",
        json_schema_extra={"pattern": NAME_PATTERN},
    )
    framework: str | None = Field(
        default=None, description="The framework that serves; may be given as --framework instead."
    )
    model: Annotated[Model, BeforeValidator(_model, json_schema_input_type=str | Model)] = Field(
        description="The model; its id alone will do."
    )
    topology: ServeTopology | None = Field(
        default=None,
        description="single: every server does all. prefill_decode: prefill and decode apart; so it"
        " is where there is a role of either kind.",
    )
    routing: str | None = Field(
        default=None,
        description="Who spreads requests over prefill and decode: builtin, or the name of a router"
        " of the framework.",
    )
    kv_transfer: KvTransferMechanism | None = Field(
        default=None,
        title="KV transfer",
        description="What moves the KV cache from prefill to decode.",
    )
    profiling: bool | None = Field(
        default=None, description="Whether profiles can be taken of every server."
    )
    settings: Settings | None = Field(
        default=None,
        description="The framework's options by their own names, for every role. A key of a role's"
        " own settings takes the place of the whole key here.",
    )
    roles: dict[str, Role | None] | None = Field(
        default=None,
        description="Roles by name. Left out: serve, or prefill and decode, one server each.",
    )


class _WithoutDefaults(GenerateJsonSchema):
    """An editor would write the default ``null`` where somebody asks for a key."""

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schema() -> Json:
    """The JSON Schema (Draft 2020-12) of a deployment file, with the frameworks installed here."""
    made = DeploymentFile.model_json_schema(schema_generator=_WithoutDefaults)
    frameworks = sorted(entry_points(group="inferlab_adapters.adapters").names)
    if frameworks:
        made["properties"]["framework"]["enum"] = [*frameworks, None]
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Deployment file"}
    return {**made, **title}
