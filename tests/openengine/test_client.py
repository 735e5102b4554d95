"""The client, against handlers written out here."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc
import pytest
from grpc import aio

from inferlab_adapters.openengine.client import Client, Outcome
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision

BOTH = pytest.mark.parametrize("revision", [SEED, V0_1_0], ids=lambda revision: revision.name)
T = TypeVar("T")


def serving(
    handlers: Sequence[grpc.GenericRpcHandler], use: Callable[[aio.Channel], Awaitable[T]]
) -> T:
    """What ``use`` gives with a channel to a server of these handlers."""

    async def main() -> T:
        server = aio.server()
        server.add_generic_rpc_handlers(tuple(handlers))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                return await use(channel)
        finally:
            await server.stop(None)

    return asyncio.run(main())


def handlers(revision: Revision) -> list[grpc.GenericRpcHandler]:
    """Health tells the metadata, Generate repeats the request's id three times and may fail."""
    generate = revision.method(revision.service_of("Generate"), "Generate")
    health = revision.method(revision.service_of("Health"), "Health")

    async def on_health(request: Any, context: Any) -> Any:
        reply = health.response(state=2)
        for key, value in context.invocation_metadata():
            reply.checks.add(name=key, message=str(value))
        reply.checks.add(name="model", message=request.model)
        return reply

    async def on_generate(request: Any, context: Any) -> AsyncIterator[Any]:
        for index in range(3):
            yield generate.response(request_id=request.request_id, token={"output_index": index})
        if request.model == "bad":
            await context.abort(grpc.StatusCode.INTERNAL, "it broke")

    table: dict[str, dict[str, Any]] = {}
    for method, make, serve in (
        (generate, grpc.unary_stream_rpc_method_handler, on_generate),
        (health, grpc.unary_unary_rpc_method_handler, on_health),
    ):
        _, service, name = method.path.split("/")
        table.setdefault(service, {})[name] = make(
            serve,
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
    return [grpc.method_handlers_generic_handler(*entry) for entry in table.items()]


@BOTH
def test_unary_calls(revision: Revision) -> None:
    async def use(channel: aio.Channel) -> dict[str, str]:
        client = Client(channel, revision)
        reply = await client.call("Health", {"model": "m"}, timeout=30, metadata=[("a-key", "v")])
        assert isinstance(reply, revision.message("HealthResponse"))
        raw = await client.raw_call(
            "Health", client.message("HealthRequest", {}).SerializeToString()
        )
        assert revision.message("HealthResponse").FromString(raw).state == 2
        return {check.name: check.message for check in reply.checks}

    checks = serving(handlers(revision), use)
    assert checks["a-key"] == "v"
    assert checks["model"] == "m"


@BOTH
def test_streams(revision: Revision) -> None:
    async def use(channel: aio.Channel) -> tuple[list[Any], list[bytes]]:
        client = Client(channel, revision)
        request = client.message("GenerateRequest", {"request_id": "r"})
        messages = [message async for message in client.stream("Generate", request)]
        raw = client.raw_stream("Generate", request.SerializeToString())
        return messages, [message async for message in raw]

    messages, raw = serving(handlers(revision), use)
    assert [message.token.output_index for message in messages] == [0, 1, 2]
    assert all(message.token.HasField("output_index") for message in messages)
    assert raw == [message.SerializeToString() for message in messages]


@BOTH
def test_a_stream_can_be_cancelled(revision: Revision) -> None:
    async def use(channel: aio.Channel) -> grpc.StatusCode:
        call = Client(channel, revision).stream("Generate", {"request_id": "r"})
        async for _ in call:
            call.cancel()
            break
        return await call.code()

    assert serving(handlers(revision), use) is grpc.StatusCode.CANCELLED


def test_outcomes_tell_messages_and_status() -> None:
    async def use(channel: aio.Channel) -> list[Outcome]:
        client = Client(channel, SEED)
        return [
            await client.outcome("Generate", {"request_id": "r"}),
            await client.outcome("Generate", {"request_id": "r", "model": "bad"}),
            await client.outcome("Health", b""),
            await client.outcome("Health", b"\xff"),
            await client.outcome("Score"),
        ]

    good, broken, health, odd, missing = serving(handlers(SEED), use)
    assert good.ok
    assert len(good.messages) == 3
    assert (broken.code, broken.details) == (grpc.StatusCode.INTERNAL, "it broke")
    assert len(broken.messages) == 3
    assert health.ok
    assert health.messages[0].state == 2
    assert not odd.ok
    assert odd.messages == ()
    assert missing.code is grpc.StatusCode.UNIMPLEMENTED


def test_a_status_raises_from_a_call() -> None:
    async def use(channel: aio.Channel) -> None:
        await Client(channel, SEED).call("Score")

    with pytest.raises(aio.AioRpcError, match="UNIMPLEMENTED"):
        serving(handlers(SEED), use)


def test_wrong_use_is_told_before_anything_is_sent() -> None:
    async def use(channel: aio.Channel) -> None:
        client = Client(channel, V0_1_0)
        with pytest.raises(KeyError, match="Embed: no RPC of OpenEngine v0"):
            client.call("Embed")
        with pytest.raises(KeyError, match="no field priority"):
            client.stream("Generate", {"priority": 1})
        with pytest.raises(TypeError, match=r"use stream\(...\)"):
            client.call("Generate")
        with pytest.raises(TypeError, match=r"use call\(...\)"):
            client.stream("Health")

    serving((), use)
