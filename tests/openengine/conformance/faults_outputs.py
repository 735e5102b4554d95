"""Broken in what the outputs are."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import (
    Fault,
    inside,
    only,
    two,
    without,
)
from tests.openengine.conformance.model_server import Data
from tests.openengine.conformance.model_tasks import Model

_REASON = "finished.reason"


def _tokens(data: Data, **fields: Any) -> list[Data]:
    """Every token record of a message with other fields."""
    for arm in ("token", "prompt"):
        if arm in data:
            made = [{**token, **fields} for token in data[arm]["tokens"]]
            return [inside(data, f"{arm}.tokens", made)]
    return [data]


def _one_token_less(request: Any) -> None:
    if request.stopping.max_tokens == 16:
        request.stopping.max_tokens = 15
        request.stopping.ClearField("min_tokens")


def _no_stop_tokens(request: Any) -> None:
    if any(one.HasField("stop_token_id") for one in request.stopping.conditions):
        request.stopping.ClearField("conditions")


def _always_the_stop(request: Any) -> None:
    request.stopping.include_stop_in_output = True


def _no_choice(request: Any) -> None:
    if request.guided.HasField("choice"):
        request.ClearField("guided")


class _WorksOn(Model):
    """A request whose client is gone is worked on."""

    async def Generate(self, request: Any, metadata: Any) -> Any:
        ended = False
        try:
            async for event in super().Generate(request, metadata):
                ended = "usage" in event
                yield event
        finally:
            if not ended and request.request_id in self.finished:
                self.running[request.request_id] = self.gone


def _fewer(data: Data) -> list[Data]:
    if "token" not in data:
        return [data]
    made = [{**t, "candidates": t["candidates"][:-1]} for t in data["token"]["tokens"]]
    return [inside(data, "token.tokens", made)]


def _reason(data: Data) -> list[Data]:
    return [inside(data, _REASON, "FINISH_REASON_UNSPECIFIED") if "finished" in data else data]


def _stop_match(data: Data) -> list[Data]:
    return [inside(data, "finished.stop_match", ...) if "finished" in data else data]


FAULTS = [
    Fault(rule="O14", name="no match", stream=lambda r, d: _stop_match(d)),
    Fault(rule="O15", name="an early end", related=frozenset({"O24"}), request=_one_token_less),
    Fault(rule="O16", name="no reason", stream=only(two, lambda r, d: _reason(d))),
    Fault(rule="O17", name="the stop leaks", request=_always_the_stop),
    Fault(
        rule="O18",
        name="a candidate too few",
        stream=only(lambda r: r.response.HasField("output_candidates"), lambda r, d: _fewer(d)),
    ),
    Fault(
        rule="O19",
        name="a positive logprob",
        stream=only(
            lambda r: r.response.return_output_logprobs, lambda r, d: _tokens(d, logprob=0.5)
        ),
    ),
    Fault(
        rule="O19",
        name="the rank zero",
        stream=only(lambda r: r.response.return_output_logprobs, lambda r, d: _tokens(d, rank=0)),
    ),
    Fault(rule="O20", name="the cache used", request=without("kv.bypass_prefix_cache")),
    Fault(rule="O21", name="one cache for all", request=without("kv.cache_salt")),
    Fault(rule="O22", name="no seed", request=without("sampling.seed")),
    Fault(
        rule="O23",
        groups=("cancel", "generate_fields"),
        name="work for nobody",
        related=frozenset({"R5"}),
        model=_WorksOn,
    ),
    Fault(rule="O24", name="a stop token ignored", request=_no_stop_tokens),
    Fault(rule="O25", name="a guide ignored", request=_no_choice),
]
