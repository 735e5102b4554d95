"""A small client of either revision, for tests, the conformance suite and ``oe``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from grpc import aio

from inferlab_adapters.openengine.messages import build
from inferlab_adapters.openengine.revisions import Method, Revision

Metadata: TypeAlias = Sequence[tuple[str, str | bytes]]
Call: TypeAlias = "aio.UnaryUnaryCall[Any, Any]"
Stream: TypeAlias = "aio.UnaryStreamCall[Any, Any]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a call went: the messages that came, and the status after them."""

    messages: tuple[Any, ...]
    code: grpc.StatusCode
    details: str

    @property
    def ok(self) -> bool:
        return self.code is grpc.StatusCode.OK


class Client:
    """Calls of one revision over a channel, which stays the caller's to close.

    A request is a message of the revision, or plain data (see :func:`messages.build`). Replies are
    messages. Methods are given by name alone, as in ``call("Health")``; one that the revision has
    not is a KeyError, and so is a field.
    """

    def __init__(self, channel: aio.Channel, revision: Revision) -> None:
        self.channel = channel
        self.revision = revision

    def message(self, name: str, data: Mapping[str, Any]) -> Any:
        """A message of this revision from plain data."""
        return build(self.revision.message(name), data)

    def call(
        self,
        method: str,
        request: Any = None,
        *,
        timeout: float | None = None,
        metadata: Metadata = (),
    ) -> Call:
        """Call a unary RPC; awaited, it gives the reply or raises ``grpc.aio.AioRpcError``."""
        found = self._method(method, streaming=False)
        rpc = self.channel.unary_unary(
            found.path,
            request_serializer=found.request.SerializeToString,
            response_deserializer=found.response.FromString,
        )
        return rpc(_request(found, request), timeout=timeout, metadata=_metadata(metadata))

    def stream(
        self,
        method: str,
        request: Any = None,
        *,
        timeout: float | None = None,
        metadata: Metadata = (),
    ) -> Stream:
        """Call a streaming RPC; iterate over it for its messages, ``cancel()`` it to end it."""
        found = self._method(method, streaming=True)
        rpc = self.channel.unary_stream(
            found.path,
            request_serializer=found.request.SerializeToString,
            response_deserializer=found.response.FromString,
        )
        return rpc(_request(found, request), timeout=timeout, metadata=_metadata(metadata))

    def raw_call(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float | None = None,
        metadata: Metadata = (),
    ) -> Call:
        """As :meth:`call`, with bytes for the request and bytes for the reply."""
        rpc: Any = self.channel.unary_unary(self._method(method, streaming=False).path)
        made: Call = rpc(request, timeout=timeout, metadata=_metadata(metadata))
        return made

    def raw_stream(
        self,
        method: str,
        request: bytes,
        *,
        timeout: float | None = None,
        metadata: Metadata = (),
    ) -> Stream:
        """As :meth:`stream`, with bytes for the request and bytes for the messages."""
        rpc: Any = self.channel.unary_stream(self._method(method, streaming=True).path)
        made: Stream = rpc(request, timeout=timeout, metadata=_metadata(metadata))
        return made

    async def outcome(
        self,
        method: str,
        request: Any = None,
        *,
        timeout: float | None = None,
        metadata: Metadata = (),
    ) -> Outcome:
        """Call an RPC of either kind to its end, and tell how it went; a status does not raise.

        Raw bytes as ``request`` are sent as they are; the replies are messages all the same.
        """
        found = self.revision.method(self.revision.service_of(method), method)
        make = self.channel.unary_stream if found.server_streaming else self.channel.unary_unary
        rpc: Any = make(found.path, response_deserializer=found.response.FromString)
        data = request if isinstance(request, bytes) else _bytes(found, request)
        call = rpc(data, timeout=timeout, metadata=_metadata(metadata))
        messages: list[Any] = []
        try:
            if found.server_streaming:
                async for message in call:
                    messages.append(message)
            else:
                messages.append(await call)
        except aio.AioRpcError as error:
            return Outcome(
                messages=tuple(messages), code=error.code(), details=error.details() or ""
            )
        return Outcome(
            messages=tuple(messages), code=await call.code(), details=await call.details() or ""
        )

    def _method(self, name: str, *, streaming: bool) -> Method:
        found = self.revision.method(self.revision.service_of(name), name)
        if found.server_streaming is not streaming:
            kind = "stream" if found.server_streaming else "call"
            raise TypeError(f"{found.path}: use {kind}(...)")
        return found


def _request(method: Method, request: Any) -> Any:
    if request is None or isinstance(request, Mapping):
        return build(method.request, request or {})
    return request


def _bytes(method: Method, request: Any) -> bytes:
    data: bytes = _request(method, request).SerializeToString()
    return data


def _metadata(metadata: Metadata) -> aio.Metadata:
    return aio.Metadata(*metadata)
