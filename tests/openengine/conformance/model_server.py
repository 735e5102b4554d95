"""A small OpenEngine server that keeps every rule, in either revision, made to be broken.

It knows nothing of the product's server. What it sends is plain data until the last moment, and
every request and answer goes through a hook that a test may replace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, TypeAlias

import grpc
from grpc import aio

from inferlab_adapters.openengine.messages import build
from inferlab_adapters.openengine.revisions import Method, Revision

Data: TypeAlias = dict[str, Any]
Context: TypeAlias = "aio.ServicerContext[Any, Any]"


class Refusal(Exception):
    """A status other than OK."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = grpc.StatusCode[code]
        self.message = message


class Hooks:
    """What a fault may change; here, nothing. ``method`` is the name of the call."""

    def request(self, method: str, request: Any) -> None:
        """Changes a request in place before it is looked at."""

    def metadata(self, values: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """The metadata as the server sees it."""
        return values

    def reply(self, method: str, request: Any, data: Data) -> Data:
        """The answer of a unary call."""
        return data

    def refusal(self, method: str, request: Any, refusal: Refusal) -> Data | Refusal:
        """What is sent in place of a refusal: another, or a message and OK."""
        return refusal

    def stream(self, method: str, request: Any, events: AsyncIterator[Data]) -> AsyncIterator[Data]:
        """The messages of a stream; may raise :class:`Refusal`."""
        return events


Handler: TypeAlias = Callable[[Any, Mapping[str, list[str]]], Awaitable[Data]]


class Transport(grpc.GenericRpcHandler):
    """Serves the methods of ``model`` named as the calls, on a port of loopback."""

    def __init__(self, model: Any, revision: Revision, hooks: Hooks) -> None:
        self.model = model
        self.revision = revision
        self.hooks = hooks
        self.address = ""
        self._server: aio.Server | None = None

    async def __aenter__(self) -> Transport:
        self._server = aio.server()
        self._server.add_generic_rpc_handlers((self,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End every call and close the port; may be done twice."""
        assert self._server is not None
        await self._server.stop(0)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        service, _, name = details.method.lstrip("/").partition("/")
        if service not in self.revision.services or name not in self.revision.methods(service):
            return None
        method = self.revision.method(service, name)
        made: dict[str, Any] = {
            "request_deserializer": method.request.FromString,
            "response_serializer": method.response.SerializeToString,
        }
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._streaming(name, method), **made)
        return grpc.unary_unary_rpc_method_handler(self._unary(name, method), **made)

    def _unary(self, name: str, method: Method) -> Any:
        async def serve(request: Any, context: Context) -> Any:
            self.hooks.request(name, request)
            data: Data | Refusal
            try:
                data = await getattr(self.model, name)(request, self._metadata(context))
            except Refusal as refusal:
                data = self.hooks.refusal(name, request, refusal)
                if isinstance(data, Refusal):
                    await context.abort(data.code, data.message)
            assert not isinstance(data, Refusal)
            return build(method.response, self.hooks.reply(name, request, data))

        return serve

    def _streaming(self, name: str, method: Method) -> Any:
        async def serve(request: Any, context: Context) -> Any:
            self.hooks.request(name, request)
            try:
                events = getattr(self.model, name)(request, self._metadata(context))
                async for data in self.hooks.stream(name, request, events):
                    yield build(method.response, data)
                    # Lets a client that reads along see each message by itself.
                    await asyncio.sleep(0)
            except Refusal as refusal:
                instead = self.hooks.refusal(name, request, refusal)
                if isinstance(instead, Refusal):
                    await context.abort(instead.code, instead.message)
                else:
                    yield build(method.response, instead)

        return serve

    def _metadata(self, context: Context) -> dict[str, list[str]]:
        pairs = [(key, str(value)) for key, value in context.invocation_metadata() or ()]
        found: dict[str, list[str]] = {}
        for key, value in self.hooks.metadata(pairs):
            found.setdefault(key, []).append(value)
        return found
