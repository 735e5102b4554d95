"""An engine whose behaviour a test scripts; without a script it is a healthy one.

A script makes the steps of a request: events; a number sleeps so many seconds; an
:class:`asyncio.Event` is waited for; an exception is raised.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import uuid4

from inferlab_adapters.openengine.engine import (
    BlockHash,
    BlocksStored,
    Check,
    Endpoint,
    EngineFacts,
    EngineFault,
    Event,
    FinishedEvent,
    GenerateRequest,
    KvBatch,
    KvEventSource,
    KvSession,
    Load,
    Lora,
    PrefillDone,
    RankLoad,
    Role,
    TokenEvent,
    Usage,
)
from tests.openengine.scripted_facts import (
    BACKEND,
    BLOCK,
    CONNECTOR,
    FACTS,
    MODEL,
    PEER,
    facts_with,
)
from tests.openengine.scripted_model import answer, guided, prompt_ids

__all__ = [
    "BACKEND",
    "FACTS",
    "MODEL",
    "Script",
    "ScriptedEngine",
    "ScriptedGeneration",
    "Step",
    "create",
    "facts_with",
    "tokens",
]

Step: TypeAlias = Event | float | asyncio.Event | BaseException
Script: TypeAlias = Callable[[GenerateRequest], Iterable[Step]]


def tokens(count: int, output: int = 0, token_id: int = 66) -> list[Step]:
    """``count`` events of one token each, then the end of the output."""
    event = TokenEvent(output, (token_id,), "a")
    return [*itertools.repeat(event, count), FinishedEvent(output, "length")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """What identifies a cached KV block: everything before it, too."""

    key: int
    parent: int | None
    token_ids: tuple[int, ...]


class ScriptedEngine:
    """An :class:`~inferlab_adapters.openengine.engine.Engine` for tests.

    Every knob may be turned while it serves. ``accepted`` are the requests it took, ``open`` what
    it works on, ``pulled`` how many steps it was asked for, ``closed`` how often it was told to
    stop work that it had not finished.
    """

    def __init__(
        self,
        role: Role = Role.AGGREGATED,
        *,
        script: Script | None = None,
        facts: EngineFacts | None = None,
        prefill: ScriptedEngine | None = None,
    ) -> None:
        self.role = role
        self.script: Script | None = script
        self.described = facts or FACTS
        if facts is None and role is not Role.AGGREGATED:
            self.described = replace(FACTS, connector=CONNECTOR)
        self.prefill = prefill
        self.ready = True
        self.refusal: EngineFault | None = None
        self.accept_gate: asyncio.Event | None = None
        self.health: tuple[Check, ...] = (Check(name="engine", state="ready"),)
        self.accepted: list[GenerateRequest] = []
        self.open: set[ScriptedGeneration] = set()
        self.pulled = 0
        self.closed = 0
        self.sessions: dict[str, KvSession] = {}
        self.loras: dict[str, Lora] = {}
        self.batches: list[KvBatch] = []
        self.kv_fault: EngineFault | None = None
        self._stored: dict[str | None, dict[int, Block]] = {}
        self._news = asyncio.Event()

    async def facts(self) -> EngineFacts:
        if not self.ready:
            raise EngineFault("not_ready", "the engine is loading", retryable=True)
        return self.described

    async def checks(self, probe: bool) -> Sequence[Check]:
        if not self.ready:
            return (Check(name="engine", state="starting", message="loading"),)
        extra = (Check(name="inference_probe", state="ready"),) if probe else ()
        return (*self.health, *extra)

    async def accept(self, request: GenerateRequest) -> ScriptedGeneration:
        if self.accept_gate is not None:
            await self.accept_gate.wait()
        if self.refusal is not None:
            raise self.refusal
        if request.guide is not None:
            guided(request.guide)
        if request.session is not None and self.prefill is not None:
            self.prefill.take(request.session.session_id)
        self.accepted.append(request)
        prompt = prompt_ids(request)
        cached = 0 if request.bypass_prefix_cache else self._cached(request, prompt)
        self._store(request, prompt)
        script = self.script or (self._prefilled if request.prefill_only else answer)
        generation = ScriptedGeneration(self, request, script(request), len(prompt), cached)
        self.open.add(generation)
        return generation

    def _prefilled(self, request: GenerateRequest) -> Iterable[Step]:
        session = KvSession(
            session_id=f"kv-{uuid4().hex}",
            transfer_backend=BACKEND,
            endpoints=(PEER,),
            attributes={"remote_block_ids": [[1, 2]], "remote_engine_id": "prefill-0", "tp": 1},
        )
        self.sessions[session.session_id] = session
        yield PrefillDone(session)

    def take(self, session_id: str) -> None:
        """A decode engine reads the session's cache; it is free afterwards."""
        if self.sessions.pop(session_id, None) is None:
            raise EngineFault("kv_session_not_found", f"there is no KV session {session_id}")

    async def abort_session(self, session: KvSession) -> None:
        self.take(session.session_id)

    async def load(self, per_rank: bool) -> Load:
        blocks = sum(map(len, self._stored.values()))
        running = len(self.open)
        rank = RankLoad(
            rank=0, running=running, queued=0, used_kv_blocks=blocks, total_kv_blocks=1000
        )
        return Load(
            running=running,
            queued=0,
            used_kv_blocks=blocks,
            total_kv_blocks=1000,
            ranks=(rank,) if per_rank else (),
            attributes={"scripted.requests": float(len(self.accepted))},
        )

    async def open_sessions(self) -> int | None:
        return len(self.sessions)

    async def list_loras(self) -> Mapping[str, str]:
        return {name: lora.path for name, lora in self.loras.items()}

    async def load_lora(self, lora: Lora) -> None:
        if not self.described.models[0].abilities.lora:
            raise EngineFault("failed_precondition", "the engine runs without LoRA")
        self.loras[lora.name] = lora

    async def unload_lora(self, lora: Lora) -> None:
        del self.loras[lora.name]

    async def kv_event_sources(self) -> Sequence[KvEventSource]:
        return (
            KvEventSource(
                transport="zmq",
                endpoint=Endpoint(host="127.0.0.1", port=5557, protocol="tcp"),
                data_parallel_rank=0,
                encoding="msgpack",
                schema_version=1,
            ),
        )

    async def kv_events(
        self, ranks: Sequence[int], *, start: int, snapshot: bool
    ) -> AsyncIterator[KvBatch]:
        position = 0 if snapshot or start else len(self.batches)
        while True:
            self._news.clear()
            if self.kv_fault is not None:
                raise self.kv_fault
            while position < len(self.batches):
                batch = self.batches[position]
                position += 1
                if batch.sequence >= start and (not ranks or batch.rank in ranks):
                    yield batch
            await self._news.wait()

    async def close(self) -> None:
        for generation in list(self.open):
            await generation.close()

    def fail_kv_events(self, fault: EngineFault) -> None:
        """End every subscription with a fault."""
        self.kv_fault = fault
        self._news.set()

    def publish(self, batch: KvBatch) -> None:
        """Send a batch to every subscription."""
        self.batches.append(batch)
        self._news.set()

    def _blocks(self, request: GenerateRequest, prompt: Sequence[int]) -> Iterable[Block]:
        parent: int | None = None
        for end in range(BLOCK, len(prompt) + 1, BLOCK):
            part = tuple(prompt[end - BLOCK : end])
            key = hash((parent, part, request.lora_name, request.cache_salt)) & (2**63 - 1)
            yield Block(key=key, parent=parent, token_ids=part)
            parent = key

    def _cached(self, request: GenerateRequest, prompt: Sequence[int]) -> int:
        stored = self._stored.get(request.cache_salt, {})
        known = itertools.takewhile(lambda b: b.key in stored, self._blocks(request, prompt))
        return min(sum(BLOCK for _ in known), (len(prompt) - 1) // BLOCK * BLOCK)

    def _store(self, request: GenerateRequest, prompt: Sequence[int]) -> None:
        stored = self._stored.setdefault(request.cache_salt, {})
        for block in self._blocks(request, prompt):
            if block.key in stored:
                continue
            stored[block.key] = block
            parent = None if block.parent is None else _hash(block.parent)
            event = BlocksStored((_hash(block.key),), parent, block.token_ids, BLOCK, medium="gpu")
            self.publish(KvBatch(len(self.batches) + 1, time.time_ns(), 0, (event,)))


class ScriptedGeneration:
    """The steps of one request, taken one at a time."""

    def __init__(
        self,
        engine: ScriptedEngine,
        request: GenerateRequest,
        steps: Iterable[Step],
        prompt: int,
        cached: int,
    ) -> None:
        self._engine = engine
        self._left = request.sampling.num_sequences
        self._steps = iter(steps)
        self._prompt = prompt
        self._cached = cached
        self._completion = 0

    def __aiter__(self) -> ScriptedGeneration:
        return self

    async def __anext__(self) -> Event:
        engine = self._engine
        for step in self._steps:
            engine.pulled += 1
            if type(step) is TokenEvent:
                self._completion += len(step.token_ids)
                return step
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            else:
                self._left -= type(step) is FinishedEvent
                if not self._left or type(step) is PrefillDone:
                    engine.open.discard(self)
                return step
        engine.open.discard(self)
        raise StopAsyncIteration

    @property
    def usage(self) -> Usage:
        return Usage(self._prompt, self._completion, self._cached, None)

    async def close(self) -> None:
        if self in self._engine.open:
            self._engine.open.discard(self)
            self._engine.closed += 1


def _hash(key: int) -> BlockHash:
    return BlockHash(key.to_bytes(8, "big"), "int64")


def create(url: str, role: Role, options: Mapping[str, Any]) -> ScriptedEngine:
    """The factory that a supervisor loads by the name of this module."""
    return ScriptedEngine(role)
