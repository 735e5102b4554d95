"""``serve``: everything that the command line asks for, put together and run."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from errno import EADDRINUSE
from typing import Any

from grpc import aio

from inferlab_adapters.openengine import backend, logs
from inferlab_adapters.openengine.auth import BearerToken, read_token
from inferlab_adapters.openengine.backend import NoBackend
from inferlab_adapters.openengine.command_line import HostPort, ServeOptions, parse
from inferlab_adapters.openengine.engine import Engine
from inferlab_adapters.openengine.files import UnusableFile, read_secret
from inferlab_adapters.openengine.launch import KEY_VARIABLE
from inferlab_adapters.openengine.metrics import Metrics
from inferlab_adapters.openengine.metrics_http import MetricsServer
from inferlab_adapters.openengine.observed import CountedCalls, counted
from inferlab_adapters.openengine.server import Server
from inferlab_adapters.openengine.supervisor import Supervisor
from inferlab_adapters.openengine.tls import server_credentials

_log = logging.getLogger(__name__)

WRONG_USE = 2
PORT_TAKEN = 3

_MIB = 1024 * 1024


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code (see ``--help``)."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    logs.configure()
    try:
        create = backend.load(options.backend or backend.backend_module(options.framework))
        secrets = _secrets(options)
    except (NoBackend, UnusableFile) as error:
        return _refused(str(error), WRONG_USE)

    async def serve() -> int:
        # What no endpoint of an engine tells, its command line may.
        known = {"argv": options.argv} if options.argv else {}
        engine = create(options.engine, options.role, known)
        try:
            return await _serve(options, engine, secrets)
        finally:
            await engine.close()

    return asyncio.run(serve())


async def _serve(options: ServeOptions, engine: Engine, secrets: Mapping[str, Any]) -> int:
    metrics = Metrics()
    interceptors: list[aio.ServerInterceptor] = []
    if options.metrics is not None:
        interceptors.append(CountedCalls(metrics))
        engine = counted(engine, metrics)
    if "token" in secrets:
        interceptors.append(BearerToken(secrets["token"]))
    server = Server(
        engine,
        listen=str(options.listen),
        instance_id=options.instance_id or None,
        session_key=secrets.get("session_key"),
        credentials=secrets.get("credentials"),
        interceptors=interceptors,
        max_message_bytes=options.max_message_mib * _MIB,
    )
    supervisor = Supervisor(
        engine,
        server,
        argv=options.argv,
        grace=options.grace,
        linger=options.linger,
        told=metrics.engine_is,
    )
    exposition = MetricsServer(metrics)
    try:
        supervisor.catch_signals()
        try:
            await _listen("--listen", options.listen, server.start)
            if options.metrics is not None:
                at = options.metrics
                await _listen("--metrics", at, lambda: exposition.start(at.host, at.port))
        except OSError as error:
            return _refused(str(error), PORT_TAKEN)
        warn_if_open(options)
        return await supervisor.run()
    finally:
        await server.stop(0)
        await exposition.stop()


def warn_if_open(options: ServeOptions) -> None:
    """Say so where other machines can use the engine without any proof of who they are."""
    if not (options.listen.loopback or options.tls or options.token_file):
        _log.warning(
            "everyone who reaches the port can use the engine; "
            "give --tls-cert and --tls-key, or --token-file",
            extra={"listen": str(options.listen)},
        )


async def _listen(option: str, at: HostPort, start: Callable[[], Awaitable[int]]) -> None:
    """Raises :class:`OSError` with a whole sentence."""
    try:
        # gRPC would tell the reason to its own log alone.
        _probe(at)
        port = await start()
    except (OSError, RuntimeError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"{option}: cannot listen on {at}: {reason}") from None
    bound = HostPort(host=at.host, port=port)
    _log.info("listening", extra={"option": option, "address": str(bound), "port": port})


def _probe(at: HostPort) -> None:
    """Raises :class:`OSError` where nothing could listen there now."""
    failed: list[OSError] = []
    found = socket.getaddrinfo(at.host, at.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as test:
                # As servers do: a connection that is closing does not keep a port.
                test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                test.bind(address)
                test.listen(1)
        except OSError as error:
            failed.append(error)
    # A name may have an address of a family that this machine has not; the other one will do.
    taken = [error for error in failed if error.errno == EADDRINUSE]
    if taken or len(failed) == len(found):
        raise [*taken, *failed][0]


def _secrets(options: ServeOptions) -> dict[str, Any]:
    """What the files of the command line hold, and the session key of the environment.

    Raises :class:`UnusableFile`.
    """
    found: dict[str, Any] = {}
    if options.tls is not None:
        found["credentials"] = server_credentials(options.tls)
    if options.token_file is not None:
        found["token"] = read_token(options.token_file)
    if options.session_key_file is not None:
        found["session_key"] = read_secret(options.session_key_file)
    elif key := os.environ.get(KEY_VARIABLE, "").strip():
        found["session_key"] = key.encode()
    return found


def _refused(sentence: str, code: int) -> int:
    sys.stderr.write(f"openengine: {sentence}\n")
    return code
