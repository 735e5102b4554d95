"""What is counted, where, and how Prometheus reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from grpc import aio

from inferlab_adapters.openengine.auth import BearerToken
from inferlab_adapters.openengine.engine import GenerateRequest, Role, TokenEvent
from inferlab_adapters.openengine.metrics import Counter, Histogram, Metrics
from inferlab_adapters.openengine.metrics_http import MetricsServer
from inferlab_adapters.openengine.observed import CountedCalls, counted
from tests.openengine.bare import BOTH, STREAM, UNARY, serving
from tests.openengine.scripted import ScriptedEngine, tokens

_LINE = re.compile(r'([a-z_]+)(\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})? (\+Inf|-?[0-9.e+-]+)')


def samples(text: str) -> dict[str, float]:
    """Read an exposition strictly; every sample's family is described before it."""
    found: dict[str, float] = {}
    kinds: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE")
            if word == "TYPE":
                assert name not in kinds
                kinds[name] = rest
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        name = match[1]
        family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
        assert name in kinds or kinds[family] == "histogram"
        assert name.startswith("openengine_")
        key = name + (match[2] or "")
        assert key not in found
        found[key] = float(match[3])
    return found


def _counted(body: Callable[[Any], Coroutine[Any, Any, None]], *more: Any) -> dict[str, float]:
    metrics = Metrics()

    async def run() -> None:
        interceptors = [CountedCalls(metrics), *more]
        async with serving(interceptors) as address, aio.insecure_channel(address) as channel:
            await body(channel)

    asyncio.run(run())
    return samples(metrics.text())


def _requests(found: dict[str, float]) -> dict[tuple[str, str], float]:
    pattern = r'openengine_requests_total\{rpc="(.*)",revision="(?:seed|)",code="(.*)"\}'
    matches = ((re.fullmatch(pattern, key), value) for key, value in found.items())
    return {(match[1], match[2]): value for match, value in matches if match}


async def _all_kinds(channel: Any) -> None:
    assert await channel.unary_unary(UNARY)(b"x") == b"x"
    assert len([m async for m in channel.unary_stream(STREAM)(b"x")]) == 3
    both = channel.stream_stream(BOTH)(iter([b"x", b"y"]))
    assert [m async for m in both] == [b"x", b"y"]
    for method, request in ((UNARY, b"fail"), (UNARY, b"refuse")):
        with pytest.raises(aio.AioRpcError):
            await channel.unary_unary(method)(request)
    with pytest.raises(aio.AioRpcError):
        _ = [m async for m in channel.unary_stream(STREAM)(b"refuse")]
    with pytest.raises(aio.AioRpcError):
        await channel.unary_unary("/openengine.v1.OpenEngine/Made-up-1")(b"")


def test_calls_are_counted_by_their_status() -> None:
    found = _counted(_all_kinds)
    assert _requests(found) == {
        ("Health", "OK"): 1,
        ("Generate", "OK"): 1,
        ("Both", "OK"): 1,
        ("Health", "UNKNOWN"): 1,
        ("Health", "NOT_FOUND"): 1,
        ("Generate", "UNAVAILABLE"): 1,
        ("unknown", "UNIMPLEMENTED"): 1,
    }
    labels = '{rpc="Generate",revision="seed"}'
    assert found[f"openengine_requests_in_flight{labels}"] == 0
    assert found[f"openengine_request_duration_seconds_count{labels}"] == 2


def test_running_streams_and_cancelled_ones_are_told_apart() -> None:
    metrics = Metrics()

    async def run() -> tuple[str, str]:
        async with (
            serving([CountedCalls(metrics)]) as address,
            aio.insecure_channel(address) as opened,
        ):
            channel: Any = opened
            stream = channel.unary_stream(STREAM)(b"sleep")
            assert await stream.read() == b"0"
            during = metrics.text()
            stream.cancel()
            with pytest.raises(aio.AioRpcError):
                await channel.unary_unary(UNARY)(b"sleep", timeout=0.2)
            while 'code="DEADLINE_EXCEEDED"' not in metrics.text():
                await asyncio.sleep(0.01)
            while 'code="CANCELLED"' not in metrics.text():
                await asyncio.sleep(0.01)
            return during, metrics.text()

    during, after = map(samples, asyncio.run(run()))
    running = 'openengine_requests_in_flight{rpc="Generate",revision="seed"}'
    assert (during[running], after[running]) == (1, 0)
    assert _requests(during) == {}
    assert _requests(after) == {("Generate", "CANCELLED"): 1, ("Health", "DEADLINE_EXCEEDED"): 1}


