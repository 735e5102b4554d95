"""What the faces of both revisions have alike: handlers from bytes to bytes, and shared RPCs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from inferlab_adapters.openengine.abort import Aborted, abort_all, abort_request, abort_session
from inferlab_adapters.openengine.discovery import Discovery
from inferlab_adapters.openengine.engine import EngineFault, Lora
from inferlab_adapters.openengine.errors import invalid, refuse, unexpected
from inferlab_adapters.openengine.events import kv_events
from inferlab_adapters.openengine.generate import Generate, RoutingOf
from inferlab_adapters.openengine.health import Health
from inferlab_adapters.openengine.lora import Loras
from inferlab_adapters.openengine.requests import parse, read_session
from inferlab_adapters.openengine.revisions import Revision
from inferlab_adapters.openengine.state import ServerState

Unary: TypeAlias = Callable[[Any], Awaitable[Any]]
"""From a request message to its reply; raises EngineFault."""

Streaming: TypeAlias = Callable[[Any], AsyncIterator[Any]]
"""From a request message to its messages; raises EngineFault only before the first."""


class Face:
    """The RPCs of one revision, by the names of their methods."""

    def __init__(
        self, state: ServerState, loras: Loras, revision: Revision, routing: RoutingOf
    ) -> None:
        self.state = state
        self.revision = revision
        self.discovery = Discovery(state, revision)
        self._health = Health(state, revision)
        self._loras = loras
        self._generate = Generate(state, loras, revision, routing)

    @property
    def unary(self) -> dict[str, Unary]:
        """The unary RPCs; a face adds its own."""
        return {
            "GetModelInfo": lambda request: self.discovery.model_info(request.model),
            "GetLoad": lambda request: self.discovery.load_info(request.include_per_rank),
            "Health": lambda request: self._health.report(
                request.include_inference_probe, request.model, request.role
            ),
            "Abort": self._abort,
            "LoadLora": self._load_lora,
            "UnloadLora": self._unload_lora,
            "ListLoras": self._list_loras,
            "GetKvEventSources": lambda request: self.discovery.event_sources(
                request.data_parallel_ranks
            ),
        }

    @property
    def streaming(self) -> dict[str, Streaming]:
        """The streaming RPCs but Generate; a face adds its own."""
        return {"SubscribeKvEvents": self._kv_events}

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """What a ``grpc.aio`` server has to be given, one for each service."""
        unary, streaming = self.unary, self.streaming
        made = []
        for service in self.revision.services:
            methods: dict[str, Any] = {}
            for name in self.revision.methods(service):
                kind = self.revision.method(service, name).request
                if name == "Generate":
                    methods[name] = grpc.unary_stream_rpc_method_handler(self._generating())
                elif name in streaming:
                    handler = _streaming(kind, streaming[name])
                    methods[name] = grpc.unary_stream_rpc_method_handler(handler)
                else:
                    handler = _unary(kind, unary[name])
                    methods[name] = grpc.unary_unary_rpc_method_handler(handler)
            made.append(grpc.method_handlers_generic_handler(service, methods))
        return tuple(made)

    def _generating(self) -> Any:
        generate = self._generate

        # gRPC asks whether a handler is a coroutine function, which no callable object is.
        async def handle(raw: bytes, context: Any) -> None:
            await generate(raw, context)

        return handle

    async def _abort(self, request: Any) -> Any:
        match request.WhichOneof("target"):
            case "request_id":
                result = await abort_request(self.state, request.request_id)
            case "kv_session":
                result = await abort_session(self.state, read_session(request.kv_session))
            case "all_requests":
                result = await abort_all(self.state)
            case _:
                raise invalid("target: is missing; set request_id, kv_session or all_requests")
        return self._aborted(result)

    def _aborted(self, result: Aborted) -> Any:
        name = "ABORTED" if result.done else "ALREADY_FINISHED"
        status = self.revision.enum("AbortStatus").Value(f"ABORT_STATUS_{name}")
        return self.revision.message("AbortResponse")(status=status, message=result.message)

    async def _load_lora(self, request: Any) -> Any:
        adapter = request.adapter
        lora = Lora(lora_id=adapter.lora_id, name=adapter.lora_name, path=adapter.source_path)
        already = await self._loras.load(lora)
        reply = self.revision.message("LoadLoraResponse")(already_loaded=already)
        _fill_lora(reply.adapter, lora)
        return reply

    async def _unload_lora(self, request: Any) -> Any:
        reply = self.revision.message("UnloadLoraResponse")()
        _fill_lora(reply.adapter, await self._loras.unload(request.lora_name))
        return reply

    async def _list_loras(self, request: Any) -> Any:
        reply = self.revision.message("ListLorasResponse")()
        for lora in await self._loras.all():
            _fill_lora(reply.adapters.add(), lora)
        return reply

    def _kv_events(self, request: Any) -> AsyncIterator[Any]:
        return kv_events(
            self.state,
            self.revision,
            request.data_parallel_ranks,
            start=request.start_sequence_number,
            snapshot=request.include_snapshot,
        )


def _unary(kind: Any, behaviour: Unary) -> Any:
    async def handle(raw: bytes, context: Any) -> bytes:
        try:
            reply = await behaviour(parse(kind, raw))
            data: bytes = reply.SerializeToString()
        except EngineFault as fault:
            await refuse(context, fault)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not the client left but the engine gave up: without a status it would hang.
            await refuse(context, unexpected(error))
        except Exception as error:
            await refuse(context, unexpected(error))
        return data

    return handle


def _streaming(kind: Any, behaviour: Streaming) -> Any:
    async def handle(raw: bytes, context: Any) -> None:
        messages = None
        try:
            messages = behaviour(parse(kind, raw))
            while True:
                try:
                    message = await anext(messages)
                except StopAsyncIteration:
                    return
                except EngineFault as fault:
                    await refuse(context, fault)
                except Exception as error:
                    await refuse(context, unexpected(error))
                await context.write(message.SerializeToString())
        except EngineFault as fault:
            await refuse(context, fault)
        finally:
            close = getattr(messages, "aclose", None)
            if close is not None:
                await close()

    return handle


def _fill_lora(message: Any, lora: Lora) -> None:
    message.lora_id = lora.lora_id
    message.lora_name = lora.name
    message.source_path = lora.path
