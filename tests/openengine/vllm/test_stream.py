"""Answers of vLLM as events: what was recorded, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from inferlab_adapters.openengine.engine import (
    EngineFault,
    FinishedEvent,
    Returned,
    Sampling,
    StopMatch,
    Stopping,
    TokenEvent,
    Usage,
)
from tests.openengine.vllm.asked import asking, backend, fault, told
from tests.openengine.vllm.fake_server import DONE, Json, chunk, error, run, usage

ENDED: list[Any] = [chunk(0, (7,), "x", end="length"), usage(3, 1), DONE]
ABORT = "/inference/v1/abort_requests"


@pytest.mark.parametrize(
    ("last", "stopping", "match", "kept"),
    [
        ({"stop_reason": 9}, Stopping(stop_token_ids=(9,)), StopMatch("token", 9), False),
        (
            {"stop_reason": 9},
            Stopping(stop_token_ids=(9,), include_stop_in_output=True),
            StopMatch("token", 9),
            True,
        ),
        ({"stop_reason": 9}, Stopping(), StopMatch("eos", 9), True),
        ({}, Stopping(), StopMatch("eos", 9), True),
        ({"stop_reason": "!?"}, Stopping(stop_texts=("!?",)), StopMatch("text", text="!?"), True),
    ],
    ids=["token", "token-kept", "other-end-token", "end-token", "text"],
)
def test_what_ended_an_output(last: Json, stopping: Stopping, match: StopMatch, kept: bool) -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            lines = [chunk(0, (8,), "a"), chunk(0, (9,), end="stop", **last), usage(3, 2), DONE]
            server.answers.append(lines)
            events, counted = await told(engine, asking(stopping=stopping))
            assert events[-1] == FinishedEvent(0, "stop", match)
            ids = [i for event in events if isinstance(event, TokenEvent) for i in event.token_ids]
            assert ids == ([8, 9] if kept else [8])
            assert counted == Usage(3, len(ids), 0)

    run(test)


def test_several_outputs_end_each_and_the_usage_is_there_with_the_last() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            ends = [chunk(1, (5,), "b", end="length"), chunk(0, (6,), "c", end="abort")]
            server.answers.append([chunk(0, (4,), "a"), *ends, usage(3, 3, None), DONE])
            generation = await engine.accept(asking(sampling=Sampling(num_sequences=2)))
            seen: list[Any] = []
            async for event in generation:
                seen.append(event)
                if event == FinishedEvent(0, "cancelled", None, "vLLM aborted the request"):
                    assert generation.usage == Usage(3, 3, None)
            assert seen[2] == FinishedEvent(1, "length")
            assert seen[-1].reason == "cancelled"
            await generation.close()
            assert server.bodies(ABORT) == []

    run(test)


def test_lines_that_come_in_pieces_are_put_together() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            line = b"data: " + json.dumps(chunk(0, (7,), "€"), ensure_ascii=False).encode()
            whole = line + b"\n\n"
            pieces: list[Any] = []
            for i in range(0, len(whole), 40):
                pieces += [whole[i : i + 40], 0.002]
            server.answers.append([*pieces, *ENDED])
            events, _ = await told(engine, asking())
            assert events[0] == TokenEvent(0, [7], "€")

    run(test)


def test_what_is_asked_of_vllm() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            server.answers.append(ENDED)
            trace = {"traceparent": "00-1-2-01", "cookie": "no"}
            await told(engine, asking(None, prompt="ab", priority=4, dp_rank=1, trace=trace))
            (body,) = server.bodies("generate")
            assert body["token_ids"] == [197, 198]
            assert (body["priority"], body["model"], body["stream"]) == (-4, "tiny", True)
            assert server.headers[0]["traceparent"] == "00-1-2-01"
            assert server.headers[0]["X-data-parallel-rank"] == "1"
            assert "cookie" not in server.headers[0]

    run(test)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([error("max is 20 (parameter=logprobs, value=512)"), DONE], "invalid_argument"),
        ((400, error("n must be 1", 400)), "invalid_argument"),
        ((404, error("The model `x` does not exist.", 404, "model")), "model_not_found"),
        ((503, error("full", 503)), "overloaded"),
        ([error("full", 503), DONE], "overloaded"),
        ((500, error("boom", 500)), "internal"),
    ],
)
def test_a_refusal_comes_before_acceptance(answer: Any, code: str) -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            await engine.facts()
            server.answers.append(answer)
            seen = await fault(engine.accept(asking()))
            assert (seen.code, seen.retryable) == (code, code == "overloaded")
            assert "parameter" not in seen.message

    run(test)


@pytest.mark.parametrize(
    "lines",
    [
        [chunk(0, (4,), "a"), error("EngineCore died", 500), DONE],
        [error("Internal server error", 500), DONE],
        [chunk(0, (4,), "a")],
        [chunk(0, (4,), "a"), b"data: {\n\n"],
        [chunk(0, (4,), "a"), usage(3, 1), DONE],
    ],
    ids=["later", "at-once", "cut", "no-json", "no-end"],
)
def test_a_failure_after_acceptance_is_one_fault(lines: Any) -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            server.answers.append(lines)
            generation = await engine.accept(asking())

            async def read() -> None:
                async for _ in generation:
                    pass

            assert (await fault(read())).code == "internal"
            await generation.close()

    run(test)


@pytest.mark.parametrize("returned", [Returned(), Returned(prompt_logprobs=True)])
def test_a_closed_generation_ends_at_vllm(
    returned: Returned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oe_adapter_vllm.backend.stream.SETTLE_SECONDS", 0.01)

    async def test() -> None:
        async with backend() as (engine, server):
            if returned.prompt_logprobs:
                server.answers.append([b" ", asyncio.Event()])
            else:
                server.answers.append([chunk(0, (4,), "a"), asyncio.Event()])
            generation = await engine.accept(asking(returned=returned))

            async def read() -> None:
                async for _ in generation:
                    pass

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0.05)
            await generation.close()
            await generation.close()
            assert (await fault(reading)).code == "cancelled"
            await server.cut.wait()
            (body,) = server.bodies("generate")
            assert server.bodies(ABORT) == [
                {"request_ids": [f"generate-tokens-{body['request_id']}"]}
            ]

    run(test)


def test_an_acceptance_that_is_cancelled_ends_at_vllm() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            await engine.facts()
            server.answers.append([asyncio.Event()])
            accepting = asyncio.ensure_future(engine.accept(asking()))
            while not server.bodies("generate"):
                await asyncio.sleep(0.01)
            accepting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await accepting
            await server.cut.wait()
            assert len(server.bodies(ABORT)) == 1

    run(test)


def test_a_slow_first_token_does_not_hold_up_acceptance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oe_adapter_vllm.backend.stream.SETTLE_SECONDS", 0.01)

    async def test() -> None:
        async with backend() as (engine, server):
            go = asyncio.Event()
            server.answers.append([go, *ENDED])
            generation = await engine.accept(asking())
            go.set()
            assert len([event async for event in generation]) == 2
            await generation.close()

    run(test)


def test_nobody_there_is_not_ready() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            server.healthy = False
            (check,) = await engine.checks(True)
            assert check.state == "not_ready"
            with pytest.raises(EngineFault):
                await engine.facts()
            server.healthy = True
            server.answers.append(ENDED)
            checks = await engine.checks(True)
            assert [(c.name, c.state) for c in checks] == [
                ("model", "ready"),
                ("inference_probe", "ready"),
            ]

    run(test)
