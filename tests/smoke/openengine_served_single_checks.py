"""What one server shows: it keeps the rules, and outlives every client but not its engine."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from grpc import StatusCode

from inferlab_adapters.openengine.client import Client
from inferlab_adapters.openengine.revisions import SEED, V0_1_0
from tests.smoke.openengine_served_support import (
    Checks,
    Deployment,
    asking,
    conforms,
    engines,
    ids,
    oe,
    refused,
    state,
)

SINGLE = Checks()

_SERVER = "server"
_MIB = 1 << 20
_VOCABULARY = 512
_STREAMS = 8


async def lives(served: Deployment) -> None:
    """The engine still answers, in both revisions alike."""
    assert len(engines()) == 1
    told = []
    for revision in (SEED, V0_1_0):
        async with served.client(_SERVER, revision) as client:
            told.append(ids(await client.outcome("Generate", asking())))
    assert len(told[0]) == 8
    assert told[0] == told[1]


@SINGLE
async def keeps_the_rules_of_seed(served: Deployment) -> None:
    conforms(served, _SERVER, "seed", 80)
    await lives(served)


@SINGLE
async def keeps_the_rules_of_v0_1_0(served: Deployment) -> None:
    conforms(served, _SERVER, "v0.1.0", 60)
    await lives(served)


@SINGLE
async def ids_outside_the_vocabulary_are_refused(served: Deployment) -> None:
    for revision in (SEED, V0_1_0):
        async with served.client(_SERVER, revision) as client:
            for wrong in (_VOCABULARY, 2**31 - 1, 2**31, 2**32 - 1):
                listed = {"ids": [1, wrong]}
                logprobs = {"return_output_logprobs": True}
                for fields in (
                    {"token_ids": listed},
                    {"stopping": {"max_tokens": 4, "conditions": [{"stop_token_id": wrong}]}},
                    {"response": {**logprobs, "output_candidates": {"token_ids": listed}}},
                ):
                    outcome = await client.outcome("Generate", asking(**fields))
                    refused(outcome, StatusCode.INVALID_ARGUMENT)
    await lives(served)


@SINGLE
async def bytes_that_are_no_message_are_refused(served: Deployment) -> None:
    async with served.client(_SERVER) as client:
        whole = client.message("GenerateRequest", asking()).SerializeToString()
        for request in (b"\xff" * 64, b"\x0a\xff\xff\xff\xff\x0f", whole[:-1], whole + b"\x0a"):
            for method in ("Generate", "Health", "Abort", "GetModelInfo"):
                outcome = await client.outcome(method, request)
                refused(outcome, StatusCode.INVALID_ARGUMENT, "is no openengine.v1.")
    await lives(served)


@SINGLE
async def a_message_of_100_mib_is_refused(served: Deployment) -> None:
    async with served.client(_SERVER) as client:
        text = asking(token_ids=None, prompt="a" * (100 * _MIB))
        refused(await client.outcome("Generate", text), StatusCode.RESOURCE_EXHAUSTED)
    await lives(served)


@SINGLE
async def a_kv_session_is_refused(served: Deployment) -> None:
    session = {
        "session_id": "forged",
        "transfer_backend": "nixl",
        "endpoints": [{"host": "127.0.0.1", "port": 8002}],
        "attributes_struct": {"vllm": {"do_remote_prefill": True}},
    }
    for revision in (SEED, V0_1_0):
        async with served.client(_SERVER, revision) as client:
            outcome = await client.outcome("Generate", asking(kv={"session": session}))
            refused(outcome, StatusCode.FAILED_PRECONDITION, "kv.session")
    await lives(served)


@SINGLE
async def when_the_engine_is_killed_every_stream_ends_once(served: Deployment) -> None:
    """The last check: nothing is up after it."""
    ((engine, _),) = engines().items()
    (process,) = state(served.name)["processes"]
    async with served.client(_SERVER) as client, asyncio.TaskGroup() as group:
        begun = [asyncio.Event() for _ in range(_STREAMS)]
        streams = [group.create_task(_stream(client, event)) for event in begun]
        for event in begun:
            await event.wait()
        os.kill(engine, signal.SIGKILL)
    for events, code in (stream.result() for stream in streams):
        ends = [event for event in events if event not in ("token", "")]
        assert len(ends) == 1, (events, code)
        assert (events[-1], code) == (ends[0], StatusCode.OK)
    assert any(stream.result()[0][-1] == "error" for stream in streams)
    for _ in range(120):
        found = state(served.name)
        if found["status"] == "failed" and not Path(f"/proc/{process['leader']['pid']}").exists():
            break
        await asyncio.sleep(0.5)
    assert (found["status"], found["left"]) == ("failed", []), found
    assert _SERVER in found["reason"], found["reason"]
    assert "engine ended by itself" in oe("logs", served.name).stdout
    assert engines() == {}


async def _stream(client: Client, begun: asyncio.Event) -> tuple[list[str], StatusCode]:
    """The events of a long stream by their names, and its status."""
    stopping = {"max_tokens": 200, "ignore_eos": True}
    call: Any = client.stream("Generate", asking(stopping=stopping))
    events = []
    async for message in call:
        events.append(message.WhichOneof("event") or "")
        begun.set()
    return events, await call.code()
