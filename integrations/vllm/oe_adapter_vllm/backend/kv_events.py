"""The stream of KV events that vLLM publishes: replayed, live, and mended where some were dropped.

Source (vLLM 0.32.0): distributed/kv_events.py, ``ZmqEventPublisher``. Seen on a running server:
sequence numbers begin with 0 at every start; a replay is asked for with an empty frame and the
first number wanted, answered from a buffer of ``buffer_steps`` batches, and ends with number -1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import zmq
import zmq.asyncio

from inferlab_adapters.openengine.engine import (
    EngineFault,
    KvBatch,
)
from oe_adapter_vllm.backend.http import Http
from oe_adapter_vllm.backend.kv_blocks import clears, snapshot
from oe_adapter_vllm.backend.kv_sources import EventRank, ranks_of, uri
from oe_adapter_vllm.backend.kv_wire import batch

QUEUE = 256
"""Batches that wait for a slow reader; more wait at vLLM, and are replayed if it drops them."""

_REPLAY_SECONDS = 10.0
_END = -1


async def stream(
    http: Http, ranks: Sequence[int], start: int, with_snapshot: bool
) -> AsyncIterator[KvBatch]:
    """Batches of these ranks, of all if none is named.

    From ``start`` on; 0 is as far back as vLLM remembers. A snapshot is the cache's contents as
    one batch, numbered as the last batch that it covers; it needs a replay that reaches back to
    an empty cache. Raises ``unimplemented``, ``not_found``, ``failed_precondition``.
    """
    known = await ranks_of(http)
    if not known:
        what = "vLLM publishes no KV events; it needs --kv-events-config with publisher zmq"
        raise EngineFault("unimplemented", what)
    missing = set(ranks) - {rank.rank for rank in known}
    if missing:
        what = f"vLLM publishes no KV events of data parallel rank {min(missing)}"
        raise EngineFault("not_found", what)
    chosen = [rank for rank in known if not ranks or rank.rank in ranks]
    queue: asyncio.Queue[KvBatch | EngineFault] = asyncio.Queue(QUEUE)
    context = zmq.asyncio.Context()
    feeds = [_Feed(context, rank, start, with_snapshot, queue) for rank in chosen]
    tasks = [asyncio.ensure_future(feed.run()) for feed in feeds]
    try:
        while True:
            item = await queue.get()
            if isinstance(item, EngineFault):
                raise item
            yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        context.destroy(linger=0)


class _Feed:
    """Reads one rank into the queue: first what is replayed, then what is published."""

    def __init__(
        self,
        context: zmq.asyncio.Context,
        rank: EventRank,
        start: int,
        with_snapshot: bool,
        queue: asyncio.Queue[KvBatch | EngineFault],
    ) -> None:
        self._context = context
        self._rank = rank
        self._start = start
        self._snapshot = with_snapshot
        self._queue = queue
        self._next: int | None = None
        self._caught_up = False

    async def run(self) -> None:
        """Until cancelled, or until it puts its failure into the queue."""
        try:
            await self._follow()
        except EngineFault as fault:
            await self._queue.put(fault)
        except (zmq.ZMQError, TimeoutError, OSError) as error:
            what = f"KV events of rank {self._rank.rank} broke off: {error}"
            await self._queue.put(EngineFault("internal", what, retryable=True))

    async def _follow(self) -> None:
        with self._context.socket(zmq.SUB) as live:
            live.setsockopt(zmq.RCVHWM, QUEUE)
            live.subscribe(self._rank.topic.encode())
            live.connect(uri(self._rank.endpoint))
            await self._catch_up()
            while True:
                _, number, payload = await live.recv_multipart()
                await self._take(int.from_bytes(number, "big"), payload)

    async def _catch_up(self) -> None:
        rank = self._rank
        if not rank.replay:
            if self._start or self._snapshot:
                what = "vLLM replays no KV events; it needs a replay_endpoint in its"
                raise EngineFault("failed_precondition", f"{what} --kv-events-config")
            return
        past = await self._replay(0 if self._snapshot else self._start)
        if self._snapshot:
            await self._put_snapshot(past)
            past = [batch for batch in past if batch.sequence >= self._start > 0]
        elif self._start:
            self._check_start(past)
        for old in past:
            await self._queue.put(old)
        if past:
            self._next = past[-1].sequence + 1

    def _check_start(self, past: Sequence[KvBatch]) -> None:
        if past and past[0].sequence > self._start:
            what = f"KV events from {self._start} on are gone; vLLM remembers them from"
            raise EngineFault("not_found", f"{what} {past[0].sequence} on")

    async def _put_snapshot(self, past: Sequence[KvBatch]) -> None:
        begins = max((i for i, old in enumerate(past) if clears(old)), default=-1)
        if begins < 0 and past and past[0].sequence > 0:
            what = "vLLM cannot tell what its KV cache holds: it no longer remembers the beginning"
            raise EngineFault("failed_precondition", what)
        events = snapshot(past[max(begins, 0) :])
        last = past[-1] if past else None
        self._next = last.sequence + 1 if last else 0
        if last is not None:
            await self._queue.put(last._replace(events=events))

    async def _take(self, number: int, payload: bytes) -> None:
        if number < self._start:
            return
        if self._next is not None and number < self._next:
            if self._caught_up:
                what = "vLLM began to number its KV events anew; subscribe again"
                raise EngineFault("internal", what, retryable=True)
            return  # It came by the replay already.
        self._caught_up = True
        if self._next is not None and number > self._next:
            await self._mend(number)
        if self._next is None or number >= self._next:
            await self._queue.put(batch(number, payload, self._rank.rank))
            self._next = number + 1

    async def _mend(self, number: int) -> None:
        """Fetch what was dropped on the way, up to ``number``."""
        assert self._next is not None
        past = await self._replay(self._next) if self._rank.replay else []
        if not past or past[0].sequence != self._next:
            what = f"KV events {self._next} to {number - 1} were lost; subscribe again"
            raise EngineFault("internal", what, retryable=True)
        for old in past:
            await self._queue.put(old)
            self._next = old.sequence + 1

    async def _replay(self, start: int) -> list[KvBatch]:
        past: list[KvBatch] = []
        with self._context.socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.RCVHWM, 0)
            socket.connect(self._rank.replay)
            await socket.send_multipart([b"", start.to_bytes(8, "big")])
            while True:
                try:
                    frames = await asyncio.wait_for(socket.recv_multipart(), _REPLAY_SECONDS)
                except TimeoutError as error:
                    what = f"vLLM did not replay its KV events of rank {self._rank.rank}"
                    raise EngineFault("internal", what, retryable=True) from error
                number = int.from_bytes(frames[2], "big", signed=True)
                if number == _END:
                    return past
                past.append(batch(number, frames[3], self._rank.rank))
