"""``GET /metrics`` over HTTP/1.1: all that a Prometheus server needs, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from inferlab_adapters.openengine.metrics import CONTENT_TYPE, Metrics

_PATIENCE = 10.0
"""Seconds for a request to arrive and for its answer to be taken."""


class MetricsServer:
    """Answers one request a connection."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises :class:`OSError` where it cannot."""
        self._server = await asyncio.start_server(self._answer, host, port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more; answers that are under way are finished by themselves."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(
                OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
            ):
                async with asyncio.timeout(_PATIENCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(head))
                    await writer.drain()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _response(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _message("400 Bad Request", "")
        method, target, _ = words
        if target.partition("?")[0] != "/metrics":
            return _message("404 Not Found", "only /metrics is here\n")
        if method not in ("GET", "HEAD"):
            return _message("405 Method Not Allowed", "", "Allow: GET, HEAD\r\n")
        return _message("200 OK", self._metrics.text(), head_only=method == "HEAD")


def _message(status: str, body: str, extra: str = "", *, head_only: bool = False) -> bytes:
    raw = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(raw)}\r\n"
        f"{extra}Connection: close\r\n\r\n"
    )
    return head.encode() + (b"" if head_only else raw)
