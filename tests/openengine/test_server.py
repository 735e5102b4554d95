"""The server as a whole: its states, its limits, and many streams at once."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import (  # type: ignore[import-untyped, unused-ignore]
    health_pb2,
    health_pb2_grpc,
)

from inferlab_adapters.openengine.engine import FinishedEvent, TokenEvent
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from inferlab_adapters.openengine.server import Server
from tests.openengine.scripted import ScriptedEngine, tokens
from tests.openengine.serving import BOTH, Served, kinds, read_all, run, serving, stalled, until

TOKEN = TokenEvent(0, (66,), "a")
revisions = pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)


async def health(served: Served, service: str = "") -> str:
    stub = health_pb2_grpc.HealthStub(served.channel)
    reply = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))


async def serves(served: Served, wanted: str) -> None:
    async with asyncio.timeout(10):
        while await health(served) != wanted:
            await asyncio.sleep(0.01)


async def state(served: Served) -> str:
    reply = await served.client.call("Health")
    return str(served.client.revision.enum("HealthState").Name(reply.state))[13:]


def test_both_revisions_health_and_reflection_share_a_port() -> None:
    async def test() -> None:
        async with serving() as served:
            for revision in BOTH:
                client = type(served.client)(served.channel, revision)
                outcome = await client.outcome("Generate", served.request(revision.name))
                assert kinds(outcome) == ["token", "token", "finished"]
                for service in revision.services:
                    assert await health(served, service) == "SERVING"

    run(test)


@revisions
def test_while_the_engine_loads(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        engine.ready = False
        async with serving(engine, revision) as served:
            assert await state(served) == "STARTING"
            assert await health(served) == "NOT_SERVING"
            calls: list[tuple[str, Any]] = [
                ("Generate", served.request()),
                ("GetModelInfo", {"model": "scripted"}),
                ("ListLoras", {}),
                ("SubscribeKvEvents", {}),
            ]
            for method, request in calls:
                outcome = await served.client.outcome(method, request)
                assert outcome.code is grpc.StatusCode.UNAVAILABLE, method
                assert outcome.messages == ()
            engine.ready = True
            assert (await served.generate()).ok, "nobody has to ask twice"
            await serves(served, "SERVING")
            assert await state(served) == "READY"

    run(test)


@revisions
def test_what_a_supervisor_says(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            await serves(served, "SERVING")
            served.server.set_state("not_ready", "the engine died")
            await serves(served, "NOT_SERVING")
            assert await state(served) == "NOT_READY"
            outcome = await served.generate()
            assert outcome.code is grpc.StatusCode.UNAVAILABLE
            assert "the engine died" in outcome.details
            served.server.set_state("starting")
            assert await state(served) == "STARTING"
            served.server.set_state("degraded", "slow")
            await serves(served, "SERVING")
            assert await state(served) == "DEGRADED"
            served.server.set_state("ready")
            assert await state(served) == "READY"
            assert (await served.generate()).ok
            served.server.set_state("draining", "stopped")
            await serves(served, "NOT_SERVING")
            assert await state(served) == ("DRAINING" if revision is SEED else "NOT_READY")
            assert (await served.generate("r2")).code is grpc.StatusCode.UNAVAILABLE
            served.server.set_state("not_ready", "gone")
            assert await state(served) == "NOT_READY"

    run(test)


def test_a_slow_reader_is_waited_for() -> None:
    async def test() -> None:
        event = TokenEvent(0, (66,), "x" * 10_000)
        count = 20_000
        engine = ScriptedEngine(
            script=lambda request: [*itertools.repeat(event, count), FinishedEvent(0, "length")]
        )
        async with serving(engine) as served:
            call = served.open()
            await call.read()
            assert await stalled(engine) * 10_000 < 32 << 20
            call.cancel()
            await until(lambda: not engine.open)
            assert engine.pulled < count

    run(test)


def test_a_thousand_streams_at_once() -> None:
    async def test() -> None:
        gate = asyncio.Event()
        engine = ScriptedEngine(script=lambda request: [TOKEN, gate, *tokens(2)])
        async with serving(engine) as served:
            names = [f"r{i}" for i in range(1000)]
            running = [asyncio.create_task(served.generate(name)) for name in names]
            await until(lambda: len(engine.open) == 1000)
            assert served.server.registry.in_flight == 1000
            gate.set()
            outcomes = await asyncio.gather(*running)
            for name, outcome in zip(names, outcomes, strict=True):
                assert outcome.ok
                assert {m.request_id for m in outcome.messages} == {name}
                assert kinds(outcome) == ["token", "token", "token", "finished"]
            assert len(served.server.registry) == 0

    run(test)


def test_a_client_that_vanishes_takes_its_work_along() -> None:
    async def test() -> None:
        engine = ScriptedEngine(script=lambda request: [TOKEN, 600.0])
        async with serving(engine) as served:
            call = served.open()
            await call.read()
            await served.channel.close()
            await until(lambda: not engine.open and not len(served.server.registry))

    run(test)


@revisions
def test_stop_ends_streams_with_an_error(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine(script=lambda request: [TOKEN, 600.0])
        async with serving(engine, revision) as served:
            running = asyncio.create_task(served.generate())
            await until(lambda: engine.pulled == 2)
            await served.server.stop(0.05)
            outcome = await running
            assert outcome.ok
            assert kinds(outcome) == ["token", "error"]
            assert not engine.open

    run(test)


def test_stop_lets_streams_finish() -> None:
    async def test() -> None:
        gate = asyncio.Event()
        engine = ScriptedEngine(script=lambda request: [TOKEN, gate, *tokens(1)])
        async with serving(engine) as served:
            running = asyncio.create_task(served.generate())
            await until(lambda: engine.pulled == 2)
            stopping = asyncio.create_task(served.server.stop(20))
            await until(lambda: served.server._state.draining)
            gate.set()
            await stopping
            assert kinds(await running) == ["token", "token", "finished"]

    run(test)


def test_a_port_is_not_shared() -> None:
    async def test() -> None:
        async with serving() as served:
            other = Server(ScriptedEngine(), listen=f"127.0.0.1:{served.port}")
            with pytest.raises(RuntimeError):
                await other.start()
            await other.stop(0)

    run(test)


def test_unknown_methods_and_unset_enums() -> None:
    async def test() -> None:
        async with serving() as served:
            call: Any = served.channel.unary_unary("/openengine.v1.OpenEngine/Nothing")
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            other = type(served.client)(served.channel, V0_1_0)
            with pytest.raises(KeyError):
                other.call("Drain")

    run(test)


def test_aborts_of_everything_while_streams_come_and_go() -> None:
    async def test() -> None:
        engine = ScriptedEngine(script=lambda request: [TOKEN, 0.001, *tokens(3)])
        async with serving(engine) as served:
            running = [asyncio.create_task(served.generate(f"r{i}")) for i in range(100)]
            for _ in range(10):
                assert (await served.abort(all_requests={})).ok
            for outcome in await asyncio.gather(*running):
                if outcome.ok:
                    assert kinds(outcome).count("finished") == 1
                    assert kinds(outcome)[-1] == "finished"
                else:
                    assert outcome.code is grpc.StatusCode.CANCELLED
                    assert outcome.messages == ()
            call = served.open("last")
            assert len(await read_all(call)) == 5

    run(test)
