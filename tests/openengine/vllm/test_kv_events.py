"""KV events from a publisher like vLLM's: live, replayed, mended, and as a snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from inferlab_adapters.openengine.engine import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    Engine,
    KvBatch,
)
from tests.openengine.vllm.asked import backend, fault
from tests.openengine.vllm.fake_server import Json, run


def stored(*hashes: int | bytes, parent: int | None = None, **more: Any) -> Json:
    return {
        "type": "BlockStored",
        "block_hashes": list(hashes),
        "parent_block_hash": parent,
        "token_ids": list(range(2 * len(hashes))),
        "block_size": 2,
        "lora_id": 4,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [[f"k{i}", ["mm", 3]] for i in range(len(hashes))],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
        **more,
    }


def removed(*hashes: int) -> Json:
    return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU", "group_idx": 0}


CLEARED: Json = {"type": "AllBlocksCleared"}


class Publisher:
    """vLLM's publisher of one rank; ``buffer`` is what it replays."""

    def __init__(self, context: zmq.asyncio.Context, rank: int = 0) -> None:
        self._live = context.socket(zmq.XPUB)
        self._replay = context.socket(zmq.ROUTER)
        self.port = self._live.bind_to_random_port("tcp://127.0.0.1")
        self.replay_port = self._replay.bind_to_random_port("tcp://127.0.0.1")
        self.rank = rank
        self.buffer: list[tuple[int, bytes]] = []
        self.next = 0

    def config(self, replay: bool = True) -> Json:
        return {
            "publisher": "zmq",
            "endpoint": f"tcp://*:{self.port}",
            "replay_endpoint": f"tcp://*:{self.replay_port}" if replay else None,
            "topic": "kv",
            "buffer_steps": 10,
        }

    async def subscribed(self) -> None:
        await self._live.recv()

    async def publish(self, *events: Json, lose: bool = False) -> None:
        payload = msgspec.msgpack.encode([1.5, list(events), self.rank])
        self.buffer.append((self.next, payload))
        if not lose:
            await self._live.send_multipart([b"kv", self.next.to_bytes(8, "big"), payload])
        self.next += 1

    async def answer(self) -> None:
        while True:
            client, _, start = await self._replay.recv_multipart()
            for number, payload in self.buffer:
                if number >= int.from_bytes(start, "big"):
                    frames = [client, b"", b"kv", number.to_bytes(8, "big"), payload]
                    await self._replay.send_multipart(frames)
            await self._replay.send_multipart([client, b"", b"", b"\xff" * 8, b""])


@asynccontextmanager
async def publishing(replay: bool = True) -> AsyncIterator[tuple[Engine, Publisher]]:
    context = zmq.asyncio.Context()
    publisher = Publisher(context)
    answering = asyncio.ensure_future(publisher.answer())
    try:
        async with backend(sources={"0": publisher.config(replay)}) as (engine, _):
            yield engine, publisher
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)
        context.destroy(linger=0)


async def take(stream: AsyncIterator[KvBatch], count: int) -> list[KvBatch]:
    return [await anext(stream) for _ in range(count)]


async def ended(stream: AsyncIterator[KvBatch]) -> None:
    await stream.aclose()  # type: ignore[attr-defined]


def test_sources_have_addresses_that_can_be_reached() -> None:
    async def test() -> None:
        async with publishing() as (engine, publisher):
            (source,) = await engine.kv_event_sources()
            assert (source.endpoint.host, source.endpoint.port) == ("127.0.0.1", publisher.port)
            assert source.replay_endpoint == f"tcp://127.0.0.1:{publisher.replay_port}"
            assert (source.topic, source.encoding, source.data_parallel_rank) == (
                "kv",
                "msgpack",
                0,
            )
            assert source.buffer_steps == 10
        async with backend() as (engine, _):
            assert await engine.kv_event_sources() == []
            nothing = engine.kv_events((), start=0, snapshot=False)
            assert (await fault(anext(nothing))).code == "unimplemented"

    run(test)


