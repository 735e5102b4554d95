"""Broken in drains and runtime events."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import Fault, inside, sets
from tests.openengine.conformance.model_server import Data
from tests.openengine.conformance.model_tasks import Model

_SEED = "seed"


class _DrainsInHaste(Model):
    async def Drain(self, request: Any, metadata: Any) -> Any:
        for state in ("STARTED", "COMPLETE"):
            yield {"state": f"DRAIN_STATE_{state}"}


class _DrainsWithoutAborts(Model):
    async def Drain(self, request: Any, metadata: Any) -> Any:
        if request.abort_after_deadline:
            request.abort_after_deadline = False
        async for event in super().Drain(request, metadata):
            yield event


class _DrainsAndTakes(Model):
    async def Generate(self, request: Any, metadata: Any) -> Any:
        self.draining = False
        async for event in super().Generate(request, metadata):
            yield event


def _state(old: str, new: str | None) -> Any:
    def edit(request: Any, data: Data) -> list[Data]:
        if data["state"] != f"DRAIN_STATE_{old}":
            return [data]
        return [] if new is None else [inside(data, "state", f"DRAIN_STATE_{new}")]

    return edit


def _all_types(request: Any) -> None:
    request.ClearField("types")


FAULTS = [
    Fault(
        rule="D1",
        name="no start",
        method="Drain",
        revision=_SEED,
        groups=("drain",),
        stream=_state("STARTED", None),
    ),
    Fault(
        rule="D1",
        name="no end",
        method="Drain",
        revision=_SEED,
        groups=("drain",),
        stream=_state("COMPLETE", "IN_PROGRESS"),
    ),
    Fault(
        rule="D3",
        name="in haste",
        revision=_SEED,
        groups=("drain",),
        model=_DrainsInHaste,
        related=frozenset({"D4", "D5", "H5"}),
    ),
    Fault(
        rule="D4", name="no abort", revision=_SEED, groups=("drain",), model=_DrainsWithoutAborts
    ),
    Fault(
        rule="D5",
        name="takes more",
        revision=_SEED,
        groups=("drain",),
        model=_DrainsAndTakes,
    ),
    Fault(
        rule="D6",
        name="work is left",
        method="Drain",
        revision=_SEED,
        groups=("drain",),
        stream=lambda r, d: [{**d, "in_flight_requests": 1}],
    ),
    Fault(
        rule="D7",
        name="no state",
        method="Drain",
        revision=_SEED,
        groups=("drain",),
        stream=_state("IN_PROGRESS", "UNSPECIFIED"),
    ),
    Fault(
        rule="H5",
        name="ready in a drain",
        method="Health",
        revision=_SEED,
        groups=("drain",),
        reply=sets("state", "HEALTH_STATE_READY"),
    ),
    Fault(
        rule="X1",
        name="all types",
        method="SubscribeRuntimeEvents",
        revision=_SEED,
        groups=("runtime_events",),
        request=_all_types,
    ),
    Fault(
        rule="X2",
        name="no id",
        method="SubscribeRuntimeEvents",
        revision=_SEED,
        groups=("runtime_events",),
        stream=lambda r, d: [inside(d, "runtime_event.event_id", "")],
    ),
]
