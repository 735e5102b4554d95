"""What a prefill and a decode server show: handoffs, and sessions that must not reach vLLM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from grpc import StatusCode

from inferlab_adapters.openengine.client import Client, Outcome
from inferlab_adapters.openengine.engine import Endpoint, KvSession
from inferlab_adapters.openengine.launch import KEY_VARIABLE
from inferlab_adapters.openengine.requests import read_session
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from inferlab_adapters.openengine.sessions import SEAL, SessionSeal
from tests.smoke.openengine_served_support import (
    PROMPT_IDS,
    Checks,
    Deployment,
    asking,
    conforms,
    engines,
    ids,
    refused,
    state,
)
from tests.support.control_plane import Json

PAIR = Checks()

_PREFILL, _DECODE = "prefill", "decode"
_SOME_SECONDS = 10.0


def secret(served: Deployment) -> bytes:
    """What ``oe up`` gave the decode server to know sessions by."""
    leader = next(
        process["leader"]["pid"]
        for process in state(served.name)["processes"]
        if process["name"] == _DECODE
    )
    for one in Path(f"/proc/{leader}/environ").read_bytes().split(b"\0"):
        name, _, value = one.partition(b"=")
        if name == KEY_VARIABLE.encode():
            return value
    raise AssertionError("the decode server has no secret")


async def prefilled(client: Client, **fields: Any) -> KvSession:
    """The session of a prefill, as a client gets it."""
    outcome = await client.outcome("Generate", asking(**fields))
    assert outcome.code is StatusCode.OK, outcome
    assert [m.WhichOneof("event") for m in outcome.messages] == ["prefill_ready"], outcome
    return read_session(outcome.messages[0].prefill_ready.kv_session)


async def session(served: Deployment, revision: Revision = SEED) -> KvSession:
    """A good session of the prompt that all ask with."""
    async with served.client(_PREFILL, revision) as client:
        return await prefilled(client)


async def decoded(
    served: Deployment, session: KvSession, revision: Revision = SEED, **fields: Any
) -> Outcome:
    """How the decode server takes a session."""
    async with served.client(_DECODE, revision) as client:
        asked = asking(kv={"session": sent(session)}, **fields)
        return await client.outcome("Generate", asked)


def sent(session: KvSession) -> Json:
    """A session as a client sends it."""
    return {
        "session_id": session.session_id,
        "transfer_backend": session.transfer_backend,
        "endpoints": [
            {"host": e.host, "port": e.port, "protocol": e.protocol} for e in session.endpoints
        ],
        "dp_rank": session.dp_rank,
        "attributes_struct": dict(session.attributes),
    }


def unsealed(session: KvSession, **attributes: Any) -> KvSession:
    """The session without its seal, with other attributes; ``None`` leaves one out."""
    laid = {**session.attributes, **attributes, SEAL: None}
    return replace(session, attributes={k: v for k, v in laid.items() if v is not None})


async def lives(served: Deployment) -> None:
    """Both engines still do their part of a request."""
    assert len(engines()) == 2
    assert len(ids(await decoded(served, await session(served)))) == 8


@PAIR
async def a_session_goes_from_prefill_to_decode(served: Deployment) -> None:
    told = []
    for prefill in (SEED, V0_1_0):
        for decode in (SEED, V0_1_0):
            made = await session(served, prefill)
            told.append(ids(await decoded(served, made, decode)))
    assert len(told[0]) == 8
    assert told == [told[0]] * 4


@PAIR
async def prefill_keeps_the_rules_of_seed(served: Deployment) -> None:
    conforms(served, _PREFILL, "seed", 65, "--peer", served.addresses[_DECODE])
    await lives(served)


@PAIR
async def prefill_keeps_the_rules_of_v0_1_0(served: Deployment) -> None:
    conforms(served, _PREFILL, "v0.1.0", 62, "--peer", served.addresses[_DECODE])
    await lives(served)


@PAIR
async def decode_keeps_the_rules_of_seed(served: Deployment) -> None:
    conforms(served, _DECODE, "seed", 85, "--peer", served.addresses[_PREFILL])
    await lives(served)


@PAIR
async def decode_keeps_the_rules_of_v0_1_0(served: Deployment) -> None:
    conforms(served, _DECODE, "v0.1.0", 78, "--peer", served.addresses[_PREFILL])
    await lives(served)


@PAIR
async def a_changed_session_is_refused(served: Deployment) -> None:
    made = await session(served)
    vllm = dict(made.attributes["vllm"])
    for forged in (
        replace(made, session_id="another"),
        replace(made, endpoints=(Endpoint(host="127.0.0.2", port=8002, protocol="nixl"),)),
        replace(made, endpoints=()),
        replace(made, attributes={**made.attributes, "vllm": {**vllm, "remote_port": 1}}),
        replace(made, attributes={**made.attributes, "vllm": {"do_remote_prefill": True}}),
        replace(made, attributes={"vllm": {"do_remote_prefill": True}}),
        replace(made, attributes={}),
        unsealed(made),
    ):
        outcome = await decoded(served, forged)
        refused(outcome, StatusCode.INVALID_ARGUMENT, "kv.session")
    # Whoever tried has not used it up.
    assert len(ids(await decoded(served, made))) == 8
    await lives(served)


@PAIR
async def a_session_sealed_with_a_key_that_all_know_is_refused(served: Deployment) -> None:
    made = await session(served)
    for key in (None, b"guessed"):
        forged = SessionSeal(key).seal(unsealed(made), "tiny")
        outcome = await decoded(served, forged)
        refused(outcome, StatusCode.INVALID_ARGUMENT, "sealed with another key")
    await lives(served)


@PAIR
async def an_incomplete_session_is_refused_though_its_seal_is_good(served: Deployment) -> None:
    """Each of these would end vLLM."""
    seal = SessionSeal(secret(served))
    made = await session(served)
    vllm = dict(made.attributes["vllm"])
    whole = [{name: value for name, value in vllm.items() if name != left} for left in _NEEDED]
    for parameters in ({"do_remote_prefill": True}, {}, *whole):
        forged = seal.seal(unsealed(made, vllm=parameters), "tiny")
        outcome = await decoded(served, forged)
        refused(outcome, StatusCode.INVALID_ARGUMENT, "KV session")
    refused(
        await decoded(served, seal.seal(unsealed(made, vllm_ends_at=None), "tiny")),
        StatusCode.INVALID_ARGUMENT,
    )
    for host in ("0.0.0.0", "::", ""):
        endpoints = (Endpoint(host=host, port=8002, protocol="nixl"),)
        forged = seal.seal(replace(unsealed(made), endpoints=endpoints), "tiny")
        refused(await decoded(served, forged), StatusCode.INVALID_ARGUMENT, "kv.session")
    await lives(served)


_NEEDED = (
    "do_remote_prefill",
    "remote_block_ids",
    "remote_engine_id",
    "remote_request_id",
    "remote_host",
    "remote_port",
)


@PAIR
async def a_session_that_is_over_is_refused(served: Deployment) -> None:
    key = secret(served)
    made = await session(served)
    late = SessionSeal(key, lifetime=-_SOME_SECONDS).seal(unsealed(made), "tiny")
    refused(await decoded(served, late), StatusCode.NOT_FOUND, "expired")
    ended = SessionSeal(key).seal(unsealed(made, vllm_ends_at=1.0), "tiny")
    refused(await decoded(served, ended), StatusCode.NOT_FOUND, "expired")
    await lives(served)


@PAIR
async def a_session_is_used_once(served: Deployment) -> None:
    made = await session(served)
    first = ids(await decoded(served, made))
    for revision in (SEED, V0_1_0):
        refused(await decoded(served, made, revision), StatusCode.NOT_FOUND, "used before")
    assert ids(await decoded(served, await session(served))) == first
    await lives(served)


@PAIR
async def a_session_of_something_else_is_refused(served: Deployment) -> None:
    seal = SessionSeal(secret(served))
    made = await session(served)
    other = seal.seal(unsealed(made), "other")
    refused(await decoded(served, other), StatusCode.FAILED_PRECONDITION, "model")
    other = seal.seal(replace(unsealed(made), transfer_backend="mooncake"), "tiny")
    refused(await decoded(served, other), StatusCode.FAILED_PRECONDITION, "transfer_backend")
    for wrong in (PROMPT_IDS[:-1], [*PROMPT_IDS, 40], PROMPT_IDS[::-1]):
        outcome = await decoded(served, made, token_ids={"ids": wrong})
        refused(outcome, StatusCode.INVALID_ARGUMENT, "another prompt")
    await lives(served)


@PAIR
async def the_roles_are_kept_apart(served: Deployment) -> None:
    made = await session(served)
    for revision in (SEED, V0_1_0):
        async with served.client(_DECODE, revision) as client:
            outcome = await client.outcome("Generate", asking())
            refused(outcome, StatusCode.FAILED_PRECONDITION, "kv.session")
        async with served.client(_PREFILL, revision) as client:
            outcome = await client.outcome("Generate", asking(kv={"session": sent(made)}))
            refused(outcome, StatusCode.FAILED_PRECONDITION, "kv.session")
    await lives(served)
