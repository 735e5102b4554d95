"""Generate: from the bytes of a request to its acceptance, or its refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from inferlab_adapters.openengine import metadata
from inferlab_adapters.openengine.engine import (
    EngineFacts,
    EngineFault,
    GenerateRequest,
    Generation,
    KvSession,
)
from inferlab_adapters.openengine.errors import refuse, unexpected
from inferlab_adapters.openengine.lora import Loras
from inferlab_adapters.openengine.registry import Entry
from inferlab_adapters.openengine.requests import one_arm_each, parse, read_generate
from inferlab_adapters.openengine.responses import Responses
from inferlab_adapters.openengine.revisions import Revision
from inferlab_adapters.openengine.state import ServerState
from inferlab_adapters.openengine.stream import Stream, interruption
from inferlab_adapters.openengine.trace import trace_context

RoutingOf = Callable[[Any, Any], metadata.Routing]
"""From a request and its call to what the client asks of the scheduler."""


class Generate:
    """The RPC in one revision. Called with the request's bytes and the call's context."""

    def __init__(
        self, state: ServerState, loras: Loras, revision: Revision, routing: RoutingOf
    ) -> None:
        self._state = state
        self._loras = loras
        self._request = revision.message("GenerateRequest")
        self._routing = routing
        self._responses = Responses(revision)

    async def __call__(self, raw: bytes, context: Any) -> None:
        try:
            request, backend = await self._checked(raw, context)
            entry = self._admitted(request)
        except EngineFault as fault:
            await refuse(context, fault)
        except Exception as error:
            await refuse(context, unexpected(error))
        try:
            try:
                generation = await self._accepted(request, entry, backend)
            except EngineFault as fault:
                self._state.registry.finish(entry, remember=fault is entry.fault)
                await refuse(context, fault)
            try:
                stream = Stream(self._state, self._responses, request, entry, generation)
                await stream.run(context.write)
            finally:
                # Also where the client went away, in the middle of anything.
                await self._state.registry.close(generation)
        finally:
            self._state.registry.leave(entry)

    async def _checked(self, raw: bytes, context: Any) -> tuple[GenerateRequest, str | None]:
        """The request, and the transfer backend that its session must be of."""
        facts: EngineFacts = await self._state.facts()
        message = parse(self._request, raw)
        one_arm_each(raw)
        request = read_generate(
            message,
            facts,
            self._state.role,
            self._routing(message, context),
            loras=await self._loras.names(),
            trace=trace_context(context.invocation_metadata() or ()),
        )
        return request, facts.connector.transfer_backend if facts.connector else None

    def _admitted(self, request: GenerateRequest) -> Entry:
        self._state.check_taking()
        session_id = request.session.session_id if request.session else ""
        return self._state.registry.open(request.request_id, session_id)

    async def _accepted(
        self, request: GenerateRequest, entry: Entry, backend: str | None
    ) -> Generation:
        """Give the request to the engine; from its return on, failures are events."""
        seal = self._state.seal
        session: KvSession | None = None
        if request.session is not None:
            session = seal.check(request.session, request.model, backend)
            request = replace(request, session=session)
            seal.use(session)
        entry.waiting = True
        try:
            entry.generation = await self._state.engine.accept(request)
        except BaseException as error:
            if session is not None:
                seal.unuse(session)
            if isinstance(error, EngineFault):
                raise
            if isinstance(error, asyncio.CancelledError):
                raise interruption(entry, error) from None
            if isinstance(error, Exception):
                raise unexpected(error) from error
            raise
        finally:
            entry.waiting = False
        return entry.generation
