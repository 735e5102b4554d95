"""What is told about the engine, its models, its load and its health."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine import health
from inferlab_adapters.openengine.engine import (
    Check,
    EngineFacts,
    KvEventSource,
    Load,
    ModelFacts,
    Parallelism,
    Role,
)
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from tests.openengine.scripted import FACTS, MODEL, ScriptedEngine
from tests.openengine.serving import BOTH, Served, run, serving

revisions = pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
UNKNOWN = EngineFacts(
    engine_name="e", engine_version="1", models=(ModelFacts(model_id="m", served_name="m"),)
)


async def info(served: Served, revision: Revision) -> Any:
    return await served.client.call("GetEngineInfo" if revision is SEED else "GetServerInfo")


async def state_of(served: Served, revision: Revision, **request: Any) -> str:
    reply = await served.client.call("Health", request)
    name = revision.enum("HealthState").Name(reply.state)
    return str(name.removeprefix("HEALTH_STATE_"))


@revisions
def test_identity_and_release(revision: Revision) -> None:
    async def test() -> None:
        for role in Role:
            async with serving(ScriptedEngine(role), revision) as served:
                reply = await info(served, revision)
                assert (reply.schema_revision, reply.minimum_client_revision) == (1, 1)
                assert reply.schema_release == revision.schema_release
                assert len(reply.schema_release) == (40 if revision is SEED else 32)
                assert (reply.engine_name, reply.instance_id) == ("scripted", "test-0")
                assert list(reply.supported_models) == [MODEL]
                told = reply.role if revision is SEED else reply.engine_role
                assert revision.enum("EngineRole").Name(told).endswith(role.name)
                assert reply.kv_connector.HasField("enabled")
                assert reply.kv_connector.enabled is (role is not Role.AGGREGATED)
                if revision is SEED:
                    alone = await served.client.call("GetKvConnectorInfo")
                    assert alone == reply.kv_connector
                for model in reply.supported_models:
                    assert (await served.client.call("GetModelInfo", {"model": model})).model_id

    run(test)


@revisions
def test_what_is_unknown_is_absent_and_what_is_zero_is_there(revision: Revision) -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(facts=UNKNOWN), revision) as served:
            reply = await info(served, revision)
            assert not reply.parallelism.ListFields()
            model = await served.client.call("GetModelInfo", {"model": "m"})
            absent = ["max_context_length", "max_output_tokens"]
            capacity = ["kv_block_size", "total_kv_blocks", "max_running_requests"]
            assert not any(model.HasField(name) for name in absent)
            where = model if revision is SEED else reply.capacity
            assert not any(where.HasField(name) for name in capacity)
            assert model.generation.prompt_logprobs.HasField("supported")
            assert not model.generation.prompt_logprobs.supported
            assert not model.generation.HasField("max_num_sequences")
            assert model.generation.guided_decoding.HasField("supported")
            assert model.HasField("supports_lora")
        facts = replace(FACTS, parallelism=Parallelism(data_rank=0, decode_context=1))
        async with serving(ScriptedEngine(facts=facts), revision) as served:
            reply = await info(served, revision)
            assert reply.parallelism.HasField("data_parallel_rank")
            if revision is V0_1_0:
                assert reply.parallelism.decode_context_parallel_size == 1
                assert reply.capacity.max_loras == 2

    run(test)


@revisions
def test_models_are_asked_for_by_name(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            outcome = await served.client.outcome("GetModelInfo", {})
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            outcome = await served.client.outcome("GetModelInfo", {"model": "nobody"})
            assert outcome.code is grpc.StatusCode.NOT_FOUND
            reply = await served.client.call("GetModelInfo", {"model": "scripted-alias"})
            assert reply.served_model_name == MODEL
            assert reply.generation.output_logprobs.max_top_n == 20
            assert list(reply.generation.guided_decoding.modes) == [1, 2, 5, 6]

    run(test)


@revisions
def test_load(revision: Revision, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        engine = ScriptedEngine(script=lambda request: [600.0])
        async with serving(engine, revision) as served:
            reply = await served.client.call("GetLoad")
            assert reply.instance_id == (await info(served, revision)).instance_id
            assert reply.HasField("running_requests")
            assert reply.running_requests == 0
            assert not reply.HasField("running_tokens")
            assert not reply.ranks
            call = served.open()
            while not engine.open:
                await asyncio.sleep(0.005)
            reply = await served.client.call("GetLoad", {"include_per_rank": True})
            assert reply.running_requests == 1
            assert reply.ranks[0].HasField("data_parallel_rank")
            call.cancel()

            async def load(per_rank: bool) -> Load:
                return Load(attributes={"a.b": 2.5, "c.d": "x"})

            monkeypatch.setattr(engine, "load", load)
            reply = await served.client.call("GetLoad")
            assert not reply.HasField("running_requests")
            if revision is SEED:
                assert dict(reply.attributes) == {"a.b": "2.5", "c.d": "x"}
            else:
                assert reply.attributes.fields["a.b"].number_value == 2.5

    run(test)


@revisions
def test_health_is_the_worst_check(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        async with serving(engine, revision) as served:
            assert await state_of(served, revision) == "READY"
            assert engine.accepted == []
            reply = await served.client.call("Health", {"include_inference_probe": True})
            assert "inference_probe" in [check.name for check in reply.checks]
            assert await state_of(served, revision, model=MODEL, role=1) == "READY"
            assert await state_of(served, revision, model="nobody") == "NOT_READY"
            assert await state_of(served, revision, role=2) == "NOT_READY"
            assert await state_of(served, revision, role=99) == "READY"
            engine.health = (Check(name="a", state="ready"), Check(name="b", state="degraded"))
            assert await state_of(served, revision) == "DEGRADED"
            engine.health = (*engine.health, Check(name="c", state="not_ready", message="why"))
            assert await state_of(served, revision) == "NOT_READY"

    run(test)


def test_checks_that_fail_or_hang_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(health, "CHECK_SECONDS", 0.02)
        engine = ScriptedEngine()

        async def broken(probe: bool) -> Sequence[Check]:
            raise RuntimeError("a bug")

        async def hanging(probe: bool) -> Sequence[Check]:
            await asyncio.sleep(600)
            return ()

        async def given_up(per_rank: bool) -> Load:
            raise asyncio.CancelledError

        async with serving(engine) as served:
            for checks in (broken, hanging):
                monkeypatch.setattr(engine, "checks", checks)
                assert await state_of(served, SEED) == "NOT_READY"
            monkeypatch.setattr(engine, "load", given_up)
            outcome = await served.client.outcome("GetLoad", {})
            assert outcome.code is grpc.StatusCode.INTERNAL

    run(test)


def test_event_sources_that_nobody_can_reach_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        (source,) = await engine.kv_event_sources()
        wildcard = replace(source, endpoint=replace(source.endpoint, host="0.0.0.0"))

        async def sources() -> Sequence[KvEventSource]:
            return (wildcard, source)

        monkeypatch.setattr(engine, "kv_event_sources", sources)
        async with serving(engine) as served:
            reply = await served.client.call("GetKvEventSources")
            assert [s.endpoint_addr.host for s in reply.sources] == ["127.0.0.1"]

    run(test)
