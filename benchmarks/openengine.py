"""How fast the OpenEngine server is, as ratios against baselines run in the same call.

Run it with the project's own Python, which must have the extra ``openengine``:

    .venv/bin/python benchmarks/openengine.py scripted
    .venv/bin/python benchmarks/openengine.py paced
    .venv/bin/python benchmarks/openengine.py vllm --engine URL --openengine HOST:PORT --model NAME

``scripted``: an engine that has its tokens ready, served by a process on a core of its own: tokens
a second in chunks of 16 and of one, against a bare grpc.aio stream of the same bytes, and a second
of the server's processor time, since the client here may be the slower one; memory over a million
tokens; a thousand streams at once. ``vllm``: the same requests to a running vLLM straight
over its streaming HTTP and through OpenEngine, at 1, 16 and 64 streams: throughput as a ratio, and
the time to the first token that is added, in seconds. On a CPU that vLLM computes on the cores that
the server needs; ``paced`` asks the same of an HTTP server that answers as vLLM does, a token every
20 ms for each stream, and computes nothing, as if that were done on a GPU. It prints one JSON
object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import grpc

from inferlab_adapters.openengine.engine import (
    Check,
    EngineFacts,
    EngineFault,
    Event,
    FinishedEvent,
    GenerateRequest,
    KvBatch,
    KvEventSource,
    KvSession,
    Load,
    Lora,
    ModelFacts,
    Role,
    TokenEvent,
    Usage,
)

MODEL = "scripted"
TOKENS = 400_000
SINGLE_TOKENS = 40_000
MILLION = 1_000_000
CHUNK = 16
STREAMS = 1_000
STREAM_TOKENS = 64


class Tokens:
    """``max_tokens`` tokens in chunks of ``top_k``, as fast as they are taken."""

    def __init__(self, request: GenerateRequest) -> None:
        self._count = request.stopping.max_tokens or 1
        self._chunk = request.sampling.top_k or CHUNK
        self._prompt = len(request.token_ids or ())

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        ids = list(range(1, self._chunk + 1))
        chunk = TokenEvent(0, ids, "word " * self._chunk)
        for _ in range(self._count // self._chunk):
            yield chunk
        yield FinishedEvent(0, "length")

    @property
    def usage(self) -> Usage:
        return Usage(self._prompt, self._count // self._chunk * self._chunk)

    async def close(self) -> None:
        """Nothing runs between two events."""


class ScriptedEngine:
    """An engine whose tokens are always ready."""

    role = Role.AGGREGATED

    async def facts(self) -> EngineFacts:
        model = ModelFacts(model_id=MODEL, served_name=MODEL, vocabulary=1_000)
        return EngineFacts(engine_name=MODEL, engine_version="1", models=(model,))

    async def checks(self, probe: bool) -> Sequence[Check]:
        return ()

    async def accept(self, request: GenerateRequest) -> Tokens:
        return Tokens(request)

    async def abort_session(self, session: KvSession) -> None:
        raise EngineFault("kv_session_not_found", "there are none")

    async def load(self, per_rank: bool) -> Load:
        return Load()

    async def open_sessions(self) -> int | None:
        return 0

    async def list_loras(self) -> Mapping[str, str]:
        return {}

    async def load_lora(self, lora: Lora) -> None:
        raise EngineFault("failed_precondition", "there are none")

    async def unload_lora(self, lora: Lora) -> None:
        raise EngineFault("failed_precondition", "there are none")

    async def kv_event_sources(self) -> Sequence[KvEventSource]:
        return ()

    def kv_events(
        self, ranks: Sequence[int], *, start: int, snapshot: bool
    ) -> AsyncIterator[KvBatch]:
        raise EngineFault("unimplemented", "there are none")

    async def close(self) -> None:
        """It holds nothing."""


async def serve_scripted() -> None:
    """Serve the scripted engine, and a bare stream of such messages, until told to stop."""
    from inferlab_adapters.openengine.revisions import SEED
    from inferlab_adapters.openengine.server import Server

    server = Server(ScriptedEngine(), listen="127.0.0.1:0")
    port = await server.start()
    request_class = SEED.message("GenerateRequest")
    response_class = SEED.message("GenerateResponse")

    async def bare(data: bytes, context: Any) -> AsyncIterator[bytes]:
        request = request_class.FromString(data)
        size = request.sampling.top_k or CHUNK
        message = response_class()
        message.request_id = request.request_id
        message.token.output_index = 0
        message.token.text = "word " * size
        for index in range(size):
            message.token.tokens.add().token_id = index + 1
        for _ in range(request.stopping.max_tokens // size):
            yield message.SerializeToString()

    plain = grpc.aio.server()
    handler: Any = grpc.unary_stream_rpc_method_handler(bare)
    plain.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("bare.Bare", {"Generate": handler}),)
    )
    bare_port = plain.add_insecure_port("127.0.0.1:0")
    await plain.start()
    print(json.dumps([port, bare_port]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await plain.stop(None)
    await server.stop(0)


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has had."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """The memory that a process holds."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


