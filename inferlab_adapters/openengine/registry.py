"""The requests in flight: one id each, abortable, and remembered for a while when they end."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

from inferlab_adapters.openengine.engine import EngineFault, Generation
from inferlab_adapters.openengine.errors import unexpected

REMEMBERED_SECONDS = 600.0
REMEMBERED_IDS = 100_000
CLOSING_SECONDS = 5.0
"""How long an engine may take to end its work before nobody waits for it any more."""

ABORTED = EngineFault("cancelled", "the request was aborted")


class Entry:
    """One request. ``waiting``: its task waits for the engine and may be interrupted.

    ``interrupted``: it was, for ``fault``.
    """

    __slots__ = (
        "fault",
        "generation",
        "interrupted",
        "request_id",
        "session_id",
        "stopped",
        "task",
        "waiting",
    )

    def __init__(self, request_id: str, session_id: str) -> None:
        self.request_id = request_id
        self.session_id = session_id
        self.waiting = False
        self.interrupted = False
        self.fault: EngineFault | None = None
        self.generation: Generation | None = None
        self.stopped = asyncio.Event()
        task = asyncio.current_task()
        assert task is not None
        self.task = task


class Registry:
    """All requests of one server, whichever revision they came by.

    A request is in flight until the engine's work on it has ended (:meth:`finish`); its stream
    may live longer, until the client has read the last message (:meth:`leave`).
    """

    def __init__(self) -> None:
        self.listeners: set[asyncio.Event] = set()
        self._in_flight: dict[str, Entry] = {}
        self._streams: set[Entry] = set()
        self._finished: OrderedDict[str, float] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many streams have not ended."""
        return len(self._streams)

    @property
    def in_flight(self) -> int:
        """How many requests the engine works on."""
        return len(self._in_flight)

    def open(self, request_id: str, session_id: str = "") -> Entry:
        """Take an id for the current task. Raises ``duplicate_request`` where it is taken."""
        if request_id in self._in_flight:
            what = f"request_id: {request_id!r} is in flight; give every request an id of its own"
            raise EngineFault("duplicate_request", what)
        entry = Entry(request_id, session_id)
        self._in_flight[request_id] = entry
        self._streams.add(entry)
        self._finished.pop(request_id, None)
        return entry

    def finish(self, entry: Entry, *, remember: bool = True) -> None:
        """The engine's work has ended, and the id is free; may be called twice.

        One that was never accepted is not remembered.
        """
        entry.stopped.set()
        if self._in_flight.get(entry.request_id) is not entry:
            return
        del self._in_flight[entry.request_id]
        if remember:
            self._remember(entry.request_id)
        self._tell()

    def leave(self, entry: Entry) -> None:
        """The stream has ended."""
        self.finish(entry)
        self._streams.discard(entry)
        self._tell()

    def finished(self, request_id: str) -> bool:
        """Whether a request of this id has ended a while ago."""
        return self._finished.get(request_id, 0.0) > time.monotonic()

    def find(self, request_id: str) -> Entry | None:
        """The request in flight with this id."""
        return self._in_flight.get(request_id)

    def of_session(self, session_id: str) -> list[Entry]:
        """The requests in flight that read a KV session."""
        return [e for e in self._in_flight.values() if e.session_id == session_id]

    def all(self) -> list[Entry]:
        """Every request in flight."""
        return list(self._in_flight.values())

    async def abort(self, entry: Entry, fault: EngineFault = ABORTED) -> None:
        """End a request with ``fault``; returns once the engine works on it no more."""
        if entry.fault is None:
            entry.fault = fault
            if entry.waiting:
                entry.interrupted = True
                entry.task.cancel()
            elif entry.generation is not None:
                # Its stream is not read just now; the engine need not wait for that.
                await self.close(entry.generation)
                self.finish(entry)
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                await entry.stopped.wait()
        except TimeoutError:
            pass

    async def abort_all(self, fault: EngineFault = ABORTED) -> int:
        """End every request in flight; returns how many there were."""
        entries = self.all()
        await asyncio.gather(*(self.abort(entry, fault) for entry in entries))
        return len(entries)

    def disregard(self) -> None:
        """Count no more the streams that only wait for their client to read the last message.

        They cannot be ended: a message is under way, and none fits before it.
        """
        self._streams = {entry for entry in self._streams if not entry.stopped.is_set()}
        self._tell()

    async def close(self, generation: Generation) -> None:
        """End an engine's work on a request, even if the caller is cancelled meanwhile."""
        task = asyncio.create_task(generation.close())
        self._closing.add(task)
        task.add_done_callback(self._closed)
        await asyncio.wait({task}, timeout=CLOSING_SECONDS)

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            unexpected(error)

    def _remember(self, request_id: str) -> None:
        now = time.monotonic()
        self._finished[request_id] = now + REMEMBERED_SECONDS
        while len(self._finished) > REMEMBERED_IDS or next(iter(self._finished.values())) < now:
            self._finished.popitem(last=False)

    def _tell(self) -> None:
        for listener in self.listeners:
            listener.set()
