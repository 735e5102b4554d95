"""A stand-in for a vLLM server that answers as vLLM 0.32.0 was seen to answer.

Questions about facts are answered from :class:`FakeVllm`'s fields. A test puts one answer for each
generation into ``answers``: a list of server-sent lines, or a status and a JSON body.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

Json: TypeAlias = dict[str, Any]
Lines: TypeAlias = list[Any]
"""A chunk; bytes as they are; seconds to sleep; something to wait for."""

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0019550342130987275
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 756.0
vllm:request_prompt_tokens_bucket{engine="0",le="1.0",model_name="tiny"} 3.0
# TYPE vllm:lora_requests_info gauge
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",engine="0",kv_cache_dtype_skip_layers="[]",\
num_gpu_blocks="1024"} 1.0
"""
MODELS: list[Json] = [
    {"id": "tiny", "root": "/models/tiny", "parent": None, "max_model_len": 256},
    {"id": "tiny-alias", "root": "/models/tiny", "parent": None, "max_model_len": 256},
    {"id": "sideways", "root": "/models/lora", "parent": "tiny", "max_model_len": None},
]
DONE = b"data: [DONE]\n\n"


def error(message: str, code: int = 400, param: str | None = None) -> Json:
    """vLLM's error body."""
    kind = "BadRequestError" if code == 400 else "InternalServerError"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def chunk(
    index: int = 0,
    ids: tuple[int, ...] = (),
    text: str = "",
    *,
    end: str | None = None,
    **more: Any,
) -> Json:
    """One choice of a stream."""
    choice = {"index": index, "finish_reason": end, "stop_reason": None, "token_ids": list(ids)}
    return {"request_id": "r", "usage": None, "choices": [{**choice, "text": text, **more}]}


def usage(prompt: int, completion: int, cached: int | None = 0) -> Json:
    """The chunk after the last choice, and what ends a stream comes after it."""
    details = None if cached is None else {"cached_tokens": cached}
    counted = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"choices": [], "usage": {**counted, "prompt_tokens_details": details}}


def in_one(lines: Lines) -> bytes:
    """Lines that come all at once."""
    return b"".join(one if isinstance(one, bytes) else _line(one) for one in lines)


