"""Generate of the model server, with its prefix cache, sessions and KV events."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from inferlab_adapters.openengine.engine import (
    FinishedEvent,
    PromptEvent,
    TokenDetail,
    TokenEvent,
)
from tests.openengine.conformance import model_requests
from tests.openengine.conformance.model_server import Data, Refusal
from tests.openengine.scripted_model import answer, prompt_ids

BACKEND = "model-kv"
BLOCK = 16
_SLOW_FROM = 100
_TICK_SECONDS = 0.008
_REASONS = {
    "stop": "FINISH_REASON_STOP",
    "length": "FINISH_REASON_LENGTH",
    "cancelled": "FINISH_REASON_CANCELLED",
}


class Generating:
    """One server's requests. ``lacks``: options that it neither advertises nor takes."""

    def __init__(self, role: str, lacks: frozenset[str] = frozenset()) -> None:
        self.role = role
        self.lacks = lacks
        self.running: dict[str, asyncio.Event] = {}
        self.finished: set[str] = set()
        self.loras: dict[str, Data] = {}
        self.sessions: set[str] = set()
        self.prefill: Generating | None = None
        self.draining = False
        self.cached: dict[str, set[tuple[int, ...]]] = {}
        self.batches: list[Data] = []
        self.runtime: list[Data] = []
        self.news = asyncio.Event()
        self.gone = asyncio.Event()

    async def Generate(
        self, request: Any, metadata: Mapping[str, list[str]]
    ) -> AsyncIterator[Data]:
        keys = model_requests.routing(metadata) if "priority" not in _fields(request) else {}
        model_requests.check(request, self.loras, self.lacks)
        self._check_role(request, keys)
        if self.draining:
            raise Refusal("UNAVAILABLE", "the server drains")
        if request.request_id in self.running:
            raise Refusal("ALREADY_EXISTS", f"request_id: {request.request_id} is in flight")
        aborted = self.running[request.request_id] = asyncio.Event()
        if request.kv.HasField("session") and self.prefill is not None:
            self.prefill.sessions.discard(request.kv.session.session_id)
        try:
            async for event in self._events(request, aborted):
                yield {"request_id": request.request_id, **event}
        finally:
            self.running.pop(request.request_id, None)
            self.finished.add(request.request_id)

    def _check_role(self, request: Any, keys: Mapping[str, int]) -> None:
        attached = request.kv.HasField("session")
        if attached is not (self.role == "decode"):
            raise Refusal("FAILED_PRECONDITION", f"the server is {self.role}")
        if not attached:
            return
        session = request.kv.session
        if keys.get(model_requests.RANK, session.dp_rank) != session.dp_rank:
            raise model_requests.bad(f"{model_requests.RANK}: is not the session's")
        assert self.prefill is not None
        known = session.session_id in self.prefill.sessions
        if not known or session.transfer_backend != BACKEND or not session.endpoints:
            raise Refusal("NOT_FOUND", "kv.session: is unknown")

    async def _events(self, request: Any, aborted: asyncio.Event) -> AsyncIterator[Data]:
        asked = model_requests.neutral(request)
        prompt = prompt_ids(asked)
        hits = self._cache(request, prompt)
        self.publish(self.runtime, {"type": "RUNTIME_EVENT_TYPE_BATCH"})
        usage = {"prompt_tokens": len(prompt), "cached_prompt_tokens": hits}
        if self.role == "prefill":
            usage |= {"completion_tokens": 0, "total_tokens": len(prompt)}
            yield {"prefill_ready": {"kv_session": self._session()}, "usage": usage}
            return
        slow = request.stopping.max_tokens > _SLOW_FROM
        left = set(range(asked.sampling.num_sequences))
        tokens = 0
        for event in answer(asked):
            if slow:
                await asyncio.sleep(_TICK_SECONDS)
            if aborted.is_set():
                break
            if isinstance(event, PromptEvent):
                yield {"prompt": {"tokens": list(map(_token, event.tokens))}}
            elif isinstance(event, TokenEvent):
                tokens += len(event.token_ids)
                yield {"token": _tokens(event)}
            elif isinstance(event, FinishedEvent):
                left.discard(event.output)
                data: Data = {"finished": _finished(event)}
                yield data if left else {**data, "usage": _usage(usage, tokens)}
        while left:
            index = left.pop()
            data = {"finished": _finished(FinishedEvent(index, "cancelled"))}
            yield data if left else {**data, "usage": _usage(usage, tokens)}

    def _session(self) -> Data:
        name = uuid.uuid4().hex
        self.sessions.add(name)
        return {
            "session_id": name,
            "transfer_backend": BACKEND,
            "endpoints": [{"host": "127.0.0.1", "port": 5600, "protocol": "tcp"}],
            "attributes_struct": {"engine": "9007199254740995", "blocks": [1, 2], "pull": True},
        }

    def _cache(self, request: Any, prompt: list[int]) -> int:
        stored = self.cached.setdefault(request.kv.cache_salt, set())
        hits, whole = 0, True
        for end in range(BLOCK, len(prompt) + 1, BLOCK):
            key = tuple(prompt[:end])
            whole = whole and key in stored
            hits += BLOCK * whole
            if key not in stored:
                stored.add(key)
                hashes = [{"value": _hash(key), "encoding": "bytes"}]
                event: Data = {"block_hashes": hashes, "block_size": BLOCK}
                if end > BLOCK:
                    parent = {"value": _hash(key[:-BLOCK]), "encoding": "bytes"}
                    event["parent_block_hash"] = parent
                self.publish(self.batches, {"events": [{"block_stored": event}]})
        return 0 if request.kv.bypass_prefix_cache else hits

    def publish(self, where: list[Data], data: Data) -> None:
        """Make an event known to every subscription."""
        where.append(data)
        self.news.set()
        self.news = asyncio.Event()

    async def follow(self, where: list[Data], position: int) -> AsyncIterator[tuple[int, Data]]:
        """What is published, from ``position`` on, with its number from 1."""
        while True:
            while position < len(where):
                position += 1
                yield position, where[position - 1]
            await self.news.wait()


def now() -> int:
    return time.time_ns()


def _fields(request: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = request.DESCRIPTOR.fields_by_name
    return found


def _hash(key: tuple[int, ...]) -> bytes:
    return (hash(key) & (2**64 - 1)).to_bytes(8, "big")


def _usage(usage: Data, tokens: int) -> Data:
    total = usage["prompt_tokens"] + tokens
    return {**usage, "completion_tokens": tokens, "total_tokens": total}


def _tokens(event: TokenEvent) -> Data:
    details = event.details or [TokenDetail(token) for token in event.token_ids]
    return {
        "output_index": event.output,
        "tokens": list(map(_token, details)),
        "text": event.text,
    }


def _token(detail: TokenDetail) -> Data:
    candidates = [
        {"token_id": c.token_id, "logprob": c.logprob, "rank": c.rank} for c in detail.candidates
    ]
    return {
        "token_id": detail.token_id,
        "logprob": detail.logprob,
        "rank": detail.rank,
        "candidates": candidates,
    }


def _finished(event: FinishedEvent) -> Data:
    data: Data = {"output_index": event.output, "reason": _REASONS[event.reason]}
    if event.stop is not None:
        kinds = {"token": "stop_token_id", "text": "stop_text", "eos": "eos_token_id"}
        value = event.stop.text if event.stop.kind == "text" else event.stop.token_id
        data["stop_match"] = {kinds[event.stop.kind]: value}
    return data