def test_what_was_is_replayed_and_what_comes_follows_without_a_gap() -> None:
    async def test() -> None:
        async with publishing() as (engine, publisher):
            await publisher.publish(stored(2**64 - 1, b"\x01\x02"), CLEARED)
            await publisher.publish(removed(5))
            stream = engine.kv_events((0,), start=0, snapshot=False)
            first, second = await take(stream, 2)
            assert (first.sequence, first.timestamp_ns, first.rank) == (0, 1_500_000_000, 0)
            blocks, cleared = first.events
            assert isinstance(blocks, BlocksStored)
            assert [(h.value, h.encoding) for h in blocks.hashes] == [
                (b"\xff" * 8, "int64"),
                (b"\x01\x02", "bytes"),
            ]
            assert (blocks.medium, blocks.spec_kind) == ("gpu", "full_attention")
            assert blocks.extra_keys == (("k0", '["mm",3]'), ("k1", '["mm",3]'))
            assert cleared == BlocksCleared()
            assert isinstance(second.events[0], BlocksRemoved)
            await publisher.subscribed()
            await publisher.publish(stored(7))
            await publisher.publish(stored(8), lose=True)
            await publisher.publish(stored(9))
            assert [batch.sequence for batch in await take(stream, 3)] == [2, 3, 4]
            await ended(stream)
            stream = engine.kv_events((), start=3, snapshot=False)
            assert [batch.sequence for batch in await take(stream, 2)] == [3, 4]
            await ended(stream)

    run(test)


def test_events_that_are_gone_are_a_fault_and_no_silence() -> None:
    async def test() -> None:
        async with publishing() as (engine, publisher):
            for number in range(4):
                await publisher.publish(stored(number))
            del publisher.buffer[:2]
            gone = engine.kv_events((), start=1, snapshot=False)
            assert (await fault(anext(gone))).code == "not_found"
            no_rank = engine.kv_events((3,), start=0, snapshot=False)
            assert (await fault(anext(no_rank))).code == "not_found"
            snapshot = engine.kv_events((), start=0, snapshot=True)
            assert (await fault(anext(snapshot))).code == "failed_precondition"
            stream = engine.kv_events((), start=2, snapshot=False)
            await take(stream, 2)
            while len(publisher.buffer) < 9:
                await publisher.publish(stored(1))
                await asyncio.sleep(0.01)
            publisher.next = 0
            publisher.buffer.clear()
            while True:
                waiting = asyncio.ensure_future(anext(stream))
                await publisher.publish(stored(1))
                done, _ = await asyncio.wait({waiting}, timeout=2)
                if done and waiting.exception() is not None:
                    break
                await waiting
            assert (await fault(waiting)).retryable

    run(test)


def test_a_snapshot_is_what_is_left_of_all_that_was_stored() -> None:
    async def test() -> None:
        async with publishing() as (engine, publisher):
            await publisher.publish(stored(90, 91))
            await publisher.publish(CLEARED, stored(1, 2, 3))
            await publisher.publish(stored(4, parent=3), removed(2))
            del publisher.buffer[:1]  # Before the clearing, nothing matters.
            stream = engine.kv_events((), start=0, snapshot=True)
            (whole,) = await take(stream, 1)
            assert whole.sequence == 2
            kept = [event for event in whole.events if isinstance(event, BlocksStored)]
            assert [[h.value[-1] for h in event.hashes] for event in kept] == [[1], [3], [4]]
            assert [event.parent and event.parent.value[-1] for event in kept] == [None, 2, 3]
            assert [list(event.token_ids) for event in kept] == [[0, 1], [4, 5], [0, 1]]
            assert [event.extra_keys[0][0] for event in kept] == ["k0", "k2", "k0"]
            await publisher.subscribed()
            await publisher.publish(removed(4))
            (after,) = await take(stream, 1)
            assert after.sequence == 3
            await ended(stream)

    run(test)


def test_without_a_replay_only_what_comes_can_be_had() -> None:
    async def test() -> None:
        async with publishing(replay=False) as (engine, publisher):
            for start, snapshot in ((1, False), (0, True)):
                refused = engine.kv_events((), start=start, snapshot=snapshot)
                assert (await fault(anext(refused))).code == "failed_precondition"
            stream = engine.kv_events((), start=0, snapshot=False)
            waiting = asyncio.ensure_future(anext(stream))
            await publisher.subscribed()
            while not waiting.done():
                await publisher.publish(stored(1))
                await asyncio.sleep(0.01)
            await publisher.publish(stored(1), lose=True)
            await publisher.publish(stored(1))

            async def rest() -> None:
                async for _ in stream:
                    pass

            lost = await fault(rest())
            assert (lost.code, lost.retryable) == ("internal", True)

    run(test)
