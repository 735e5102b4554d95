"""What the checks of the vLLM backend on real servers share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from oe_adapter_vllm.engine import create

from inferlab_adapters.openengine.engine import (
    Engine,
    EngineFault,
    Event,
    FinishedEvent,
    GenerateRequest,
    Role,
    Sampling,
    Stopping,
    TokenEvent,
    Usage,
)

PRODUCER, CONSUMER = 8001, 8002
GREEDY = Sampling(temperature=0.0)
VOCABULARY = 512


@dataclass(frozen=True, slots=True)
class Servers:
    """The command line and environment of each server, by port, and a folder for files."""

    started: Mapping[int, tuple[Sequence[str], Mapping[str, str]]]
    folder: Path

    @asynccontextmanager
    async def engine(
        self, role: Role = Role.AGGREGATED, port: int = PRODUCER, attached: bool = False
    ) -> AsyncIterator[Engine]:
        """A backend of one of them."""
        argv, environment = self.started[port]
        options: dict[str, Any] = {"environment": environment}
        if not attached:
            options["argv"] = argv
        engine = create(f"http://127.0.0.1:{port}", role, options)
        try:
            yield engine
        finally:
            await engine.close()


@dataclass(slots=True)
class Told:
    """All that one request told."""

    events: list[Event]
    usage: Usage

    def text(self, output: int = 0) -> str:
        return "".join(event.text for event in self.tokens(output))

    def ids(self, output: int = 0) -> list[int]:
        return [i for event in self.tokens(output) for i in event.token_ids]

    def tokens(self, output: int = 0) -> list[TokenEvent]:
        return [e for e in self.events if isinstance(e, TokenEvent) and e.output == output]

    def ends(self) -> list[FinishedEvent]:
        return [event for event in self.events if isinstance(event, FinishedEvent)]


Check: TypeAlias = Callable[[Servers], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


_number = 0


def asking(
    prompt: str | Sequence[int] = (10, 20, 30, 40), count: int = 8, **fields: Any
) -> GenerateRequest:
    """A greedy request for so many tokens."""
    global _number
    _number += 1
    text = isinstance(prompt, str)
    defaults: dict[str, Any] = {
        "sampling": GREEDY,
        "stopping": Stopping(max_tokens=count, ignore_eos=True),
        "model": "tiny",
        "prompt": prompt if text else None,
        "token_ids": None if text else prompt,
    }
    return GenerateRequest(request_id=f"check-{_number}", **{**defaults, **fields})


async def told(engine: Engine, request: GenerateRequest) -> Told:
    generation = await engine.accept(request)
    try:
        events = [event async for event in generation]
        return Told(events, generation.usage)
    finally:
        await generation.close()


async def refused(engine: Engine, request: GenerateRequest) -> EngineFault:
    """Why it is not accepted."""
    with pytest.raises(EngineFault) as seen:
        await engine.accept(request)
    message = seen.value.message
    assert "\n" not in message
    assert "parameter=" not in message
    return seen.value


async def fault(doing: Awaitable[Any]) -> str:
    """The code of the fault that it ends with."""
    with pytest.raises(EngineFault) as seen:
        await doing
    return seen.value.code
