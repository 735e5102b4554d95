"""Broken in discovery, load and what stands beside a call."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import Fault, sets, with_code
from tests.openengine.conformance.model_requests import NAMES, bad
from tests.openengine.conformance.model_server import Data, Refusal
from tests.openengine.conformance.model_tasks import Model

_SERVER = "GetServerInfo"
_MODEL = "GetModelInfo"
_DISCOVERY = ("discovery", "models")
_LOAD = ("load", "discovery")


class _NoKeysOnControl(Model):
    async def GetLoad(self, request: Any, metadata: Any) -> Data:
        if "openengine-priority" in metadata:
            raise bad("openengine-priority: is unknown here")
        return await super().GetLoad(request, metadata)


class _NoTraces(Model):
    async def Health(self, request: Any, metadata: Any) -> Data:
        if "traceparent" in metadata:
            raise bad("traceparent: is unknown")
        return await super().Health(request, metadata)


class _KnownRoles(Model):
    async def Health(self, request: Any, metadata: Any) -> Data:
        if request.role > 3:
            raise bad("role: is unknown")
        return await super().Health(request, metadata)


class _NoAliases(Model):
    async def Generate(self, request: Any, metadata: Any) -> Any:
        if request.model == NAMES[1]:
            raise Refusal("NOT_FOUND", "model: is unknown")
        async for event in super().Generate(request, metadata):
            yield event


FAULTS = [
    Fault(
        rule="I1",
        name="no revision",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("schema_revision", 0),
    ),
    Fault(
        rule="I2",
        name="no client revision",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("minimum_client_revision", 2),
    ),
    Fault(
        rule="I3",
        name="a branch",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("schema_release", "main"),
    ),
    Fault(
        rule="I4",
        name="no engine name",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("engine_name", ""),
    ),
    Fault(rule="I5", name="no role", method=_SERVER, reply=sets("engine_role", 0)),
    Fault(
        rule="I6",
        name="a model that is none",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("supported_models", [NAMES[0], "ghost"]),
    ),
    Fault(
        rule="I7",
        name="a size of 0",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("parallelism.decode_context_parallel_size", 0),
    ),
    Fault(
        rule="I8",
        name="other blocks",
        method=_SERVER,
        groups=_DISCOVERY,
        reply=sets("capacity.total_kv_blocks", 7),
    ),
    Fault(
        rule="I9",
        name="no connector",
        method=_SERVER,
        role="prefill",
        groups=_DISCOVERY,
        reply=sets("kv_connector", None),
    ),
    Fault(
        rule="G10",
        name="zero for unknown",
        method=_MODEL,
        reply=sets("max_output_tokens", 0),
    ),
    Fault(rule="G11", name="keys twice", metadata=lambda pairs: list(dict(pairs).items())),
    Fault(rule="G12", name="keys refused on Control", model=_NoKeysOnControl),
    Fault(rule="G13", name="traces refused", model=_NoTraces),
    Fault(rule="G16", name="an unknown role refused", model=_KnownRoles),
    Fault(
        rule="M1",
        name="a default model",
        method=_MODEL,
        request=lambda r: setattr(r, "model", r.model or NAMES[0]),
    ),
    Fault(
        rule="M2",
        name="another code",
        method=_MODEL,
        refusal=with_code("INVALID_ARGUMENT", "is not served"),
    ),
    Fault(
        rule="M3",
        name="unsaid support",
        method=_MODEL,
        related=frozenset({"M4"}),
        reply=sets("generation.guided_decoding.supported", None),
    ),
    Fault(
        rule="M6",
        name="a guide that is not there",
        method=_MODEL,
        reply=sets("generation.guided_decoding.modes", [*range(1, 4), 5, 6]),
    ),
    Fault(rule="M10", name="an alias that is none", model=_NoAliases),
    Fault(
        rule="L1",
        groups=_LOAD,
        name="always idle",
        method="GetLoad",
        reply=sets("running_requests", 0),
    ),
    Fault(
        rule="L2",
        groups=_LOAD,
        name="a rank without a number",
        method="GetLoad",
        reply=lambda r, d: {**d, "ranks": [{}] * r.include_per_rank},
    ),
    Fault(
        rule="L3",
        groups=_LOAD,
        name="another instance",
        method="GetLoad",
        reply=sets("instance_id", "x"),
    ),
    Fault(
        rule="L4",
        groups=_LOAD,
        name="a number as text",
        method="GetLoad",
        reply=sets("attributes", {"steps": "12"}),
    ),
]
