"""Broken in health, aborts and adapters."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import Fault, sets, with_code
from tests.openengine.conformance.model_server import Data, Refusal
from tests.openengine.conformance.model_tasks import Model

_HEALTH = ("health", "drain")
_ABORT = ("abort", "cancel")
_ADAPTERS = ("lora", "models")


class _AbortsNothing(Model):
    async def Abort(self, request: Any, metadata: Any) -> Data:
        data = await super().Abort(request, metadata)
        if request.request_id in self.running:
            self.running[request.request_id].clear()
        return data


class _AbortsOne(Model):
    async def Abort(self, request: Any, metadata: Any) -> Data:
        data = await super().Abort(request, metadata)
        if request.HasField("all_requests"):
            for aborted in list(self.running.values())[1:]:
                aborted.clear()
        return data


class _LosesAdapters(Model):
    async def UnloadLora(self, request: Any, metadata: Any) -> Data:
        kept = dict(self.loras)
        data = await super().UnloadLora(request, metadata)
        self.loras = kept
        return data


def _empty(request: Any, refusal: Refusal) -> Data:
    return {}


def _aborted(request: Any, refusal: Refusal) -> Data | Refusal:
    return {"status": "ABORT_STATUS_ABORTED"} if request.request_id else refusal


def _absolute_path(request: Any) -> None:
    if request.adapter.source_path:
        request.adapter.source_path = f"/{request.adapter.source_path.lstrip('/')}"


def _probed(request: Any, data: Data) -> Data:
    probe = {"name": "inference_probe", "state": "HEALTH_STATE_READY"}
    return {**data, "checks": [probe]}


FAULTS = [
    Fault(
        rule="G5",
        name="nothing and OK",
        method="UnloadLora",
        refusal=_empty,
        related=frozenset({"LO4"}),
        groups=_ADAPTERS,
    ),
    Fault(rule="H1", groups=_HEALTH, name="a probe unasked", method="Health", reply=_probed),
    Fault(
        rule="H2",
        groups=_HEALTH,
        name="no probe",
        method="Health",
        reply=sets("checks", []),
    ),
    Fault(
        rule="H3",
        groups=_HEALTH,
        name="no state",
        method="Health",
        reply=sets("checks", [{"name": "inference_probe"}]),
        related=frozenset({"H1"}),
    ),
    Fault(
        rule="H4",
        groups=_HEALTH,
        name="ready for all",
        method="Health",
        reply=sets("state", "HEALTH_STATE_READY"),
    ),
    Fault(
        rule="A1",
        groups=_ABORT,
        name="another code",
        method="Abort",
        refusal=with_code("NOT_FOUND", "must be set"),
    ),
    Fault(
        rule="A2",
        groups=_ABORT,
        name="another code",
        method="Abort",
        related=frozenset({"A6"}),
        refusal=with_code("INTERNAL", "request_id: is unknown"),
    ),
    Fault(rule="A3", groups=_ABORT, name="the stream goes on", model=_AbortsNothing),
    Fault(
        rule="A4",
        groups=_ABORT,
        name="aborted again",
        method="Abort",
        reply=sets("status", "ABORT_STATUS_ABORTED"),
    ),
    Fault(rule="A5", groups=_ABORT, name="one is left", model=_AbortsOne),
    Fault(
        rule="A6",
        groups=_ABORT,
        name="success for nothing",
        method="Abort",
        refusal=_aborted,
        related=frozenset({"A2"}),
    ),
    Fault(
        rule="LO1",
        name="another path",
        related=frozenset({"LO2", "LO3", "LO6"}),
        method="LoadLora",
        groups=_ADAPTERS,
        request=_absolute_path,
    ),
    Fault(
        rule="LO2",
        name="always new",
        method="LoadLora",
        groups=_ADAPTERS,
        reply=sets("already_loaded", False),
    ),
    Fault(
        rule="LO3",
        name="another code",
        method="LoadLora",
        groups=_ADAPTERS,
        refusal=with_code("FAILED_PRECONDITION", "clashes"),
    ),
    Fault(
        rule="LO4",
        name="another code",
        method="UnloadLora",
        groups=_ADAPTERS,
        refusal=with_code("INVALID_ARGUMENT"),
    ),
    Fault(
        rule="LO6",
        name="never gone",
        groups=_ADAPTERS,
        model=_LosesAdapters,
        related=frozenset({"LO2"}),
    ),
]
