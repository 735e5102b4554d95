"""A bearer token that every call must carry: ``authorization: Bearer TOKEN`` in its metadata."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from inferlab_adapters.openengine.files import UnusableFile, read_secret

_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]]"

_MAX_BYTES = 8 * 1024


def read_token(path: Path) -> str:
    """The token that a file holds, without the white space around it.

    Raises :class:`UnusableFile` where there is none, or one that no header can carry.
    """
    raw = read_secret(path)
    if len(raw) > _MAX_BYTES or not all(0x21 <= byte <= 0x7E for byte in raw):
        raise UnusableFile(f"{path} is not one token; write one word of printable ASCII into it")
    return raw.decode("ascii")


class BearerToken(grpc.aio.ServerInterceptor):
    """Answers UNAUTHENTICATED to every call, of any service, that does not carry the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        # A stream of both kinds: it fits whatever shape the refused method has, and it answers
        # without waiting for a request.
        self._refusal: _Handler = grpc.stream_stream_rpc_method_handler(_refuse)

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler | None:
        if self._carried(handler_call_details):
            return await continuation(handler_call_details)
        return self._refusal

    def _carried(self, details: grpc.HandlerCallDetails) -> bool:
        values = [value for key, value in details.invocation_metadata if key == "authorization"]
        if len(values) != 1:
            return False
        (value,) = values
        text = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
        scheme, _, token = text.partition(b" ")
        # Compared in a time that does not tell how much of it is right.
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


async def _refuse(requests: Any, context: Any) -> AsyncIterator[Any]:
    message = "the call carries no valid bearer token; send metadata 'authorization: Bearer TOKEN'"
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, message)
    yield
