"""What vLLM's streaming HTTP looks like from outside, with a token every 20 ms for every stream.

Run by ``benchmarks/openengine.py paced``. It prints its URL and serves until its standard input
ends. The tokens are ready made, so that the time of a request is waiting, as with a GPU.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

STEP_SECONDS = 0.02
MODEL = "paced"
PROMPT_TOKENS = 4


class Engine:
    """All streams get their tokens at the same steps, as a batch does."""

    def __init__(self) -> None:
        self._step = asyncio.Event()

    async def run(self) -> None:
        """Step for ever."""
        while True:
            await asyncio.sleep(STEP_SECONDS)
            self._step.set()
            self._step = asyncio.Event()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """A completion, streamed."""
        body = await request.json()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        count = body["max_tokens"]
        for number in range(count):
            await self._step.wait()
            choice: dict[str, Any] = {"index": 0, "text": " word", "token_ids": [7]}
            if not number:
                choice["prompt_token_ids"] = [1] * PROMPT_TOKENS
            choice["finish_reason"] = "length" if number == count - 1 else None
            await response.write(_line({"choices": [choice]}))
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": count}
        await response.write(_line({"choices": [], "usage": usage}) + b"data: [DONE]\n\n")
        return response


def _line(chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def _generate(request: web.Request) -> web.Response:
    # Only what the backend asks to learn what vLLM is, all of which may be refused.
    return web.json_response({"error": {"message": "no"}}, status=400)


async def _small(request: web.Request) -> web.Response:
    answers: dict[str, Any] = {
        "/health": {},
        "/version": {"version": "0.32.0"},
        "/v1/models": {"data": [{"id": MODEL, "root": MODEL}]},
        "/metrics": {},
    }
    answer = answers.get(request.path)
    return web.json_response(answer, status=404 if answer is None else 200)


async def serve() -> None:
    """Serve until standard input ends."""
    engine = Engine()
    stepping = asyncio.create_task(engine.run())
    app = web.Application()
    app.router.add_post("/v1/completions", engine.complete)
    app.router.add_post("/inference/v1/generate", _generate)
    app.router.add_get("/{path:.*}", _small)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print("http://{}:{}".format(*runner.addresses[0][:2]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    stepping.cancel()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
