"""The gRPC server beside an engine: both revisions, health and reflection on one port."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import (  # type: ignore[import-untyped, unused-ignore]
    health_pb2,
    health_pb2_grpc,
)
from grpc_health.v1.health import (  # type: ignore[import-untyped, unused-ignore]
    aio as health_aio,
)

from inferlab_adapters.openengine.drain import end_all
from inferlab_adapters.openengine.engine import Engine, EngineFault, HealthState, Role
from inferlab_adapters.openengine.errors import unexpected
from inferlab_adapters.openengine.faces.seed import SeedFace
from inferlab_adapters.openengine.faces.v0_1_0 import ReleaseFace
from inferlab_adapters.openengine.lora import Loras
from inferlab_adapters.openengine.reflection import Reflection
from inferlab_adapters.openengine.registry import Registry
from inferlab_adapters.openengine.state import ServerState

_log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 16 << 20
"""The largest message that is taken: a prompt of some million token ids."""

_LOOK_SECONDS = 0.5
"""How often an engine that loads is asked whether it is there."""

_STOPPED = EngineFault("draining", "this server was stopped; ask another one", retryable=True)


class Server:
    """Serves one engine. Needs a running event loop; the engine stays the caller's to close.

    ``listen``: ``HOST:PORT``, port 0 for any that is free. ``instance_id``: one is made up where
    none is given. ``session_key``: what KV sessions are sealed with, the same on all servers.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        listen: str,
        instance_id: str | None = None,
        session_key: bytes | None = None,
        credentials: grpc.ServerCredentials | None = None,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        max_message_bytes: int = MAX_MESSAGE_BYTES,
    ) -> None:
        self._listen = listen
        self._credentials = credentials
        name = instance_id or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._state = ServerState(engine, name, session_key)
        self._state.changed = self._tell
        loras = Loras(self._state)
        faces = (SeedFace(self._state, loras), ReleaseFace(self._state, loras))
        self._services = [service for face in faces for service in face.revision.services]
        self._health = health_aio.HealthServicer()
        self._server = grpc.aio.server(
            interceptors=interceptors, options=_options(max_message_bytes)
        )
        for face in faces:
            self._server.add_generic_rpc_handlers(face.handlers())
        self._server.add_generic_rpc_handlers(Reflection().handlers())
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def registry(self) -> Registry:
        """The requests in flight."""
        return self._state.registry

    async def start(self) -> int:
        """Listen; returns the port. Raises RuntimeError where the address cannot be had."""
        if self._state.role is not Role.AGGREGATED:
            self._state.seal.warn()
        if self._credentials is None:
            port = self._server.add_insecure_port(self._listen)
        else:
            port = self._server.add_secure_port(self._listen, self._credentials)
        await self._publish()
        await self._server.start()
        self._spawn(self._look())
        return port

    def set_state(self, state: HealthState, reason: str = "") -> None:
        """What a supervisor knows of the engine; ``draining`` is for good."""
        self._state.declare(state, reason)

    async def stop(self, grace: float) -> None:
        """Take nothing new; what still runs after ``grace`` seconds ends with an error.

        May be called twice.
        """
        self._state.drain()
        registry = self._state.registry
        changed = asyncio.Event()
        registry.listeners.add(changed)
        try:
            async with asyncio.timeout(grace):
                while len(registry):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            pass
        finally:
            registry.listeners.discard(changed)
        await end_all(self._state, _STOPPED)
        await self._health.enter_graceful_shutdown()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(None)

    async def wait(self) -> None:
        """Return once the server has stopped."""
        await self._server.wait_for_termination()

    async def _look(self) -> None:
        """Ask for the engine's facts until they are known; Health and clients hear of it."""
        while True:
            with suppress(EngineFault):
                try:
                    await self._state.facts()
                    return
                except EngineFault:
                    raise
                except Exception as error:
                    unexpected(error)
            await asyncio.sleep(_LOOK_SECONDS)

    def _tell(self) -> None:
        self._spawn(self._publish())

    async def _publish(self) -> None:
        """Tell grpc.health.v1 whether requests are taken."""
        up = self._state.current in ("ready", "degraded")
        kind = health_pb2.HealthCheckResponse
        status = kind.SERVING if up else kind.NOT_SERVING
        for service in ("", *self._services):
            await self._health.set(service, status)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _options(max_message_bytes: int) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        # What an engine tells is not limited: all candidates of a vocabulary are many.
        ("grpc.max_send_message_length", -1),
        # A second server on the same port fails instead of taking every other connection.
        ("grpc.so_reuseport", 0),
        # A client that is gone without a word is noticed; one that asks often is not punished.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
    ]
