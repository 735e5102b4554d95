"""Whether vLLM really works: one token of one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from inferlab_adapters.openengine.engine import (
    Check,
    EngineFault,
    GenerateRequest,
    Sampling,
    Stopping,
)
from oe_adapter_vllm.backend.stream import Streamed, Whole

_SECONDS = 30.0
_PROMPT = [0]


async def probe(
    start: Callable[[GenerateRequest, list[int]], Awaitable[Streamed | Whole]],
) -> Check:
    """Generate a token; ``start`` begins a request with a prompt."""
    request = GenerateRequest(
        request_id="probe",
        model="",
        prompt=None,
        token_ids=_PROMPT,
        sampling=Sampling(temperature=0.0),
        stopping=Stopping(max_tokens=1),
    )
    try:
        async with asyncio.timeout(_SECONDS):
            work = await start(request, _PROMPT)
            try:
                async for _ in work:
                    pass
            finally:
                await work.close()
    except (EngineFault, TimeoutError) as error:
        return Check(name="inference_probe", state="not_ready", message=told(error))
    return Check(name="inference_probe", state="ready")


def told(error: EngineFault | TimeoutError) -> str:
    """What a check says of what went wrong."""
    return error.message if isinstance(error, EngineFault) else "vLLM does not answer in time"