async def _refused(channel: Any) -> None:
    with pytest.raises(aio.AioRpcError):
        await channel.unary_unary(UNARY)(b"x")


def test_what_a_later_interceptor_refuses_is_counted() -> None:
    found = _counted(_refused, BearerToken("t"))
    assert _requests(found) == {("Health", "UNAUTHENTICATED"): 1}


def test_tokens_and_the_time_to_the_first_are_counted() -> None:
    metrics = Metrics()

    async def run() -> None:
        script = [TokenEvent(0, (), ""), TokenEvent(0, (65, 66, 67), "abc"), *tokens(2)]
        engine = counted(ScriptedEngine(script=lambda request: script), metrics)
        assert engine.role is Role.AGGREGATED
        request = GenerateRequest(request_id="r", model="scripted", prompt="p", token_ids=None)
        generation = await engine.accept(request)
        assert len([event async for event in generation]) == 5
        assert generation.usage.completion_tokens == 5
        await generation.close()
        await engine.close()

    asyncio.run(run())
    found = samples(metrics.text())
    assert found["openengine_output_tokens_total"] == 5
    assert found["openengine_time_to_first_token_seconds_count"] == 1


def test_just_one_state_is_the_engines() -> None:
    metrics = Metrics()
    assert samples(metrics.text())['openengine_engine_state{state="starting"}'] == 1
    metrics.engine_is("ready")
    states = {k: v for k, v in samples(metrics.text()).items() if "engine_state" in k}
    assert len(states) == 5
    assert [key for key, value in states.items() if value] == [
        'openengine_engine_state{state="ready"}'
    ]


def test_buckets_are_cumulative_and_bounds_belong_to_them() -> None:
    histogram = Histogram("openengine_x", "X.", (1.0, 2.5), ("a",))
    for seconds in (0.5, 1.0, 2.0, 9.0):
        histogram.observe("b", seconds=seconds)
    assert list(histogram.samples()) == [
        'openengine_x_bucket{a="b",le="1"} 2',
        'openengine_x_bucket{a="b",le="2.5"} 3',
        'openengine_x_bucket{a="b",le="+Inf"} 4',
        'openengine_x_sum{a="b"} 12.5',
        'openengine_x_count{a="b"} 4',
    ]


def test_label_values_are_escaped() -> None:
    counter = Counter("openengine_x", "X.", ("a",))
    counter.add('q"\\\n')
    assert list(counter.samples()) == ['openengine_x{a="q\\"\\\\\\n"} 1']


async def _http(request: bytes) -> tuple[str, str]:
    server = MetricsServer(Metrics())
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        if not request.endswith(b"\r\n\r\n"):
            writer.write_eof()
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    except ConnectionResetError:
        head = body = ""
    finally:
        writer.close()
        with suppress(ConnectionResetError):
            await writer.wait_closed()
        await server.stop()
    if head and not request.startswith(b"HEAD"):
        assert f"Content-Length: {len(body.encode())}" in head.split("\r\n")
    return head.partition("\r\n")[0], body


def test_prometheus_gets_the_text() -> None:
    status, body = asyncio.run(_http(b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"))
    assert status == "HTTP/1.1 200 OK"
    assert samples(body)["openengine_output_tokens_total"] == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (b"\x16\x03\x01 tls\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\n", ""),
        (b"x" * 200_000, ""),
    ],
)
def test_other_requests_get_no_metrics(request_: bytes, status: str) -> None:
    found, body = asyncio.run(_http(request_))
    assert found == status
    assert "openengine_requests" not in body
