"""SubscribeKvEvents and where the engine publishes them itself."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest

from inferlab_adapters.openengine.engine import (
    BlockHash,
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    EngineFault,
    KvBatch,
)
from inferlab_adapters.openengine.revisions import Revision
from tests.openengine.scripted import FACTS, ScriptedEngine
from tests.openengine.serving import BOTH, run, serving, until

revisions = pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
HASH = BlockHash(b"\1" * 8, "int64")
STORED = BlocksStored(
    (HASH, BlockHash(b"x", "string")),
    HASH,
    (1, 2),
    2,
    lora_id=3,
    lora_name="l",
    medium="cpu_pinned",
    extra_keys=(("a", "b"), ()),
    group=4,
    spec_kind="full",
    sliding_window=5,
)
EVENTS = (STORED, BlocksRemoved((HASH,), "disk", 6), BlocksCleared())


@revisions
def test_batches_keep_all_that_they_have(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        engine.publish(KvBatch(7, 123, 0, EVENTS))
        async with serving(engine, revision) as served:
            call: Any = served.client.stream("SubscribeKvEvents", {"include_snapshot": True})
            batch = (await call.read()).batch
            assert (batch.sequence_number, batch.timestamp_unix_nanos) == (7, 123)
            stored, removed, cleared = batch.events
            block = stored.block_stored
            assert [h.value for h in block.block_hashes] == [HASH.value, b"x"]
            assert block.parent_block_hash.encoding == "int64"
            assert (list(block.token_ids), block.block_size) == ([1, 2], 2)
            assert (block.lora_id, block.lora_name, block.medium) == (3, "l", 2)
            assert [list(k.values) for k in block.extra_keys] == [["a", "b"], []]
            assert (block.group_idx, block.kv_cache_spec_kind) == (4, "full")
            assert block.kv_cache_spec_sliding_window == 5
            assert (removed.block_removed.medium, removed.block_removed.group_idx) == (3, 6)
            assert cleared.WhichOneof("event") == "all_blocks_cleared"
            call.cancel()

    run(test)


def test_prompts_become_events_and_can_be_replayed() -> None:
    async def test() -> None:
        async with serving() as served:
            for name in ("a", "b"):
                assert (await served.generate(name, prompt=name * 40)).ok
            call: Any = served.client.stream("SubscribeKvEvents", {"start_sequence_number": 2})
            numbers = [(await call.read()).batch.sequence_number for _ in range(3)]
            assert numbers == [2, 3, 4]
            call.cancel()

    run(test)


@revisions
def test_a_failure_is_the_last_event(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        async with serving(engine, revision) as served:
            call: Any = served.client.stream("SubscribeKvEvents", {"start_sequence_number": 1})
            engine.publish(KvBatch(1, 1, 0, ()))
            assert (await call.read()).HasField("batch")
            engine.fail_kv_events(EngineFault("overloaded", "too slow", retryable=True))
            error = (await call.read()).error
            assert (error.message, error.retryable) == ("too slow", True)
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK

    run(test)


def test_sequences_that_begin_again_end_the_subscription() -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        for number in (3, 4, 4):
            engine.publish(KvBatch(number, 1, 0, ()))
        async with serving(engine) as served:
            call: Any = served.client.stream("SubscribeKvEvents", {"include_snapshot": True})
            messages = [m async for m in call]
            assert [m.WhichOneof("event") for m in messages] == ["batch", "batch", "error"]
            assert messages[-1].error.retryable

    run(test)


def test_an_engine_without_events_refuses() -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        engine.kv_fault = EngineFault("unimplemented", "no events")
        async with serving(engine) as served:
            outcome = await served.client.outcome("SubscribeKvEvents", {})
            assert outcome.code is grpc.StatusCode.UNIMPLEMENTED
            assert outcome.messages == ()

    run(test)


def test_ranks_are_filtered_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        asked: list[Any] = []

        async def unfiltered(ranks: Any, *, start: int, snapshot: bool) -> Any:
            asked.append((ranks, start, snapshot))
            for number, rank in enumerate((1, 0, 1, 0)):
                yield KvBatch(number, 1, rank, ())

        monkeypatch.setattr(engine, "kv_events", unfiltered)
        async with serving(engine) as served:
            outcome = await served.client.outcome("SubscribeKvEvents", {"data_parallel_ranks": [0]})
            ranks = [m.batch.data_parallel_rank for m in outcome.messages if m.HasField("batch")]
            assert ranks == [0, 0]
            assert outcome.messages[-1].HasField("error"), "events do not just end"
            assert asked == [((0,), 0, False)]
            for method in ("SubscribeKvEvents", "GetKvEventSources"):
                outcome = await served.client.outcome(method, {"data_parallel_ranks": [1]})
                assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            for given, count in (([0], 1), ([], 1)):
                reply = await served.client.call(
                    "GetKvEventSources", {"data_parallel_ranks": given}
                )
                assert len(reply.sources) == count
            assert reply.sources[0].HasField("data_parallel_rank")
            assert FACTS.parallelism.data == 1

    run(test)


def test_a_client_that_leaves_ends_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        state = {"open": 0, "made": 0}
        big = BlocksStored((HASH,), None, (), 1, lora_name="x" * 100_000)

        async def endless(ranks: Any, *, start: int, snapshot: bool) -> Any:
            state["open"] += 1
            try:
                while True:
                    state["made"] += 1
                    yield KvBatch(state["made"], 1, 0, (big,))
            finally:
                state["open"] -= 1

        monkeypatch.setattr(engine, "kv_events", endless)
        async with serving(engine) as served:
            call: Any = served.client.stream("SubscribeKvEvents")
            await call.read()
            for _ in range(50):
                assert (await served.client.outcome("Health")).ok
            assert state["made"] < 1000, "a slow reader is waited for"
            call.cancel()
            await until(lambda: state["open"] == 0)

    run(test)
