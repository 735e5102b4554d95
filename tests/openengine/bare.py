"""A gRPC server with one method of each kind, for what stands before any service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc import aio


async def _echo(request: bytes, context: Any) -> bytes:
    if request == b"fail":
        raise RuntimeError("a bug")
    if request == b"refuse":
        await context.abort(grpc.StatusCode.NOT_FOUND, "no")
    if request == b"sleep":
        await asyncio.sleep(600)
    return request


async def _count(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for number in range(3):
        yield str(number).encode()
    if request == b"refuse":
        await context.abort(grpc.StatusCode.UNAVAILABLE, "no")
    if request == b"sleep":
        await asyncio.sleep(600)


async def _both(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
    async for request in requests:
        yield request


_HANDLERS: dict[str, Any] = {
    "Health": grpc.unary_unary_rpc_method_handler(_echo),
    "Generate": grpc.unary_stream_rpc_method_handler(_count),
    "Both": grpc.stream_stream_rpc_method_handler(_both),
}
UNARY, STREAM, BOTH = (f"/openengine.v1.OpenEngine/{name}" for name in _HANDLERS)


@asynccontextmanager
async def serving(
    interceptors: Sequence[aio.ServerInterceptor] = (),
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[str]:
    """The server while the body runs; its address."""
    server = aio.server(interceptors=interceptors)
    handler = grpc.method_handlers_generic_handler("openengine.v1.OpenEngine", _HANDLERS)
    server.add_generic_rpc_handlers((handler,))
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
