"""Calls to a server, each kept as it was seen: what was sent, what came, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import grpc
import grpc.aio

from inferlab_adapters.openengine.messages import build
from inferlab_adapters.openengine.revisions import Revision

# A message of a revision, whose class is made when the program runs.
Proto = Any
Metadata = Sequence[tuple[str, str]]
Expect = Literal["served", "refused", "any"]

OK = grpc.StatusCode.OK
_MAX_BYTES = 256 << 20


@dataclass(kw_only=True, slots=True, eq=False)
class Call:
    """One call. ``code`` is ``None`` while it runs.

    ``expect`` says what the caller knows the server must do with it. ``ended`` is who ended it:
    the server, or we by cancelling it, or its deadline, which is far beyond what it needs.
    """

    server: str
    method: str
    request: Proto
    expect: Expect = "any"
    messages: list[Proto] = field(default_factory=list)
    code: grpc.StatusCode | None = None
    details: str = ""
    ended: Literal["server", "cancelled", "deadline"] = "server"

    @property
    def ok(self) -> bool:
        """Whether the server ended it with OK."""
        return self.code is OK

    @property
    def reply(self) -> Proto:
        """The answer of a unary call, the last message of a stream."""
        return self.messages[-1]

    @property
    def error(self) -> Proto | None:
        """The first error event."""
        return next((m.error for m in self.messages if arm(m) == "error"), None)

    @property
    def refused(self) -> bool:
        """Whether it was not served: another status than OK, or nothing but an error event."""
        if self.ended != "server":
            return False
        failed = self.code is not None and not self.ok
        return failed or (bool(self.messages) and arm(self.messages[0]) == "error")

    def told(self) -> str:
        """How it ended, for people."""
        if self.ended == "deadline":
            return f"{self.method} did not end ({len(self.messages)} messages)"
        if self.error is not None:
            return f"{self.method}: error event {error_name(self.error)}: {self.error.message}"
        if self.ok:
            return f"{self.method}: OK after {len(self.messages)} messages"
        name = self.code.name if self.code else "running"
        return f"{self.method}: {name}: {self.details}"


def arm(message: Proto) -> str | None:
    """Which event a message of a stream carries."""
    oneofs = message.DESCRIPTOR.oneofs_by_name
    found: str | None = message.WhichOneof("event") if "event" in oneofs else None
    return found


def error_name(error: Proto) -> str:
    """The code of an EngineError, as the contract spells it."""
    return enum_name(error, "code")


def enum_name(message: Proto, name: str) -> str:
    """The name of an enum field's value; its number where the contract has none."""
    value = getattr(message, name)
    found = message.DESCRIPTOR.fields_by_name[name].enum_type.values_by_number.get(value)
    return found.name if found else str(value)


class Stream:
    """A streaming call that is read message by message."""

    def __init__(self, call: Call, running: grpc.aio.UnaryStreamCall[Proto, Proto]) -> None:
        self.call = call
        self._running = running

    async def next(self) -> Proto | None:
        """The next message; ``None`` once the stream has ended."""
        if self.call.code is not None:
            return None
        try:
            message = await self._running.read()
        except grpc.aio.AioRpcError as error:
            _end(self.call, error.code(), error.details())
            return None
        if message is grpc.aio.EOF:
            _end(self.call, await self._running.code(), await self._running.details())
            return None
        self.call.messages.append(message)
        return message

    async def rest(self) -> Call:
        """The call, read to its end."""
        while await self.next() is not None:
            pass
        return self.call

    def cancel(self) -> None:
        """Give the call up; a server that keeps to the rules ends the work."""
        if self.call.code is None:
            self._running.cancel()
            self.call.ended = "cancelled"
            self.call.code = grpc.StatusCode.CANCELLED


def _end(call: Call, code: grpc.StatusCode, details: str | None) -> None:
    call.code, call.details = code, details or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        call.ended = "deadline"


class Wire:
    """A connection to one server in one revision. ``timeout`` of each call is in seconds."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        revision: Revision,
        address: str,
        *,
        timeout: float,
        seen: list[Call],
        metadata: Metadata = (),
    ) -> None:
        self.revision = revision
        self.address = address
        self.timeout = timeout
        self._channel = channel
        self._seen = seen
        self._metadata = tuple(metadata)

    def has(self, method: str) -> bool:
        """Whether the revision knows a call."""
        return any(method in self.revision.methods(name) for name in self.revision.services)

    def message(self, name: str, data: Mapping[str, Any] | None = None) -> Proto:
        """A message from plain data."""
        return build(self.revision.message(name), data or {})

    async def unary(
        self,
        method: str,
        data: Mapping[str, Any] | Proto | None = None,
        *,
        expect: Expect = "any",
        metadata: Metadata = (),
    ) -> Call:
        """One answer to one request."""
        call, multi = self._call(method, data, expect, self._channel.unary_unary)
        running = multi(call.request, timeout=self.timeout, metadata=self._with(metadata))
        try:
            call.messages.append(await running)
            _end(call, OK, "")
        except grpc.aio.AioRpcError as error:
            _end(call, error.code(), error.details())
        return call

    def open(
        self,
        method: str,
        data: Mapping[str, Any] | Proto | None = None,
        *,
        expect: Expect = "any",
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> Stream:
        """A stream that the caller reads. ``timeout`` in seconds takes the place of the usual."""
        call, multi = self._call(method, data, expect, self._channel.unary_stream)
        running = multi(
            call.request, timeout=timeout or self.timeout, metadata=self._with(metadata)
        )
        return Stream(call, running)

    async def stream(
        self,
        method: str,
        data: Mapping[str, Any] | Proto | None = None,
        *,
        expect: Expect = "any",
        metadata: Metadata = (),
    ) -> Call:
        """A stream, read to its end."""
        return await self.open(method, data, expect=expect, metadata=metadata).rest()

    def _with(self, metadata: Metadata) -> tuple[tuple[str, str], ...]:
        return (*self._metadata, *metadata)

    def _call(
        self, method: str, data: Any, expect: Expect, make: Callable[..., Any]
    ) -> tuple[Call, Any]:
        found = self.revision.method(self.revision.service_of(method), method)
        plain = data is None or isinstance(data, Mapping)
        request = self.message(found.request.DESCRIPTOR.name, data) if plain else data
        call = Call(server=self.address, method=method, request=request, expect=expect)
        self._seen.append(call)
        return call, make(
            found.path,
            request_serializer=found.request.SerializeToString,
            response_deserializer=found.response.FromString,
        )


def channel(address: str, *, ca: bytes | None = None) -> grpc.aio.Channel:
    """A channel to ``host:port``; with TLS where the certificates of an authority are given."""
    options = [
        ("grpc.max_receive_message_length", _MAX_BYTES),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if ca is None:
        return grpc.aio.insecure_channel(address, options=options)
    credentials = grpc.ssl_channel_credentials(ca)
    return grpc.aio.secure_channel(address, credentials, options=options)