def _line(chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def apart(lines: Lines) -> Lines:
    """Lines so long after each other that nobody reads two at once."""
    return [one for line in lines for one in (line, 0.02)]


@dataclass
class FakeVllm:
    """What it is, what it was asked, and what it answers next."""

    url: str = ""
    vocabulary: int = 512
    most_logprobs: int = 20
    priority: bool = True
    scale_out: bool = True
    runtime_lora: bool = True
    metrics: str = METRICS
    models: list[Json] = field(default_factory=lambda: list(MODELS))
    sources: Json = field(default_factory=dict)
    healthy: bool = True
    hung: bool = False
    answers: list[Lines | tuple[int, Json]] = field(default_factory=list)
    asked: list[tuple[str, Json]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    bootstrap: Json = field(default_factory=dict)

    def bodies(self, path: str) -> list[Json]:
        """What was asked of a path."""
        return [body for asked, body in self.asked if asked == path]

    async def generate(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if not self.scale_out:
            return web.json_response({"detail": "Forbidden"}, status=403)
        sampling = body["sampling_params"]
        if sampling.get("stop_token_ids") == [2**31 - 1]:
            return web.json_response(error(self._impossible(sampling)), status=400)
        if body.get("priority") == -1 and body["token_ids"] == [0]:
            what = "Got priority -1 but Priority scheduling is not enabled."
            refusal = None if self.priority else error(what)
            return web.json_response(refusal or {"choices": []}, status=400 if refusal else 200)
        return await self._answer("generate", request, body)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("completions", request, await request.json())

    async def _answer(self, what: str, request: web.Request, body: Json) -> web.StreamResponse:
        self.asked.append((what, body))
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if self.answers else (200, {"choices": []})
        if isinstance(answer, tuple):
            status, content = answer
            return web.json_response(content, status=status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for line in answer:
                await self._write(response, line)
        except (ConnectionError, asyncio.CancelledError):
            self.cut.set()
            raise
        return response

    async def _write(self, response: web.StreamResponse, line: Any) -> None:
        if isinstance(line, float):
            await asyncio.sleep(line)
        elif isinstance(line, asyncio.Event):
            await line.wait()
        elif isinstance(line, bytes):
            await response.write(line)
        else:
            await response.write(_line(line))

    def _impossible(self, sampling: Json) -> str:
        if "n" in sampling:
            return "sampling_params.n must be at most the server's max_num_seqs (128), got 16384."
        if "logprobs" in sampling:
            most = self.most_logprobs if self.most_logprobs >= 0 else self.vocabulary
            return (
                f"Requested sample logprobs of 2147483647, which is greater than max allowed: "
                f"{most} (parameter=logprobs, value=2147483647)"
            )
        return (
            "token_id(s) [2147483647] in stop_token_ids contain out-of-vocab token ids. "
            f"Vocabulary size: {self.vocabulary} (parameter=stop_token_ids, value=[2147483647])"
        )

    async def derender(self, request: web.Request) -> web.Response:
        """Token 100 + n is the character n; 400 and 401 are the halves of one."""
        body = await request.json()
        self.asked.append(("derender", body))
        if not body.get("stream"):
            (generated,) = body["generate_responses"]
            texts = [_character(c["token_ids"][0]) for c in generated["choices"]]
            choices = [{"text": text, "logprobs": {"tokens": [text]}} for text in texts]
            return web.json_response({"choices": choices})
        (choice,) = body["generate_chunk"]["choices"]
        seen = body.get("stream_state", {}).get("seen", []) + choice["token_ids"]
        held = body.get("stream_state", {}).get("held", False)
        text = ""
        for token_id in choice["token_ids"]:
            text += "é" if token_id == 401 and held else _character(token_id)
            held = token_id == 400
        tokens = [_character(token_id) for token_id in choice["token_ids"]]
        answer = {"choices": [{"text": text, "logprobs": {"tokens": tokens}}]}
        state = {"seen": seen, "held": held}
        return web.json_response({"chunk": answer, "stream_state": state})

    async def lora(self, request: web.Request) -> web.Response:
        if not self.runtime_lora:
            return web.json_response({"detail": "Not Found"}, status=404)
        body = await request.json()
        if not body:
            return web.json_response(error("2 validation errors"), status=400)
        self.asked.append((request.path, body))
        answer = self.answers.pop(0) if self.answers else (200, {})
        assert isinstance(answer, tuple)
        return web.json_response(answer[1], status=answer[0])

    async def other(self, request: web.Request) -> web.Response:
        path = request.path
        if request.method == "POST":
            body = await request.json()
            self.asked.append((path, body))
            if path == "/tokenize":
                return web.json_response({"tokens": [100 + ord(c) for c in body["prompt"]]})
            return web.Response()
        if self.hung:
            await asyncio.sleep(60)
        if not self.healthy:
            return web.json_response({"detail": "dead"}, status=503)
        answers: dict[str, Any] = {
            "/health": None,
            "/version": {"version": "0.32.0"},
            "/v1/models": {"data": self.models},
            "/kv_event_sources": self.sources,
            "/query": self.bootstrap,
        }
        if path == "/metrics":
            return web.Response(text=self.metrics)
        if path not in answers:
            return web.json_response({"detail": "Not Found"}, status=404)
        return web.json_response(answers[path])


def _character(token_id: int) -> str:
    return "" if token_id in (400, 401) else chr(token_id - 100)


@asynccontextmanager
async def fake_vllm(**fields: Any) -> AsyncIterator[FakeVllm]:
    """A server at ``url``."""
    server = FakeVllm(**fields)
    app = web.Application()
    app.router.add_post("/inference/v1/generate", server.generate)
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_post("/v1/completions/derender", server.derender)
    app.router.add_post("/v1/load_lora_adapter", server.lora)
    app.router.add_post("/v1/unload_lora_adapter", server.lora)
    app.router.add_route("*", "/{path:.*}", server.other)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine, which has 20 seconds."""
    asyncio.run(asyncio.wait_for(test(), 20))
