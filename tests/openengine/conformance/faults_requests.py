"""Broken in what Generate takes."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import ERROR, Fault, without
from tests.openengine.conformance.model_requests import MAX_TOP_N, NAMES
from tests.openengine.conformance.model_server import Data, Refusal
from tests.openengine.conformance.model_tasks import Model


def _default_input(request: Any) -> None:
    if request.WhichOneof("input") is None:
        request.prompt = "x"


def _known_model(request: Any) -> None:
    request.model = NAMES[0]


def _known_id(request: Any) -> None:
    request.request_id = request.request_id or "made-up"


def _no_broken_schema(request: Any) -> None:
    if request.guided.json_schema.endswith(": "):
        request.ClearField("guided")


def _one_sequence_at_least(request: Any) -> None:
    if request.sampling.num_sequences == 0:
        request.sampling.ClearField("num_sequences")


def _default_length(request: Any) -> None:
    if request.stopping.max_tokens == 0:
        request.stopping.ClearField("max_tokens")


def _fewer_candidates(request: Any) -> None:
    chosen = request.response.output_candidates
    if chosen.top_n > MAX_TOP_N:
        chosen.top_n = MAX_TOP_N


class _TakesIdsTwice(Model):
    async def Generate(self, request: Any, metadata: Any) -> Any:
        self.running.pop(request.request_id, None)
        async for event in super().Generate(request, metadata):
            yield event


class _ValidatesLate(Model):
    """A request is begun before all of it was looked at."""

    async def Generate(self, request: Any, metadata: Any) -> Any:
        if request.sampling.HasField("num_sequences") and not request.sampling.num_sequences:
            yield {"request_id": request.request_id, "token": {"output_index": 0, "text": "a"}}
        async for event in super().Generate(request, metadata):
            yield event


class _RefusesExtra(Model):
    async def Generate(self, request: Any, metadata: Any) -> Any:
        if request.extra.fields:
            raise Refusal("INVALID_ARGUMENT", "extra: is unknown")
        async for event in super().Generate(request, metadata):
            yield event


def _as_event(request: Any, refusal: Refusal) -> Data | Refusal:
    if refusal.code.name != "INVALID_ARGUMENT":
        return refusal
    error = {"code": "ERROR_CODE_INVALID_ARGUMENT", "message": refusal.message}
    return {"request_id": request.request_id, "error": error}


def _fake_error(request: Any, refusal: Refusal) -> Data | Refusal:
    if "of a kind" not in refusal.message:
        return refusal
    return {"request_id": request.request_id, **ERROR}


FAULTS = [
    Fault(rule="G1", name="refusal as an event", refusal=_as_event),
    Fault(
        rule="G6",
        name="a token before the refusal",
        related=frozenset({"G1"}),
        model=_ValidatesLate,
    ),
    Fault(rule="G17", name="an unknown extra refused", model=_RefusesExtra),
    Fault(rule="R1", name="no id", related=frozenset({"O1"}), request=_known_id),
    Fault(rule="R2", name="any model", request=_known_model),
    Fault(rule="R3", name="no input", request=_default_input),
    Fault(
        rule="R4",
        name="no sequence",
        related=frozenset({"G6"}),
        request=_one_sequence_at_least,
    ),
    Fault(rule="R5", name="an id twice", model=_TakesIdsTwice),
    Fault(
        rule="R7",
        name="a salt dropped",
        lacks=frozenset({"cache_salt"}),
        request=without("kv.cache_salt"),
    ),
    Fault(rule="R8", name="media dropped", request=without("media")),
    Fault(rule="R9", name="a broken schema dropped", request=_no_broken_schema),
    Fault(rule="R10", name="an error for a missing kind", refusal=_fake_error),
    Fault(rule="R11", name="zero is the default", request=_default_length),
    Fault(
        rule="R12",
        name="an unknown adapter dropped",
        related=frozenset({"LO6"}),
        request=without("lora_name"),
    ),
    Fault(rule="M4", name="a limit not kept", request=_fewer_candidates),
]
