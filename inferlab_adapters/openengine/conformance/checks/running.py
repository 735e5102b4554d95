"""A request that is kept running while something else is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from inferlab_adapters.openengine.conformance.outcome import Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Stream, arm

_POLL_SECONDS = 0.05


class Running:
    """A long request that has begun to answer; its stream is read all the while."""

    def __init__(self, stream: Stream) -> None:
        self.call = stream.call
        self._stream = stream
        self._reading = asyncio.create_task(stream.rest())

    @classmethod
    async def start(cls, s: Subject, changes: Mapping[str, Any] | None = None) -> Running:
        """Start one; raises :class:`Skip` where it does not come to run."""
        stream = await s.open(s.long(changes))
        first = await stream.next()
        if first is None or arm(first) == "error":
            await stream.rest()
            raise Skip(f"the request that it needs does not run: {stream.call.told()}")
        return cls(stream)

    @property
    def id(self) -> str:
        return str(self.call.request.request_id)

    @property
    def ended(self) -> bool:
        return self._reading.done()

    async def end(self) -> Call:
        """The call once it has ended."""
        return await self._reading

    async def stop(self) -> None:
        """Give it up."""
        if not self._reading.done():
            self._reading.cancel()
            await asyncio.wait([self._reading])
            self._stream.cancel()


async def becomes(s: Subject, test: Callable[[], Awaitable[bool]]) -> bool:
    """Whether something comes true soon."""
    loop = asyncio.get_running_loop()
    until = loop.time() + s.soon
    while not await test():
        if loop.time() > until:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True
