"""vLLM behind an OpenEngine server: its HTTP endpoints as an :class:`Engine`.

Written against vLLM 0.32.0 and tried on it; each module beside this one says which of its files
were read and what a running server showed. The server needs --enable-scale-out (generating),
--enable-prompt-tokens-details (cached tokens in the usage) and, for priorities,
--scheduling-policy priority; for LoRA --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1; for KV
events --kv-events-config.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakSet

import msgspec

from inferlab_adapters.openengine.engine import (
    Check,
    Engine,
    EngineFacts,
    EngineFault,
    GenerateRequest,
    Generation,
    KvBatch,
    KvEventSource,
    KvSession,
    Load,
    Lora,
    ModelFacts,
    Role,
)
from oe_adapter_vllm.backend import completions, facts, health, kv_events, kv_sources, sampling
from oe_adapter_vllm.backend import lora as adapters
from oe_adapter_vllm.backend.arguments import EngineArguments
from oe_adapter_vllm.backend.connector import VllmConnector
from oe_adapter_vllm.backend.events import Outputs
from oe_adapter_vllm.backend.http import Http
from oe_adapter_vllm.backend.metrics import Metrics
from oe_adapter_vllm.backend.models import listed
from oe_adapter_vllm.backend.prefill import Prefill
from oe_adapter_vllm.backend.stream import Completed, Streamed, Whole, Work
from oe_adapter_vllm.backend.text import OutputText, TokenTexts

_HEALTH_SECONDS = 5.0
_BUSY_SECONDS = 15.0
"""An engine that has answered so lately and does not now is busy; after that it is away."""
_TRACE = ("traceparent", "tracestate")

_W = TypeVar("_W", bound=Work)


class _Tokenized(msgspec.Struct):
    tokens: list[int]


def create(url: str, role: Role, options: Mapping[str, Any]) -> Engine:
    """The backend of the vLLM at ``url``.

    ``options``, all optional: ``argv``, the engine's command line, from which sizes, parsers and
    the KV connector are known, and without which what no endpoint tells stays unknown;
    ``environment``, the engine's environment, this process's own where it is not given.
    """
    argv = options.get("argv")
    environment = options.get("environment")
    return VllmEngine(
        url,
        role,
        argv=list(argv) if argv else None,
        environment=os.environ if environment is None else environment,
    )


class VllmEngine:
    """One vLLM server in one role."""

    def __init__(
        self,
        url: str,
        role: Role,
        *,
        argv: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.role = role
        self._http = Http(url)
        self._arguments = EngineArguments(argv)
        self._connector = VllmConnector(url, self._arguments, environment or {})
        self._facts: EngineFacts | None = None
        self._reading = asyncio.Lock()
        self._answered = -_BUSY_SECONDS
        self._texts: TokenTexts | None = None
        self._working: WeakSet[Work] = WeakSet()

    async def facts(self) -> EngineFacts:
        """What it is, remembered once it was read."""
        if self._facts is None:
            async with self._reading:
                if self._facts is None:
                    read = await facts.read(self._http, self.role, self._arguments, self._connector)
                    model = read.models[0]
                    longest = model.max_context_length
                    self._texts = TokenTexts(self._http, model.served_name, longest)
                    self._facts = read
        return self._facts

    async def checks(self, probe: bool) -> Sequence[Check]:
        """Its own health, and a token where ``probe``; degraded while it only answers late."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                await self._http.get("/health")
                await self.facts()
        except (EngineFault, TimeoutError) as error:
            lately = time.monotonic() - self._answered < _BUSY_SECONDS
            if isinstance(error, TimeoutError) and lately:
                return [Check(name="model", state="degraded", message=health.told(error))]
            # It may come back as another one.
            self._facts = None
            return [Check(name="model", state="not_ready", message=health.told(error))]
        self._answered = time.monotonic()
        found = [Check(name="model", state="ready")]
        if probe:
            found.append(await health.probe(self._start))
        return found

    async def accept(self, request: GenerateRequest) -> Generation:
        """Begin a request; returns once vLLM has taken it, at the latest after a second."""
        model = (await self.facts()).models[0]
        if request.media:
            raise EngineFault("unsupported_feature", "this server takes no media")
        if request.lora_name and not model.abilities.lora:
            raise EngineFault("unsupported_feature", "this server has no LoRA adapters")
        if request.priority and not model.abilities.priority:
            what = "vLLM was started without --scheduling-policy priority"
            raise EngineFault("unsupported_feature", what)
        if completions.fits(request):
            try:
                return await self._complete(request, model)
            except EngineFault as refused:
                if refused.code != "invalid_argument":
                    raise
        if request.prompt is not None:
            token_ids = await self._tokenize(request.prompt, model)
        else:
            token_ids = list(request.token_ids or ())
        return await self._start(request, token_ids)

    async def _tokenize(self, prompt: str, model: ModelFacts) -> list[int]:
        content = await self._http.post("/tokenize", {"model": model.served_name, "prompt": prompt})
        return msgspec.json.decode(content, type=_Tokenized).tokens

    async def _complete(self, request: GenerateRequest, model: ModelFacts) -> Completed:
        body = completions.body(request, model, _engine_id())
        outputs = self._outputs(request, [], model)
        return await self._begun(Completed(self._http, body, _headers(request), outputs))

    async def _start(self, request: GenerateRequest, token_ids: list[int]) -> Streamed | Whole:
        model = (await self.facts()).models[0]
        outputs = self._outputs(request, token_ids, model)
        headers = _headers(request)
        if request.prefill_only:
            body = sampling.prefill_body(request, token_ids, model, _engine_id())
            body["kv_transfer_params"] = self._connector.prefill_parameters()
            prefill = Prefill(self._http, body, headers, outputs, self._connector, token_ids)
            return await self._begun(prefill)
        body = sampling.body(request, token_ids, model, _engine_id())
        if request.session is not None:
            body["kv_transfer_params"] = self._connector.decode_parameters(
                request.session, token_ids, request.lora_name
            )
        kind = Streamed if body["stream"] else Whole
        return await self._begun(kind(self._http, body, headers, outputs))

    def _outputs(
        self, request: GenerateRequest, token_ids: list[int], model: ModelFacts
    ) -> Outputs:
        assert self._texts is not None
        stopping = request.stopping
        open_text = partial(
            OutputText,
            self._http,
            model.served_name,
            token_ids,
            stopping.stop_texts,
            stopping.include_stop_in_output,
        )
        return Outputs(request, token_ids, self._texts, open_text)

    async def _begun(self, work: _W) -> _W:
        await work.begin()
        self._working.add(work)
        return work

    async def abort_session(self, session: KvSession) -> None:
        """End the decode that uses a session; a prefill's blocks only go with their lease."""
        if self.role is Role.PREFILL:
            what = "vLLM frees the blocks of a prefill when they were fetched or their lease ends"
            raise EngineFault("unimplemented", what)
        using = [
            work
            for work in self._working
            if not work.closed
            and work.request.session is not None
            and work.request.session.session_id == session.session_id
        ]
        if not using:
            raise EngineFault("kv_session_not_found", "no request here uses the KV session")
        for work in using:
            await work.close()

    async def load(self, per_rank: bool) -> Load:
        """The load by vLLM's measures."""
        text = (await self._http.get("/metrics")).decode("utf-8", "replace")
        return Metrics(text).load(per_rank)

    async def open_sessions(self) -> int | None:
        """Unknown: vLLM tells nobody which blocks wait to be fetched."""
        return None

    async def list_loras(self) -> Mapping[str, str]:
        """The adapters of --lora-modules too."""
        _, found = await listed(self._http)
        return {adapter.id: adapter.root or "" for adapter in found}

    async def load_lora(self, lora: Lora) -> None:
        """Make an adapter usable."""
        await adapters.load(self._http, await self.facts(), lora)

    async def unload_lora(self, lora: Lora) -> None:
        """Make it unusable."""
        await adapters.unload(self._http, await self.facts(), lora)

    async def kv_event_sources(self) -> Sequence[KvEventSource]:
        """Where vLLM publishes KV events."""
        return await kv_sources.sources(self._http)

    def kv_events(
        self, ranks: Sequence[int], *, start: int, snapshot: bool
    ) -> AsyncIterator[KvBatch]:
        """vLLM's KV events."""
        return kv_events.stream(self._http, ranks, start, snapshot)

    async def close(self) -> None:
        """End what still runs, and the connections."""
        for work in list(self._working):
            await work.close()
        await self._http.close()


def _engine_id() -> str:
    return f"oe-{uuid4().hex}"


def _headers(request: GenerateRequest) -> dict[str, str]:
    headers = {key: request.trace[key] for key in _TRACE if key in request.trace}
    if request.dp_rank is not None:
        headers["X-data-parallel-rank"] = str(request.dp_rank)
    return headers
