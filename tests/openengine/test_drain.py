"""Drain in all its forms."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine import drain
from inferlab_adapters.openengine.engine import EngineFault, KvSession, Role, TokenEvent
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from tests.openengine.scripted import ScriptedEngine, tokens
from tests.openengine.serving import BOTH, Served, kinds, read_all, run, serving, stalled, until

TOKEN = TokenEvent(0, (66,), "a")


def names(messages: Any) -> list[str]:
    values = SEED.enum("DrainState")
    return [
        values.Name(m.state).removeprefix("DRAIN_STATE_") if m.HasField("state") else "error"
        for m in messages
    ]


async def drained(served: Served, **request: Any) -> Any:
    outcome = await served.client.outcome("Drain", request)
    assert outcome.ok
    return outcome.messages


def test_an_idle_server_is_drained_at_once() -> None:
    async def test() -> None:
        async with serving() as served:
            messages = await drained(served)
            assert names(messages) == ["STARTED", "COMPLETE"]
            assert all(m.HasField("in_flight_requests") for m in messages)
            assert messages[-1].in_flight_requests == messages[-1].open_kv_sessions == 0
            assert (await served.generate()).ok, "nobody asked to refuse new requests"
            await drained(served, stop_accepting_new_requests=True, deadline_ms=0)
            outcome = await served.generate("r2")
            assert outcome.code is grpc.StatusCode.UNAVAILABLE
            assert outcome.messages == ()
            health = await served.client.call("Health")
            assert SEED.enum("HealthState").Name(health.state) == "HEALTH_STATE_DRAINING"
            other = type(served.client)(served.channel, V0_1_0)
            health = await other.call("Health")
            assert V0_1_0.enum("HealthState").Name(health.state) == "HEALTH_STATE_NOT_READY"

    run(test)


def test_running_requests_finish_and_new_ones_are_refused() -> None:
    async def test() -> None:
        gate = asyncio.Event()
        engine = ScriptedEngine(script=lambda request: [TOKEN, gate, *tokens(1)])
        async with serving(engine) as served:
            first, second = served.open("r1"), served.open("r2")
            await first.read()
            await second.read()
            call = served.client.stream("Drain", {"stop_accepting_new_requests": True})
            message: Any = await call.read()
            assert names([message]) == ["STARTED"]
            assert message.in_flight_requests == 2
            assert (await served.generate("r3")).code is grpc.StatusCode.UNAVAILABLE
            second.cancel()
            message = await call.read()
            assert names([message]) == ["IN_PROGRESS"]
            assert message.in_flight_requests == 1
            gate.set()
            rest = await read_all(first)
            assert [m.WhichOneof("event") for m in rest] == ["token", "finished"]
            last = await read_all(call)
            assert names(last)[-1] == "COMPLETE"
            assert last[-1].in_flight_requests == 0

    run(test)


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
@pytest.mark.parametrize("deadline_ms", [0, 50])
def test_the_deadline_ends_what_runs(revision: Revision, deadline_ms: int) -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(script=lambda request: [TOKEN, 600.0])) as served:
            client = type(served.client)(served.channel, revision)
            running = asyncio.create_task(client.outcome("Generate", served.request()))
            await until(lambda: served.engine.pulled == 2)
            messages = await drained(served, deadline_ms=deadline_ms, abort_after_deadline=True)
            assert names(messages)[0] == "STARTED"
            assert names(messages)[-1] == "COMPLETE"
            outcome = await running
            assert kinds(outcome) == ["token", "error"]
            name = revision.enum("ErrorCode").Name(outcome.messages[-1].error.code)
            assert name == f"ERROR_CODE_{'DRAINING' if revision is SEED else 'CANCELLED'}"
            assert outcome.messages[-1].error.retryable
            assert outcome.messages[-1].HasField("usage")
            assert not served.engine.open

    run(test)


def test_a_deadline_that_ends_nothing_is_an_error() -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(script=lambda request: [TOKEN, 600.0])) as served:
            call = served.open()
            await call.read()
            messages = await drained(served, deadline_ms=1)
            assert names(messages) == ["STARTED", "error"]
            error = messages[-1].error
            assert SEED.enum("ErrorCode").Name(error.code) == "ERROR_CODE_DRAINING"
            assert error.retryable
            assert messages[-1].in_flight_requests == 1
            assert len(served.engine.open) == 1
            call.cancel()

    run(test)


def test_streams_that_nobody_reads_do_not_hold_a_drain_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        monkeypatch.setattr(drain, "LAST_WORDS_SECONDS", 0.05)
        big = TokenEvent(0, (66,), "x" * 100_000)
        engine = ScriptedEngine(script=lambda request: iter(lambda: big, None))
        async with serving(engine) as served:
            call = served.open()
            await stalled(engine)
            messages = await drained(served, deadline_ms=0, abort_after_deadline=True)
            assert names(messages)[-1] == "COMPLETE"
            assert len(served.server.registry) == 0
            assert not engine.open
            kinds_left = [m.WhichOneof("event") for m in await read_all(call)]
            assert kinds_left.count("error") == 1
            assert kinds_left[-1] == "error"

    run(test)


@pytest.mark.parametrize("abort", [True, False])
def test_open_sessions_are_waited_for_or_freed(abort: bool) -> None:
    async def test() -> None:
        engine = ScriptedEngine(Role.PREFILL)
        async with serving(engine) as served:
            await served.generate("r1")
            await served.generate("r2")
            engine.sessions.pop(next(iter(engine.sessions)))
            if abort:
                messages = await drained(served, deadline_ms=0, abort_after_deadline=True)
                assert engine.sessions == {}
            else:
                call = served.client.stream("Drain")
                message: Any = await call.read()
                assert message.open_kv_sessions == 1
                engine.sessions.clear()
                messages = [message, *(await read_all(call))]
            assert names(messages)[-1] == "COMPLETE"
            assert messages[-1].open_kv_sessions == 0

    run(test)


def test_sessions_that_cannot_be_counted_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        engine = ScriptedEngine(Role.PREFILL)

        async def unknown() -> None:
            raise EngineFault("unimplemented", "cannot tell")

        monkeypatch.setattr(engine, "open_sessions", unknown)
        async with serving(engine) as served:
            messages = await drained(served)
            assert names(messages) == ["STARTED", "COMPLETE"]
            assert not any(m.HasField("open_kv_sessions") for m in messages)

    run(test)


def test_a_failure_of_the_drain_is_an_error_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        engine = ScriptedEngine(script=lambda request: [TOKEN, 600.0])
        async with serving(engine) as served:
            call = served.open()
            await call.read()
            stream = served.client.stream("Drain")
            await stream.read()

            async def broken() -> int:
                raise RuntimeError("a bug")

            monkeypatch.setattr(engine, "open_sessions", broken)
            assert names(await read_all(stream)) == ["error"]
            assert await stream.code() is grpc.StatusCode.OK
            call.cancel()

    run(test)


def test_a_drain_whose_client_leaves_goes_on_refusing() -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(script=lambda request: [TOKEN, 600.0])) as served:
            call = served.open()
            await call.read()
            stream = served.client.stream("Drain", {"stop_accepting_new_requests": True})
            await stream.read()
            stream.cancel()
            assert (await served.generate("r2")).code is grpc.StatusCode.UNAVAILABLE
            await until(lambda: not served.server.registry.listeners)
            call.cancel()

    run(test)


def test_sessions_that_cannot_be_freed_end_a_drain_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        monkeypatch.setattr(drain, "LAST_WORDS_SECONDS", 0.05)
        engine = ScriptedEngine(Role.PREFILL)

        async def refuse(session: KvSession) -> None:
            raise EngineFault("unimplemented", "cannot")

        monkeypatch.setattr(engine, "abort_session", refuse)
        async with serving(engine) as served:
            session = (await served.generate()).messages[0].prefill_ready.kv_session
            outcome = await served.abort(kv_session=session)
            assert outcome.code is grpc.StatusCode.UNIMPLEMENTED
            messages = await drained(served, deadline_ms=0, abort_after_deadline=True)
            assert names(messages)[-1] == "error"
            assert messages[-1].open_kv_sessions == 1

    run(test)
