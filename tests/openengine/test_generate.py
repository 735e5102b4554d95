"""The stream of an accepted request: its events, and its one ending whatever happens."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine.engine import (
    EngineFault,
    FinishedEvent,
    PrefillDone,
    PromptEvent,
    Role,
    StopMatch,
    TokenDetail,
    TokenEvent,
)
from inferlab_adapters.openengine.revisions import Revision
from tests.openengine.scripted import ScriptedEngine, Step, tokens
from tests.openengine.serving import BOTH, kinds, run, serving, until

TOKEN = TokenEvent(0, (66,), "a")
END = FinishedEvent(0, "length")
FAULT = EngineFault("overloaded", "no room", retryable=True, retry_after_ms=0)

revisions = pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)


def scripted(*steps: Step, role: Role = Role.AGGREGATED) -> ScriptedEngine:
    return ScriptedEngine(role, script=lambda request: steps)


def error_name(revision: Revision, message: Any) -> str:
    return revision.enum("ErrorCode").Name(message.error.code).removeprefix("ERROR_CODE_")


@revisions
def test_a_request_with_everything(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            outcome = await served.generate(
                "id-1",
                prompt=None,
                token_ids={"ids": list(range(100, 140))},
                sampling={"num_sequences": 2},
                response={
                    "return_prompt_logprobs": True,
                    "prompt_candidates": {"top_n": 2},
                    "output_candidates": {"token_ids": {"ids": [7, 5]}},
                },
            )
            assert outcome.ok
            assert {m.request_id for m in outcome.messages} == {"id-1"}
            assert kinds(outcome) == ["prompt", *["token", "token", "finished"] * 2]
            prompt = outcome.messages[0].prompt.tokens
            assert [t.token_id for t in prompt] == list(range(100, 140))
            assert not prompt[0].HasField("logprob")
            assert not prompt[0].HasField("rank")
            assert not prompt[0].candidates
            assert all(t.HasField("logprob") and len(t.candidates) == 2 for t in prompt[1:])
            output = [m.token for m in outcome.messages if m.WhichOneof("event") == "token"]
            assert [o.HasField("output_index") for o in output] == [True] * 4
            assert [o.output_index for o in output] == [0, 0, 1, 1]
            for token in (t for o in output for t in o.tokens):
                assert token.logprob <= 0
                assert token.rank == 1
                assert [c.token_id for c in token.candidates] == [7, 5]
            ends = [m.finished for m in outcome.messages if m.WhichOneof("event") == "finished"]
            assert [(e.HasField("output_index"), e.output_index) for e in ends] == [
                (True, 0),
                (True, 1),
            ]
            assert [m.HasField("usage") for m in outcome.messages] == [False] * 6 + [True]
            usage = outcome.messages[-1].usage
            assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (40, 8, 48)
            assert usage.HasField("cached_prompt_tokens")
            assert not usage.HasField("reasoning_tokens")

    run(test)


@pytest.mark.parametrize(
    ("stop", "arm", "value"),
    [
        (StopMatch("token", token_id=0), "stop_token_id", 0),
        (StopMatch("text", text="end"), "stop_text", "end"),
        (StopMatch("eos", token_id=2), "eos_token_id", 2),
    ],
)
def test_a_stop_names_what_was_hit(stop: StopMatch, arm: str, value: object) -> None:
    async def test() -> None:
        async with serving(scripted(TOKEN, FinishedEvent(0, "stop", stop))) as served:
            finished = (await served.generate()).messages[-1].finished
            assert finished.reason == 1
            assert finished.stop_match.WhichOneof("match") == arm
            assert getattr(finished.stop_match, arm) == value

    run(test)


def test_prompt_details_that_nobody_asked_for_stay_here() -> None:
    async def test() -> None:
        async with serving(scripted(PromptEvent([TokenDetail(1)]), TOKEN, END)) as served:
            assert kinds(await served.generate()) == ["token", "finished"]

    run(test)


BROKEN: dict[str, list[Step]] = {
    "fault": [TOKEN, FAULT],
    "bug": [TOKEN, ZeroDivisionError("a bug")],
    "cancelled by itself": [TOKEN, asyncio.CancelledError()],
    "early end": [TOKEN],
    "unknown output": [TOKEN, TokenEvent(1, (1,), "")],
    "negative output": [TOKEN, TokenEvent(-1, (1,), "")],
    "token after end": [TOKEN, FinishedEvent(1, "length"), TokenEvent(1, (1,), ""), END],
    "two ends": [TOKEN, FinishedEvent(1, "length"), FinishedEvent(1, "length"), END],
    "late prompt": [TOKEN, PromptEvent([TokenDetail(1)]), END],
    "foreign kind": [TOKEN, PrefillDone(None), END],  # type: ignore[arg-type]
    "impossible id": [TOKEN, TokenEvent(0, (-1,), ""), END],
    "message that cannot be": [TOKEN, TokenEvent(0, (1,), "", [TokenDetail(-1)]), END],
}


@revisions
@pytest.mark.parametrize("case", BROKEN)
def test_a_failure_after_acceptance_is_one_error_event(revision: Revision, case: str) -> None:
    async def test() -> None:
        async with serving(scripted(*BROKEN[case]), revision) as served:
            count = 2 if case in ("token after end", "two ends") else 1
            outcome = await served.generate(sampling={"num_sequences": count})
            assert outcome.ok
            assert kinds(outcome)[0] == "token"
            assert kinds(outcome)[-1] == "error"
            assert kinds(outcome).count("error") == 1
            assert [m.HasField("usage") for m in outcome.messages].index(True) == (
                len(outcome.messages) - 1
            )
            last = outcome.messages[-1]
            expected = "OVERLOADED" if case == "fault" else "INTERNAL"
            assert error_name(revision, last) == expected
            assert last.error.retryable is (case == "fault")
            if case == "fault" and revision.name == "seed":
                assert last.error.HasField("retry_after_ms")
            assert not served.engine.open
            assert served.server.registry.in_flight == 0
            again = await served.generate()
            assert again.ok, "the id is free"

    run(test)


@revisions
@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (FAULT, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (EngineFault("unsupported_feature", "no"), grpc.StatusCode.INVALID_ARGUMENT),
        (EngineFault("internal", "no" * 5000), grpc.StatusCode.INTERNAL),
    ],
)
def test_a_refusal_of_the_engine_is_a_status(
    revision: Revision, fault: EngineFault, code: grpc.StatusCode
) -> None:
    async def test() -> None:
        engine = scripted(TOKEN, END)
        engine.refusal = fault
        async with serving(engine, revision) as served:
            outcome = await served.generate()
            assert outcome.code is code
            assert outcome.messages == ()
            assert len(outcome.details) <= 2000
            assert (await served.abort(request_id="r1")).code is grpc.StatusCode.NOT_FOUND
            engine.refusal = None
            assert (await served.generate()).ok

    run(test)


def test_an_id_in_flight_is_taken_in_both_revisions() -> None:
    async def test() -> None:
        async with serving(scripted(TOKEN, 600.0)) as served:
            first = served.open()
            await first.read()
            for revision in BOTH:
                client = type(served.client)(served.channel, revision)
                outcome = await client.outcome("Generate", served.request())
                assert outcome.code is grpc.StatusCode.ALREADY_EXISTS
            first.cancel()
            await until(lambda: served.server.registry.in_flight == 0)
            served.engine.script = lambda request: tokens(1)
            assert (await served.generate()).ok

    run(test)


@pytest.mark.parametrize("how", ["cancel", "deadline"])
@pytest.mark.parametrize("when", ["waiting", "accepting", "writing"])
def test_a_client_that_leaves_stops_the_engines_work(how: str, when: str) -> None:
    async def test() -> None:
        engine = scripted(TOKEN, 600.0)
        if when == "writing":
            engine.script = lambda request: iter(lambda: TokenEvent(0, (1,), "x" * 10_000), None)
        if when == "accepting":
            engine.accept_gate = asyncio.Event()
        async with serving(engine) as served:
            timeout = 0.5 if how == "deadline" else None
            call = served.client.stream("Generate", served.request(), timeout=timeout)
            await until(lambda: served.server.registry.in_flight == 1)
            if when != "accepting":
                await call.read()
            if how == "cancel":
                call.cancel()
            await until(lambda: len(served.server.registry) == 0)
            assert served.server.registry.in_flight == 0
            assert not engine.open
            assert engine.closed == (0 if when == "accepting" else 1)
            assert await call.code() in (
                grpc.StatusCode.CANCELLED,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )
            engine.script, engine.accept_gate = (lambda request: tokens(1)), None
            assert (await served.generate()).ok

    run(test)


@revisions
def test_a_prefill_server_answers_with_a_session_and_nothing_else(revision: Revision) -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(Role.PREFILL), revision) as served:
            outcome = await served.generate()
            assert kinds(outcome) == ["prefill_ready"]
            (message,) = outcome.messages
            assert message.prefill_ready.kv_session.session_id
            assert message.usage.prompt_tokens == 16
            assert served.engine.accepted[0].prefill_only
            served.engine.script = lambda request: [TOKEN, END]
            assert kinds(await served.generate("r2")) == ["error"]
            served.engine.script = lambda request: [EngineFault("kv_transfer_failed", "no")]
            assert kinds(await served.generate("r3")) == ["error"]

    run(test)


@revisions
def test_roles_are_checked_before_acceptance(revision: Revision) -> None:
    async def test() -> None:
        session = {"session_id": "s"}
        cases: list[tuple[Role, dict[str, Any]]] = [
            (Role.AGGREGATED, {"kv": {"session": session}}),
            (Role.PREFILL, {"kv": {"session": session}}),
            (Role.DECODE, {}),
        ]
        for role, changes in cases:
            async with serving(ScriptedEngine(role), revision) as served:
                outcome = await served.generate(**changes)
                assert outcome.code is grpc.StatusCode.FAILED_PRECONDITION, role
                assert outcome.messages == ()
                assert served.engine.accepted == []

    run(test)


def test_trace_context_goes_on_to_the_engine() -> None:
    async def test() -> None:
        parent = f"00-{'a' * 32}-{'b' * 16}-01"
        async with serving() as served:
            metadata = (("traceparent", parent), ("tracestate", "x=1"), ("other", "1"))
            await served.client.outcome("Generate", served.request(), metadata=metadata)
            assert served.engine.accepted[0].trace == {"traceparent": parent, "tracestate": "x=1"}

    run(test)
