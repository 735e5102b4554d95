"""The stream of KV events."""

from __future__ import annotations

import asyncio
import random

from inferlab_adapters.openengine.conformance.check import check, watch
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Proto, Stream, arm

_SUBSCRIBE = "SubscribeKvEvents"
_ALL = (_SUBSCRIBE,)
_QUIET_SECONDS = 0.1
_MOST = 10_000
_REQUESTS = 4


@check("K4")
async def subscription(s: Subject) -> None:
    call = await _collect(s)
    for message in call.messages:
        if arm(message) is None:
            raise Broken("a message is neither a batch nor an error")


@watch("K5", _ALL, unseen="no batches were seen")
def numbers_rise(call: Call) -> bool:
    last: dict[int, int] = {}
    for batch in _batches(call):
        rank, number = batch.data_parallel_rank, batch.sequence_number
        if rank in last and number <= last[rank]:
            raise Broken(f"sequence number {number} came after {last[rank]}, rank {rank}")
        last[rank] = number
    return len(_batches(call)) > 1


@watch("K7", _ALL, unseen="no batches were seen")
def batches_have_a_time(call: Call) -> bool:
    for batch in _batches(call):
        if not batch.timestamp_unix_nanos:
            raise Broken(f"batch {batch.sequence_number} has no time")
    return bool(_batches(call))


@check("K6")
async def replay(s: Subject) -> None:
    seen = [_batches(call) for call in s.seen if call.method == _SUBSCRIBE]
    batches = next((batches for batches in seen if batches), [])
    if not batches:
        raise Skip("no batches were seen")
    start = batches[0].sequence_number
    if not start:
        raise Skip("the first batch has the number 0, which asks for no replay")
    stream = s.wire.open(_SUBSCRIBE, {"start_sequence_number": start})
    await _read(stream, s.soon)
    if stream.call.refused:
        return
    again = _batches(stream.call)
    if not again or again[0].sequence_number != start:
        came = again[0].sequence_number if again else "nothing"
        raise Broken(f"a subscription from {start} on began with {came}")


@check("K8")
async def blocks_follow(s: Subject) -> None:
    call = await _collect(s, snapshot=True)
    known: set[bytes] = set()
    found = False
    for batch in _batches(call):
        for event in batch.events:
            kind = event.WhichOneof("event")
            if kind == "all_blocks_cleared":
                known.clear()
            elif kind == "block_removed":
                _all_known(event.block_removed.block_hashes, known, "removed")
            elif kind == "block_stored":
                found = True
                stored = event.block_stored
                if stored.HasField("parent_block_hash"):
                    _all_known([stored.parent_block_hash], known, "the parent of another")
                known.update(one.value for one in stored.block_hashes)
    if not found:
        raise Skip("no stored block was seen")


@check("K9")
async def snapshot(s: Subject) -> None:
    await s.served({"token_ids": {"ids": _prompt(s)}}, ids=True)
    stream = s.wire.open(_SUBSCRIBE, {"include_snapshot": True})
    await _read(stream, s.soon)
    if stream.call.refused:
        raise Skip(f"the server gives no snapshot: {stream.call.told()}")
    stored = [
        event.block_stored
        for batch in _batches(stream.call)
        for event in batch.events
        if event.WhichOneof("event") == "block_stored"
    ]
    if not stored:
        raise Broken("blocks are cached, and the snapshot has none")


async def _collect(s: Subject, *, snapshot: bool = False) -> Call:
    """What comes of a new prompt; raises :class:`Skip` where there are no events."""
    stream = s.wire.open(_SUBSCRIBE, {"include_snapshot": snapshot})
    await read_until_quiet(stream, s)
    if stream.call.refused:
        raise Skip(f"the server gives no KV events: {stream.call.told()}")
    return stream.call


async def read_until_quiet(stream: Stream, s: Subject, *, expected: bool = True) -> None:
    """Read a subscription while requests are served, until nothing comes any more.

    ``expected``: something should come, so that it is worth to wait for.
    """
    first = s.soon if expected else _REQUESTS * 2 * _QUIET_SECONDS
    reading = asyncio.create_task(_read(stream, first))
    try:
        # Without a message nothing says whether the subscription stands yet.
        for _ in range(_REQUESTS):
            await asyncio.wait([reading], timeout=_QUIET_SECONDS)
            if reading.done() or stream.call.messages:
                break
            await s.served({"token_ids": {"ids": _prompt(s)}}, ids=True)
    finally:
        await reading


async def _read(stream: Stream, first: float) -> None:
    """Read until nothing comes for a while, ``first`` seconds to begin with; then give it up."""
    while len(stream.call.messages) < _MOST:
        next_message = asyncio.ensure_future(stream.next())
        wait = _QUIET_SECONDS if stream.call.messages else first
        done, _ = await asyncio.wait([next_message], timeout=wait)
        if not done or next_message.result() is None:
            stream.cancel()
            await asyncio.wait([next_message])
            return


def _batches(call: Call) -> list[Proto]:
    return [message.batch for message in call.messages if arm(message) == "batch"]


def _all_known(hashes: list[Proto], known: set[bytes], what: str) -> None:
    for one in hashes:
        if one.value not in known:
            raise Broken(f"block {one.value.hex()} is {what} and was never stored")


def _prompt(s: Subject) -> list[int]:
    capacity = s.capacity
    block = capacity.kv_block_size if capacity.HasField("kv_block_size") else 16
    return [random.randint(11, 90) for _ in range(min(3 * (block or 16), s.max_output) + 1)]
