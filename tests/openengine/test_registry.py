"""Abort: every target, every moment, and one ending whoever is first."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from inferlab_adapters.openengine import registry
from inferlab_adapters.openengine.engine import EngineFault, FinishedEvent, Role, TokenEvent
from inferlab_adapters.openengine.registry import Registry
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from tests.openengine.scripted import ScriptedEngine, tokens
from tests.openengine.serving import BOTH, kinds, read_all, run, serving, stalled, until

TOKEN = TokenEvent(0, (66,), "a")
ABORTED, ALREADY_FINISHED = 1, 2


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
def test_an_aborted_request_ends_every_output_once(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine(
            script=lambda request: [TOKEN, FinishedEvent(1, "length"), 600.0],
        )
        async with serving(engine, revision) as served:
            call = served.open(sampling={"num_sequences": 3})
            await call.read()
            await call.read()
            reply = (await served.abort(request_id="r1")).messages[0]
            assert reply.status == ABORTED
            assert not engine.open, "the work has ended when Abort answers"
            rest = await read_all(call)
            assert [m.finished.output_index for m in rest] == [0, 2]
            assert {m.finished.reason for m in rest} == {3}
            assert [m.HasField("usage") for m in rest] == [False, True]
            assert await call.code() is grpc.StatusCode.OK
            for _ in range(2):
                reply = (await served.abort(request_id="r1")).messages[0]
                assert reply.status == ALREADY_FINISHED
            engine.script = lambda request: tokens(1)
            assert (await served.generate()).ok

    run(test)


def test_targets_that_are_not_there() -> None:
    async def test() -> None:
        async with serving() as served:
            assert (await served.abort()).code is grpc.StatusCode.INVALID_ARGUMENT
            outcome = await served.abort(request_id="")
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            outcome = await served.abort(request_id="nobody")
            assert outcome.code is grpc.StatusCode.NOT_FOUND
            outcome = await served.abort(kv_session={"session_id": "nobody"})
            assert outcome.code is grpc.StatusCode.NOT_FOUND
            outcome = await served.abort(kv_session={})
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert (await served.abort(all_requests={})).ok

    run(test)


def test_all_requests_end_at_once() -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(script=lambda request: [TOKEN, 600.0])) as served:
            calls = [served.open(f"r{i}") for i in range(3)]
            for call in calls:
                await call.read()
            reply = (await served.abort(all_requests={})).messages[0]
            assert reply.status == ABORTED
            for call in calls:
                assert [m.finished.reason for m in await read_all(call)] == [3]
            assert served.engine.closed == 3

    run(test)


def test_a_request_that_the_engine_has_not_taken_yet_ends_with_a_status() -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        engine.accept_gate = asyncio.Event()
        async with serving(engine) as served:
            running = asyncio.create_task(served.generate())
            await until(lambda: served.server.registry.in_flight == 1)
            assert (await served.abort(request_id="r1")).messages[0].status == ABORTED
            outcome = await running
            assert outcome.code is grpc.StatusCode.CANCELLED
            assert outcome.messages == ()
            reply = (await served.abort(request_id="r1")).messages[0]
            assert reply.status == ALREADY_FINISHED

    run(test)


def test_an_abort_does_not_wait_for_a_client_that_does_not_read() -> None:
    async def test() -> None:
        big = TokenEvent(0, (66,), "x" * 100_000)
        engine = ScriptedEngine(script=lambda request: iter(lambda: big, None))
        async with serving(engine) as served:
            call = served.open()
            await stalled(engine)
            assert (await served.abort(request_id="r1")).messages[0].status == ABORTED
            assert not engine.open
            assert served.server.registry.in_flight == 0
            messages = await read_all(call)
            ends = [m for m in messages if m.WhichOneof("event") != "token"]
            assert [m.finished.reason for m in ends] == [3]
            assert messages[-1] is ends[0]

    run(test)


def test_aborts_that_race_with_the_end_give_one_ending_each() -> None:
    async def test() -> None:
        engine = ScriptedEngine(script=lambda request: [TOKEN, 0.0, TOKEN, 0.001, *tokens(2)])
        async with serving(engine) as served:
            other = type(served.client)(served.channel, V0_1_0)
            said = {ABORTED: 0, ALREADY_FINISHED: 0}

            async def race(number: int) -> None:
                name = f"r{number}"
                running = asyncio.create_task(served.generate(name))
                await asyncio.sleep(0.0002 * (number % 40))
                reply = await other.outcome("Abort", {"request_id": name})
                outcome = await running
                if outcome.code is grpc.StatusCode.CANCELLED:
                    assert outcome.messages == ()
                    return
                assert outcome.ok
                assert kinds(outcome).count("finished") == 1
                assert kinds(outcome)[-1] == "finished"
                assert "error" not in kinds(outcome)
                assert outcome.messages[-1].HasField("usage")
                cancelled = outcome.messages[-1].finished.reason == 3
                if reply.ok:
                    said[reply.messages[0].status] += 1
                    assert cancelled is (reply.messages[0].status == ABORTED)
                else:
                    assert reply.code is grpc.StatusCode.NOT_FOUND
                    assert not cancelled

            for start in range(0, 200, 20):
                await asyncio.gather(*(race(start + i) for i in range(20)))
            assert sum(said.values()) > 20
            assert len(served.server.registry) == 0
            assert not engine.open

    run(test)


def test_an_aborted_prefill_ends_with_an_error() -> None:
    async def test() -> None:
        engine = ScriptedEngine(Role.PREFILL, script=lambda request: [600.0])
        async with serving(engine) as served:
            running = asyncio.create_task(served.generate())
            await until(lambda: len(engine.open) == 1)
            assert (await served.abort(request_id="r1")).messages[0].status == ABORTED
            outcome = await running
            assert kinds(outcome) == ["error"]
            assert SEED.enum("ErrorCode").Name(outcome.messages[0].error.code).endswith("CANCELLED")

    run(test)


def test_an_engine_that_does_not_let_go_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(registry, "CLOSING_SECONDS", 0.05)
        engine = ScriptedEngine(script=lambda request: [TOKEN, 600.0])
        async with serving(engine) as served:
            call = served.open()
            await call.read()
            (generation,) = engine.open
            gate = asyncio.Event()
            monkeypatch.setattr(generation, "close", gate.wait)
            assert (await served.abort(request_id="r1")).ok
            assert [m.finished.reason for m in await read_all(call)] == [3]
            gate.set()

    run(test)


def test_finished_ids_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(registry, "REMEMBERED_IDS", 2)
        known = Registry()
        for name in "abc":
            entry = known.open(name)
            with pytest.raises(EngineFault, match="in flight"):
                known.open(name)
            known.leave(entry)
        assert [known.finished(name) for name in "abc"] == [False, True, True]
        monkeypatch.setattr(registry, "REMEMBERED_SECONDS", -1.0)
        known.leave(known.open("d"))
        assert not known.finished("d")
        assert len(known) == known.in_flight == 0

    run(test)
