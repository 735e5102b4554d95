"""A server on a port of its own around a scripted engine, and clients of both revisions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from inferlab_adapters.openengine.client import Client, Outcome
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from inferlab_adapters.openengine.server import Server
from tests.openengine.scripted import MODEL, ScriptedEngine

BOTH = (SEED, V0_1_0)
LIMIT = 30.0
"""Seconds after which a test counts as hung."""


class Served:
    """A running server. ``client`` speaks the revision that the test asked for."""

    def __init__(
        self,
        server: Server,
        port: int,
        engine: ScriptedEngine,
        channel: grpc.aio.Channel,
        revision: Revision,
    ) -> None:
        self.server = server
        self.port = port
        self.engine = engine
        self.channel = channel
        self.client = Client(channel, revision)

    def request(self, request_id: str = "r1", **changes: Any) -> dict[str, Any]:
        """A plain request of 4 tokens."""
        return {
            "request_id": request_id,
            "model": MODEL,
            "prompt": "once upon a time",
            "stopping": {"max_tokens": 4},
            **changes,
        }

    async def generate(self, request_id: str = "r1", **changes: Any) -> Outcome:
        """How a request went."""
        return await self.client.outcome("Generate", self.request(request_id, **changes))

    def open(self, request_id: str = "r1", **changes: Any) -> Any:
        """A stream that is read by the test."""
        return self.client.stream("Generate", self.request(request_id, **changes))

    async def abort(self, **target: Any) -> Outcome:
        """How an Abort went."""
        return await self.client.outcome("Abort", target)


@asynccontextmanager
async def serving(
    engine: ScriptedEngine | None = None, revision: Revision = SEED, **options: Any
) -> AsyncIterator[Served]:
    """The server while the body runs."""
    engine = engine or ScriptedEngine()
    server = Server(engine, listen="127.0.0.1:0", instance_id="test-0", **options)
    port = await server.start()
    # A channel of its own: others to the same address would share its connection.
    own = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=own) as channel:
            yield Served(server, port, engine, channel, revision)
    finally:
        await server.stop(0)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test to its end; one that hangs fails."""

    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await test()

    asyncio.run(limited())


async def until(true: Callable[[], bool]) -> None:
    """Wait for something that must come true."""
    async with asyncio.timeout(LIMIT / 2):
        while not true():
            await asyncio.sleep(0.005)


def kinds(outcome: Outcome) -> list[str]:
    """The events of a Generate, in order."""
    return [message.WhichOneof("event") for message in outcome.messages]


async def read_all(call: Any) -> list[Any]:
    """The messages that are left of a stream; a status other than OK raises."""
    messages = []
    while (message := await call.read()) is not grpc.aio.EOF:
        messages.append(message)
    return messages


async def stalled(engine: ScriptedEngine) -> int:
    """Wait until an engine that never ends is asked for no more; how much it was asked for."""
    seen = -1
    while seen != engine.pulled or not seen:
        seen = engine.pulled
        await asyncio.sleep(0.2)
    return seen