async def drain(channel: Any, path: str, request: bytes) -> int:
    """Take a whole stream; how many bytes came."""
    call = channel.unary_stream(path)(request)
    size = 0
    async for data in call:
        size += len(data)
    return size


async def rate(channel: Any, path: str, tokens: int, chunk: int, pid: int) -> tuple[float, float]:
    """Tokens a second over one stream, and tokens a second of the server's processor time."""
    begin, before = time.perf_counter(), cpu_seconds(pid)
    await drain(channel, path, request_bytes(f"r{time.perf_counter_ns()}", tokens, chunk))
    return tokens / (time.perf_counter() - begin), tokens / (cpu_seconds(pid) - before)


def request_bytes(name: str, tokens: int, chunk: int) -> bytes:
    from inferlab_adapters.openengine.messages import build
    from inferlab_adapters.openengine.revisions import SEED

    data = {
        "request_id": name,
        "model": MODEL,
        "token_ids": {"ids": [1, 2, 3]},
        "sampling": {"top_k": chunk},
        "stopping": {"max_tokens": tokens},
    }
    message: bytes = build(SEED.message("GenerateRequest"), data).SerializeToString()
    return message


async def scripted() -> dict[str, Any]:
    """Everything about the scripted engine."""
    cores = sorted(os.sched_getaffinity(0))
    child = subprocess.Popen(
        [sys.executable, __file__, "serve-scripted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]}),
    )
    os.sched_setaffinity(0, set(cores[1:]) or {cores[0]})
    assert child.stdout is not None
    port, bare_port = json.loads(child.stdout.readline())
    ours = "/openengine.v1.OpenEngine/Generate"
    report: dict[str, Any] = {}
    try:
        async with (
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
            grpc.aio.insecure_channel(f"127.0.0.1:{bare_port}") as bare,
        ):
            for name, tokens, chunk in (
                ("chunks_of_16", TOKENS, CHUNK),
                ("one_token_a_message", SINGLE_TOKENS, 1),
            ):
                rates, bases = [], []
                for _ in range(5):
                    bases.append(await rate(bare, "/bare.Bare/Generate", tokens, chunk, child.pid))
                    rates.append(await rate(channel, ours, tokens, chunk, child.pid))
                mine, base = (
                    [statistics.median(values) for values in zip(*pairs, strict=True)]
                    for pairs in (rates, bases)
                )
                report[name] = {
                    "tokens_per_second": round(mine[0]),
                    "bare_tokens_per_second": round(base[0]),
                    "ratio": round(mine[0] / base[0], 2),
                    "tokens_per_server_cpu_second": round(mine[1]),
                    "bare_tokens_per_server_cpu_second": round(base[1]),
                }
            before = resident_mib(child.pid)
            await drain(channel, ours, request_bytes("million", MILLION, CHUNK))
            after = resident_mib(child.pid)
            report["memory"] = {
                "tokens": MILLION,
                "before_mib": round(before, 1),
                "after_mib": round(after, 1),
            }
            begin = time.perf_counter()
            requests = (
                drain(channel, ours, request_bytes(f"s{index}", STREAM_TOKENS, CHUNK))
                for index in range(STREAMS)
            )
            sizes = await asyncio.gather(*requests)
            seconds = time.perf_counter() - begin
            report["streams"] = {
                "at_once": STREAMS,
                "answered": sum(size > 0 for size in sizes),
                "tokens_per_second": round(STREAMS * STREAM_TOKENS / seconds),
            }
    finally:
        child.communicate()
    return report


Ask = Callable[[int], Awaitable[tuple[float, int]]]
"""A request by its number: (seconds to the first token, tokens)."""


async def vllm(engine: str, openengine: str, model: str, rounds: int) -> dict[str, Any]:
    """The same requests straight to vLLM and through OpenEngine."""
    from inferlab_adapters.openengine.client import Client
    from inferlab_adapters.openengine.revisions import SEED

    tokens, prompt = 64, "hello world"

    async with aiohttp.ClientSession() as session, grpc.aio.insecure_channel(openengine) as channel:
        client = Client(channel, SEED)

        async def straight(number: int) -> tuple[float, int]:
            body = {
                "model": model,
                "prompt": f"{prompt} {number}",
                "max_tokens": tokens,
                "ignore_eos": True,
                "stream": True,
                "temperature": 0,
            }
            begin, first, count = time.perf_counter(), 0.0, 0
            async with session.post(f"{engine}/v1/completions", json=body) as response:
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        first = first or time.perf_counter() - begin
                        count += 1
            return first, count

        async def through(number: int) -> tuple[float, int]:
            request = {
                "request_id": f"b{number}-{time.perf_counter_ns()}",
                "model": model,
                "prompt": f"{prompt} {number}",
                "sampling": {"temperature": 0},
                "stopping": {"max_tokens": tokens, "ignore_eos": True},
            }
            begin, first, count = time.perf_counter(), 0.0, 0
            async for message in client.stream("Generate", request):
                if message.WhichOneof("event") == "token":
                    first = first or time.perf_counter() - begin
                    count += len(message.token.tokens)
            return first, count

        async def measured(ask: Ask, streams: int) -> tuple[float, float]:
            begin = time.perf_counter()
            answers = await asyncio.gather(*(ask(number) for number in range(streams)))
            seconds = time.perf_counter() - begin
            total = streams * tokens
            assert all(count > 0 for _, count in answers)
            return total / seconds, statistics.median(first for first, _ in answers)

        await measured(straight, 1)
        await measured(through, 1)
        report = {}
        for streams in (1, 16, 64):
            pairs = [
                (await measured(straight, streams), await measured(through, streams))
                for _ in range(rounds)
            ]
            base = statistics.median(pair[0][0] for pair in pairs)
            mine = statistics.median(pair[1][0] for pair in pairs)
            added = statistics.median(pair[1][1] - pair[0][1] for pair in pairs)
            report[f"{streams}_streams"] = {
                "http_tokens_per_second": round(base, 1),
                "openengine_tokens_per_second": round(mine, 1),
                "throughput_ratio": round(mine / base, 3),
                "added_first_token_seconds": round(added, 4),
            }
        return report


async def paced(rounds: int) -> dict[str, Any]:
    """As :func:`vllm`, with an engine that computes elsewhere."""
    command = [sys.executable, str(Path(__file__).with_name("paced_vllm.py"))]
    engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert engine.stdout is not None
    url = engine.stdout.readline().strip()
    command = [sys.executable, "-m", "inferlab_adapters.openengine", "serve"]
    command += ["--framework", "vllm", "--role", "aggregated", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen([*command, "--engine", url], stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        said = (json.loads(line) for line in server.stderr)
        port = next(one["port"] for one in said if one["message"] == "listening")
        next(one for one in said if one.get("state") == "ready")
        return await vllm(url, f"127.0.0.1:{port}", "paced", rounds)
    finally:
        server.terminate()
        server.communicate()
        engine.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("scripted")
    commands.add_parser("serve-scripted")
    commands.add_parser("paced").add_argument("--rounds", type=int, default=5)
    real = commands.add_parser("vllm")
    real.add_argument("--engine", required=True)
    real.add_argument("--openengine", required=True)
    real.add_argument("--model", required=True)
    real.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.command == "serve-scripted":
        asyncio.run(serve_scripted())
        return
    if options.command == "scripted":
        report = asyncio.run(scripted())
    elif options.command == "paced":
        report = asyncio.run(paced(options.rounds))
    else:
        report = asyncio.run(
            vllm(options.engine, options.openengine, options.model, options.rounds)
        )
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
