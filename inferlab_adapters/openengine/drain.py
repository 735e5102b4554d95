"""Drain: take nothing new, wait until nothing is left, or end what is left at a deadline."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import NamedTuple

from inferlab_adapters.openengine.abort import free_sessions
from inferlab_adapters.openengine.engine import EngineFault, KvSession
from inferlab_adapters.openengine.state import ServerState

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""How often the engine is asked for its sessions while nothing else happens."""

LAST_WORDS_SECONDS = 2.0
"""How long aborted streams may take to be read to their end."""

DRAINED = EngineFault(
    "draining", "this server is draining and its deadline has passed; ask another", retryable=True
)


class Progress(NamedTuple):
    """``state``: started, in_progress or complete. ``sessions``: ``None`` if unknown."""

    state: str
    requests: int
    sessions: int | None


class Unfinished(EngineFault):
    """The deadline passed with work left that was not to be aborted, or cannot be."""

    def __init__(self, left: Progress) -> None:
        what = f"the deadline passed with {left.requests} requests in flight"
        if left.sessions:
            what += f" and {left.sessions} KV sessions open"
        super().__init__("draining", what, retryable=True)
        self.left = left


async def drain(
    state: ServerState, *, stop_accepting: bool, deadline_ms: int | None, abort: bool
) -> AsyncGenerator[Progress, None]:
    """What happens, from ``started`` to ``complete``; the counts are there whenever they change.

    Raises :class:`Unfinished`. A caller that goes away ends the waiting, not the draining.
    """
    if stop_accepting:
        state.drain()
    loop = asyncio.get_running_loop()
    deadline = None if deadline_ms is None else loop.time() + deadline_ms / 1000
    changed = asyncio.Event()
    state.registry.listeners.add(changed)
    try:
        counts = await _counts(state)
        yield Progress("started", *counts)
        told = counts
        while _left(counts) and (deadline is None or loop.time() < deadline):
            if counts != told:
                yield Progress("in_progress", *counts)
                told = counts
            wait = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - loop.time())
            await _wait(changed, wait)
            counts = await _counts(state)
        if _left(counts):
            if not abort:
                raise Unfinished(Progress("in_progress", *counts))
            await end_all(state, DRAINED)
            counts = await _counts(state)
            yield Progress("in_progress", *counts)
            last = loop.time() + LAST_WORDS_SECONDS
            while _left(counts):
                if loop.time() > last:
                    raise Unfinished(Progress("in_progress", *counts))
                await _wait(changed, LOOK_SECONDS)
                counts = await _counts(state)
        yield Progress("complete", *counts)
    finally:
        state.registry.listeners.discard(changed)


async def end_all(state: ServerState, fault: EngineFault) -> None:
    """End every request with ``fault`` and free every session; returns once clients know.

    A client that does not read its stream is not waited for.
    """
    await state.registry.abort_all(fault)
    changed = asyncio.Event()
    state.registry.listeners.add(changed)
    try:
        async with asyncio.timeout(LAST_WORDS_SECONDS):
            while len(state.registry):
                await changed.wait()
                changed.clear()
    except TimeoutError:
        state.registry.disregard()
    finally:
        state.registry.listeners.discard(changed)
    await free_sessions(state, _not_freed)


def _not_freed(session: KvSession, fault: EngineFault) -> None:
    _log.warning(
        "KV session not freed", extra={"session_id": session.session_id, "reason": fault.message}
    )


async def _counts(state: ServerState) -> tuple[int, int | None]:
    return len(state.registry), await state.open_sessions()


def _left(counts: tuple[int, int | None]) -> bool:
    return bool(counts[0] or counts[1])


async def _wait(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await changed.wait()
    except TimeoutError:
        return
    changed.clear()
