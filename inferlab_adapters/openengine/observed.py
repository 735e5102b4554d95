"""Where the server's calls and the engine's tokens are counted; only with ``--metrics``."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import grpc

from inferlab_adapters.openengine.engine import (
    Engine,
    Event,
    GenerateRequest,
    Generation,
    TokenEvent,
    Usage,
)
from inferlab_adapters.openengine.metrics import Metrics
from inferlab_adapters.openengine.revisions import SEED, V0_1_0

_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]]"

_REVISION = {service: found.name for found in (SEED, V0_1_0) for service in found.services}
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_MAKERS = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "unary_stream": grpc.unary_stream_rpc_method_handler,
    "stream_unary": grpc.stream_unary_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}


class CountedCalls(grpc.aio.ServerInterceptor):
    """Counts every call with its status code and its duration.

    It stands before every other interceptor, so that what those refuse is counted too.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None:
            # Whatever name a client makes up would be a sample of its own.
            self._metrics.requests.add("unknown", "", "UNIMPLEMENTED")
            return None
        _, service, rpc = handler_call_details.method.split("/")
        labels = (rpc, _REVISION.get(service, ""))
        kind = f"{_arity(handler.request_streaming)}_{_arity(handler.response_streaming)}"
        behaviour = getattr(handler, kind)
        if not (inspect.isasyncgenfunction(behaviour) or inspect.iscoroutinefunction(behaviour)):
            # Run in a thread, where nothing may be counted.
            return handler
        counted = self._counted(behaviour, labels)
        return _MAKERS[kind](counted, handler.request_deserializer, handler.response_serializer)

    def _counted(self, behaviour: Any, labels: tuple[str, str]) -> Any:
        if inspect.isasyncgenfunction(behaviour):

            async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
                with self._call(labels, context):
                    async for message in behaviour(request, context):
                        yield message

            return stream

        async def call(request: Any, context: Any) -> Any:
            with self._call(labels, context):
                return await behaviour(request, context)

        return call

    @contextmanager
    def _call(self, labels: tuple[str, str], context: Any) -> Iterator[None]:
        start = time.perf_counter()
        self._metrics.in_flight.add(*labels)
        code = ""
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            # The client went away, or its deadline passed.
            left = context.time_remaining()
            code = "DEADLINE_EXCEEDED" if left is not None and left <= 0 else "CANCELLED"
            raise
        except grpc.aio.AbortError:
            raise
        except BaseException:
            code = "UNKNOWN"
            raise
        finally:
            self._metrics.in_flight.add(*labels, amount=-1)
            self._metrics.duration.observe(*labels, seconds=time.perf_counter() - start)
            self._metrics.requests.add(*labels, code or _code(context))


def counted(engine: Engine, metrics: Metrics) -> Engine:
    """The same engine, of which every output token is counted."""
    return cast("Engine", _CountedEngine(engine, metrics))


class _CountedEngine:
    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def accept(self, request: GenerateRequest) -> Generation:
        start = time.perf_counter()
        return _CountedGeneration(await self._engine.accept(request), self._metrics, start)


class _CountedGeneration:
    def __init__(self, generation: Generation, metrics: Metrics, start: float) -> None:
        self._generation = generation
        self._events = aiter(generation)
        self._metrics = metrics
        self._start: float | None = start

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        if type(event) is TokenEvent and event.token_ids:
            self._metrics.tokens.add(amount=len(event.token_ids))
            if self._start is not None:
                self._metrics.first_token.observe(seconds=time.perf_counter() - self._start)
                self._start = None
        return event

    @property
    def usage(self) -> Usage:
        return self._generation.usage

    async def close(self) -> None:
        await self._generation.close()


def _arity(streaming: bool) -> str:
    return "stream" if streaming else "unary"


def _code(context: Any) -> str:
    code = context.code()
    if isinstance(code, grpc.StatusCode):
        return code.name
    return _CODES.get(code or 0, "UNKNOWN")
