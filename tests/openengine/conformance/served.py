"""A model server on a thread of its own, for tests of the command."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from inferlab_adapters.openengine.revisions import REVISIONS
from tests.openengine.conformance.broken import model
from tests.openengine.conformance.faults import Broken, Fault
from tests.openengine.conformance.model_server import Transport


@contextmanager
def served(fault: Fault) -> Iterator[str]:
    """The address of a broken server while it serves."""
    loop = asyncio.new_event_loop()
    inner = model(fault.model, fault.revision, fault.role, fault.lacks)
    transport = Transport(inner, REVISIONS[fault.revision], Broken(fault))
    ready, done = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with transport:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(30)
        yield transport.address
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()
