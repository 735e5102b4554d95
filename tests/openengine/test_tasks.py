"""Embed, Classify, Score and runtime events of a server that has none."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from tests.openengine.scripted import MODEL
from tests.openengine.serving import run, serving

INVALID, NOT_FOUND, FAILED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
)
CONTEXT = {"request_id": "t1", "model": MODEL}
ITEM = {"item_id": "a", "text": "hello"}
GROUP = {
    "group_id": "g",
    "query": ITEM,
    "candidates": [{"item_id": "b", "token_ids": {"ids": [1]}}],
}


def context(**changes: str) -> dict[str, Any]:
    return {"context": {**CONTEXT, **changes}}


BATCHES: list[tuple[dict[str, Any], grpc.StatusCode, str]] = [
    ({}, FAILED, "context.model: "),
    (context(model="nobody"), NOT_FOUND, "context.model: "),
    (context(model=""), INVALID, "context.model: is empty"),
    (context(request_id=""), INVALID, "context.request_id: is empty"),
    ({"inputs": []}, INVALID, "inputs: is empty"),
    ({"inputs": [{"text": "a"}]}, INVALID, "inputs[0].item_id: is empty"),
    ({"inputs": [ITEM, ITEM]}, INVALID, 'inputs[1].item_id: "a" is given twice'),
    ({"inputs": [{"item_id": "a"}]}, INVALID, "inputs[0]: has no input"),
    ({"inputs": [{"item_id": "a", "text": ""}]}, INVALID, "inputs[0].text: is empty"),
    ({"inputs": [{"item_id": "a", "token_ids": {}}]}, INVALID, "inputs[0].token_ids: is empty"),
    (
        {"inputs": [{"item_id": "a", "multimodal": {"text": "a"}}]},
        INVALID,
        "inputs[0].multimodal.media: is empty",
    ),
    (
        {"inputs": [{"item_id": "a", "multimodal": {"media": [{"modality": 1}]}}]},
        INVALID,
        "inputs[0].multimodal.media[0]: has no source",
    ),
]


@pytest.mark.parametrize("method", ["Embed", "Classify"])
def test_batches(method: str) -> None:
    async def test() -> None:
        async with serving() as served:
            for changes, code, message in BATCHES:
                request = {**context(), "inputs": [ITEM], **changes}
                outcome = await served.client.outcome(method, request)
                assert outcome.code is code, changes
                assert outcome.details.startswith(message), outcome.details
                assert outcome.messages == ()

    run(test)


def test_embedding_dimensions() -> None:
    async def test() -> None:
        async with serving() as served:
            request = {**context(), "inputs": [ITEM], "options": {"dimensions": 0}}
            outcome = await served.client.outcome("Embed", request)
            assert outcome.code is INVALID
            assert outcome.details.startswith("options.dimensions: ")

    run(test)


def test_scores() -> None:
    cases: list[tuple[dict[str, Any], grpc.StatusCode, str]] = [
        ({}, FAILED, "context.model: "),
        (context(model="nobody"), NOT_FOUND, "context.model: "),
        ({"groups": []}, INVALID, "groups: is empty"),
        ({"groups": [GROUP, GROUP]}, INVALID, 'groups[1].group_id: "g" is given twice'),
        ({"groups": [{**GROUP, "group_id": ""}]}, INVALID, "groups[0].group_id: is empty"),
        ({"groups": [{**GROUP, "query": None}]}, INVALID, "groups[0].query: is missing"),
        ({"groups": [{**GROUP, "candidates": []}]}, INVALID, "groups[0].candidates: is empty"),
        ({"groups": [{**GROUP, "candidates": [ITEM]}]}, INVALID, "groups[0].candidates[0].item_id"),
        ({"options": {"label_token_ids": [1, 1]}}, INVALID, "options.label_token_ids: "),
    ]

    async def test() -> None:
        async with serving() as served:
            for changes, code, message in cases:
                request = {**context(), "groups": [GROUP], **changes}
                outcome = await served.client.outcome("Score", request)
                assert outcome.code is code, changes
                assert outcome.details.startswith(message), outcome.details

    run(test)


def test_runtime_events_are_unimplemented() -> None:
    async def test() -> None:
        async with serving() as served:
            outcome = await served.client.outcome("SubscribeRuntimeEvents", {"types": [1]})
            assert outcome.code is grpc.StatusCode.UNIMPLEMENTED
            assert outcome.messages == ()
            info = await served.client.call("GetModelInfo", {"model": MODEL})
            assert not info.HasField("tasks")

    run(test)
