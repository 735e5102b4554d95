"""Answers of vLLM as events: what was recorded, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from inferlab_adapters.openengine.engine import (
    EngineFault,
    FinishedEvent,
    Guide,
    Returned,
    Sampling,
    StopMatch,
    Stopping,
    TokenEvent,
    Usage,
)
from tests.openengine.vllm.asked import asking, backend, fault, told
from tests.openengine.vllm.fake_server import DONE, Json, apart, chunk, error, in_one, run, usage

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
            server.answers.append(apart([chunk(0, (4,), "a"), *ends, usage(3, 3, None), DONE]))
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
            await told(engine, asking((7, 8), priority=4, dp_rank=1, trace=trace))
            (body,) = server.bodies("generate")
            assert body["token_ids"] == [7, 8]
            assert (body["priority"], body["model"], body["stream"]) == (-4, "tiny", True)
            assert server.headers[0]["traceparent"] == "00-1-2-01"
            assert server.headers[0]["X-data-parallel-rank"] == "1"
            assert "cookie" not in server.headers[0]

    run(test)


def test_a_prompt_of_text_goes_straight_to_completions() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            first = chunk(0, (7,), "x")
            first["choices"][0]["prompt_token_ids"] = [1, 2, 3, 4]
            lines = [first, chunk(0, (9,), "y", end="length"), usage(4, 2), DONE]
            server.answers.append(apart(lines))
            request = asking(
                None,
                prompt="ab",
                priority=4,
                dp_rank=1,
                sampling=Sampling(temperature=0.5, num_sequences=1),
                stopping=Stopping(max_tokens=2, stop_texts=("!",), stop_token_ids=(5,)),
                guide=Guide(mode="regex", text="a+"),
                cache_salt="s",
            )
            generation = await engine.accept(request)
            events = [event async for event in generation]
            assert events == [
                TokenEvent(0, [7], "x"),
                TokenEvent(0, [9], "y"),
                FinishedEvent(0, "length"),
            ]
            assert generation.usage == Usage(4, 2, 0)
            (body,) = server.bodies("completions")
            assert server.bodies("/tokenize") == []
            assert server.headers[0]["X-data-parallel-rank"] == "1"
            assert body.pop("request_id").startswith("oe-")
            assert body == {
                "model": "tiny",
                "prompt": "ab",
                "priority": -4,
                "cache_salt": "s",
                "return_token_ids": True,
                "stream": True,
                "stream_options": {"include_usage": True},
                "structured_outputs": {"regex": "a+"},
                "max_tokens": 2,
                "stop": ["!"],
                "stop_token_ids": [5],
                # What is not said is not left to the model's generation config.
                "temperature": 0.5,
                "top_p": 1.0,
                "top_k": 0,
                "min_p": 0.0,
                "frequency_penalty": 0.0,
                "presence_penalty": 0.0,
                "repetition_penalty": 1.0,
            }

    run(test)


def test_the_prompt_of_a_completion_is_counted_also_where_it_is_cut_short() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            first = chunk(0, (7,), "x")
            first["choices"][0]["prompt_token_ids"] = [1, 2, 3, 4]
            server.answers.append([first, error("boom", 500), DONE])
            request = asking(None, prompt="ab", stopping=Stopping(max_tokens=2))
            generation = await engine.accept(request)
            events = aiter(generation)
            assert await anext(events) == TokenEvent(0, [7], "x")
            with pytest.raises(EngineFault, match="boom"):
                await anext(events)
            assert generation.usage == Usage(4, 1)

    run(test)


def test_a_completion_is_aborted_by_its_own_name() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            server.answers.append([chunk(0, (7,), "x"), 60.0])
            request = asking(None, prompt="ab", stopping=Stopping(max_tokens=2))
            generation = await engine.accept(request)
            await generation.close()
            (body,) = server.bodies("completions")
            assert server.bodies(ABORT) == [{"request_ids": [f"cmpl-{body['request_id']}-0"]}]

    run(test)


@pytest.mark.parametrize(
    "fields",
    [
        {"stopping": Stopping()},
        {"bypass_prefix_cache": True},
        {"returned": Returned(output_logprobs=True)},
        {"returned": Returned(prompt_logprobs=True)},
    ],
    ids=["no limit", "no cache", "logprobs", "prompt logprobs"],
)
def test_what_completions_cannot_do_goes_the_long_way(fields: dict[str, Any]) -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            server.answers.append(ENDED)
            request = asking(None, **{"prompt": "ab", "stopping": Stopping(max_tokens=1), **fields})
            generation = await engine.accept(request)
            await generation.close()
            assert server.bodies("completions") == []
            (body,) = server.bodies("generate")
            assert body["token_ids"] == [197, 198]

    run(test)


def test_what_completions_refuses_is_asked_the_long_way() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            refused: list[Any] = [
                (400, error("maximum context length", 400)),
                [error("no", 400), DONE],
            ]
            for answer in refused:
                server.answers += [answer, ENDED]
                request = asking(None, prompt="ab", stopping=Stopping(max_tokens=1))
                events, _ = await told(engine, request)
                assert events[-1] == FinishedEvent(0, "length")
            server.answers += [(400, error("short", 400)), (400, error("long", 400))]
            seen = await fault(engine.accept(asking(None, prompt="ab", stopping=request.stopping)))
            assert (seen.code, seen.message) == ("invalid_argument", "long")
            # What is no fault of the request is not asked twice.
            server.answers.append((503, error("full", 503)))
            seen = await fault(engine.accept(asking(None, prompt="ab", stopping=request.stopping)))
            assert seen.code == "overloaded"
            assert len(server.bodies("generate")) == 3

    run(test)


def test_chunks_that_had_to_wait_go_out_as_one() -> None:
    async def test() -> None:
        async with backend() as (engine, server):
            piled = [
                chunk(0, (7,), "a"),
                chunk(1, (8,), "b"),
                chunk(0, (9,), "c"),
                chunk(0, (5,), "d", end="stop", stop_reason=5),
                chunk(1, (6,), "e"),
            ]
            server.answers.append([in_one(piled), in_one([chunk(1, (), end="length")]), *ENDED[1:]])
            stopping = Stopping(stop_token_ids=(5,))
            request = asking(sampling=Sampling(num_sequences=2), stopping=stopping)
            events, _ = await told(engine, request)
            assert events == [
                TokenEvent(0, [7, 9], "acd"),
                FinishedEvent(0, "stop", StopMatch("token", 5)),
                TokenEvent(1, [8, 6], "be"),
                FinishedEvent(1, "length"),
            ]
            server.answers.append(
                [in_one([chunk(0, (7,), "a"), chunk(0, (8,), "b"), error("boom", 500)]), DONE]
            )
            left = aiter(await engine.accept(asking()))
            assert await anext(left) == TokenEvent(0, [7, 8], "ab")
            with pytest.raises(EngineFault, match="boom"):
                await anext(left)

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
