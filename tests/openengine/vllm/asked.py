"""Requests and their answers, for the tests of the vLLM backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from oe_adapter_vllm.engine import create

from inferlab_adapters.openengine.engine import (
    Engine,
    EngineFault,
    Event,
    GenerateRequest,
    Role,
    Usage,
)
from tests.openengine.vllm.fake_server import FakeVllm, fake_vllm

NIXL = ("serve", "m", "--kv-transfer-config", '{"kv_connector":"NixlConnector"}')


@asynccontextmanager
async def backend(
    role: Role = Role.AGGREGATED, options: dict[str, Any] | None = None, **fields: Any
) -> AsyncIterator[tuple[Engine, FakeVllm]]:
    """A backend of a fake server."""
    async with fake_vllm(**fields) as server:
        engine = create(server.url, role, {"environment": {}, **(options or {})})
        try:
            yield engine, server
        finally:
            await engine.close()


def asking(token_ids: Sequence[int] | None = (1, 2, 3), **fields: Any) -> GenerateRequest:
    """A request for the model of the fake server."""
    given: dict[str, Any] = {"request_id": "r", "model": "tiny", "token_ids": token_ids}
    return GenerateRequest(**{"prompt": None, **given, **fields})


async def told(engine: Engine, request: GenerateRequest) -> tuple[list[Event], Usage]:
    """All events, and the usage after them."""
    generation = await engine.accept(request)
    try:
        return [event async for event in generation], generation.usage
    finally:
        await generation.close()


async def fault(doing: Awaitable[Any]) -> EngineFault:
    """The fault that it ends with."""
    with pytest.raises(EngineFault) as seen:
        await doing
    return seen.value
