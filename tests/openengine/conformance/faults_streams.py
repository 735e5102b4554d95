"""Broken in the messages of a stream and how it ends."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import (
    ERROR,
    EVERYTHING,
    STOP,
    Fault,
    inside,
    once,
    only,
    two,
)
from tests.openengine.conformance.model_server import Data, Refusal

_PLAIN_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def _error(**fields: Any) -> Data:
    return {"error": {**ERROR["error"], **fields}}


def _cumulative() -> Any:
    texts: dict[str, str] = {}

    def edit(request: Any, data: Data) -> list[Data]:
        if "token" not in data:
            texts.pop(request.request_id, None)
            return [data]
        whole = texts.get(request.request_id, "") + data["token"]["text"]
        texts[request.request_id] = whole
        return [inside(data, "token.text", whole)]

    return edit


def _prompt_last(request: Any, data: Data) -> list[Data]:
    """A prompt event right before the last message."""
    prompt = {"request_id": data["request_id"], "prompt": {"tokens": [{"token_id": 1}]}}
    return [prompt, data] if "usage" in data else [data]


def _first_prompt(data: Data, **fields: Any) -> list[Data]:
    if "prompt" not in data:
        return [data]
    first, *others = data["prompt"]["tokens"]
    return [inside(data, "prompt.tokens", [{**first, **fields}, *others])]


def _late(data: Data) -> list[Data]:
    """The usage moves to a message after the last one."""
    if "usage" not in data:
        return [data]
    last = {"request_id": data["request_id"], "prefill_ready": {}, "usage": data["usage"]}
    return [inside(data, "usage", ...), last]


def _after_finish(data: Data) -> list[Data]:
    token = {"request_id": data["request_id"], "token": {"output_index": 0, "text": "a"}}
    return [token, data] if "usage" in data else [data]


def _no_first_finish(data: Data) -> list[Data]:
    return [] if "finished" in data and "usage" not in data else [data]


def _without_index(data: Data) -> list[Data]:
    arm = "token" if "token" in data else "finished" if "finished" in data else None
    zero = arm and not data[arm]["output_index"]
    return [inside(data, f"{arm}.output_index", ...)] if zero else [data]


def _far_index(data: Data) -> list[Data]:
    arm = "token" if "token" in data else "finished"
    return [inside(data, f"{arm}.output_index", data[arm]["output_index"] + 5)]


def _no_index_message(data: Data) -> list[Data]:
    return [{"request_id": data["request_id"]}, data]


def _usage(data: Data, path: str, value: Any) -> list[Data]:
    return [inside(data, path, value) if "usage" in data else data]


FAULTS = [
    Fault(
        rule="G2",
        name="a status after the error",
        stream=once(ERROR, Refusal("INTERNAL", "")),
    ),
    Fault(
        rule="G2",
        name="a status and no error",
        stream=once(Refusal("INTERNAL", "it failed")),
    ),
    Fault(rule="G3", name="messages after the error", stream=once(ERROR)),
    Fault(
        rule="G7",
        name="a delay without a retry",
        revision="seed",
        stream=once(_error(retry_after_ms=0), STOP),
    ),
    Fault(
        rule="G8",
        name="a detail without a namespace",
        revision="seed",
        stream=once(_error(details={"slot": 1}), STOP),
    ),
    Fault(
        rule="G9",
        name="bad input may be retried",
        stream=once(_error(code="ERROR_CODE_INVALID_ARGUMENT", retryable=True), STOP),
    ),
    Fault(rule="O1", name="another id", stream=lambda r, d: [{**d, "request_id": "other"}]),
    Fault(rule="O2", name="an empty message", stream=lambda r, d: _no_index_message(d)),
    Fault(
        rule="O3",
        name="prompt tokens unasked",
        stream=only(lambda r: not r.response.return_prompt_logprobs, _prompt_last),
    ),
    Fault(
        rule="O3",
        name="prompt tokens twice",
        stream=only(
            lambda r: r.response.return_prompt_logprobs,
            lambda r, d: [d, d] if "prompt" in d else [d],
        ),
    ),
    Fault(
        rule="O4",
        name="a logprob of the first",
        stream=only(
            lambda r: not r.response.prompt_logprob_start,
            lambda r, d: _first_prompt(d, logprob=-1.0),
        ),
    ),
    Fault(rule="O5", name="other prompt ids", stream=lambda r, d: _first_prompt(d, token_id=7)),
    Fault(
        rule="O6",
        groups=(EVERYTHING,),
        name="no index of zero",
        stream=lambda r, d: _without_index(d),
    ),
    Fault(rule="O7", name="an index too far", stream=only(two, lambda r, d: _far_index(d))),
    Fault(
        rule="O8",
        name="cumulative text",
        related=frozenset({"O17", "O25"}),
        stream=_cumulative(),
    ),
    Fault(
        rule="O9", name="a token after the finish", stream=only(two, lambda r, d: _after_finish(d))
    ),
    Fault(rule="O10", name="no finish", stream=only(two, lambda r, d: _no_first_finish(d))),
    Fault(rule="O11", name="more after the last", stream=only(two, lambda r, d: _late(d))),
    Fault(
        rule="O12",
        name="no usage",
        # Nothing says then what was cached.
        stream=lambda r, d: [inside(d, "usage", ...)],
    ),
    Fault(
        rule="O12",
        groups=(EVERYTHING,),
        name="usage everywhere",
        stream=lambda r, d: [{"usage": _PLAIN_USAGE, **d}],
    ),
    Fault(
        rule="O12",
        name="a token uncounted",
        stream=lambda r, d: _usage(
            _usage(d, "usage.completion_tokens", 0)[0],
            "usage.total_tokens",
            d.get("usage", {}).get("prompt_tokens", 0),
        ),
    ),
    Fault(
        rule="O13",
        name="a wrong total",
        stream=lambda r, d: _usage(d, "usage.total_tokens", 1),
    ),
]
