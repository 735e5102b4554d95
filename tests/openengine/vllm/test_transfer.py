"""Prefill at one vLLM, decode at another: sessions, and all that must not reach the second."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from oe_adapter_vllm.backend.kv_params import NIXL
from oe_adapter_vllm.backend.transfer import decode_parameters, open_session, prompt_digest

from inferlab_adapters.openengine.engine import Endpoint, KvSession, PrefillDone, Role
from inferlab_adapters.openengine.structs import settled
from tests.openengine.vllm.asked import asking, backend, fault, told
from tests.openengine.vllm.fake_server import DONE, Json, chunk, error, run, usage

PARAMETERS: Json = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 2]],
    "remote_engine_id": "e7367e61-9819-4c35-aba9-08bb46e334e1",
    "remote_request_id": "generate-tokens-850dc97094997695-aed458aa",
    "remote_host": "127.0.0.1",
    "remote_port": 5600,
    "tp_size": 1,
    "dcp_size": 1,
    "pp_size": 1,
    "remote_num_tokens": 150,
    "remote_blocks_expiry_time": None,
    "transfer_mode": "pull",
    "remote_prefill_cached_tokens": 0,
}
"""As a CPU server of vLLM 0.32.0 answered."""

PROMPT = (1, 2, 3)
_CONNECTOR = '{"kv_connector":"%s","kv_role":"kv_both"}'


def options(connector: str = "NixlConnector", **environment: str) -> dict[str, Any]:
    argv = ["vllm", "serve", "m", "--kv-transfer-config", _CONNECTOR % connector]
    return {"argv": argv, "environment": environment}


def session() -> KvSession:
    made = open_session(NIXL, PARAMETERS, prompt_digest(PROMPT, ""), 0, 2**33)
    return replace(made, attributes=settled(dict(made.attributes)))


def whole(parameters: Json | None, end: str = "length") -> tuple[int, Json]:
    choice = {"index": 0, "finish_reason": end, "token_ids": [9]}
    return 200, {**usage(3, 1), "choices": [choice], "kv_transfer_params": parameters}


def test_a_session_goes_from_prefill_to_decode() -> None:
    async def test() -> None:
        async with backend(Role.PREFILL, options()) as (engine, server):
            server.answers.append(whole(PARAMETERS))
            (done,), counted = await told(engine, asking(PROMPT, prefill_only=True))
            assert isinstance(done, PrefillDone)
            assert (counted.prompt_tokens, counted.completion_tokens) == (3, 0)
            made = done.session
            assert made.endpoints == (Endpoint(host="127.0.0.1", port=5600, protocol="nixl"),)
            (body,) = server.bodies("generate")
            assert body["kv_transfer_params"] == {
                "do_remote_decode": True,
                "do_remote_prefill": False,
            }
        async with backend(Role.DECODE, options()) as (engine, server):
            server.answers.append([chunk(0, (9,), "x", end="length"), usage(3, 1), DONE])
            handed = replace(made, attributes=settled(json.loads(json.dumps(made.attributes))))
            await told(engine, asking(PROMPT, session=handed))
            assert server.bodies("generate")[0]["kv_transfer_params"] == PARAMETERS

    run(test)


def test_large_integers_travel_as_strings_and_come_back() -> None:
    large = {**PARAMETERS, "remote_block_ids": [[2**60 + 1, 3]]}
    made = open_session(NIXL, large, prompt_digest(PROMPT, ""), 0, 2**33)
    assert made.attributes["vllm"]["remote_block_ids"] == [[str(2**60 + 1), 3]]
    assert decode_parameters(NIXL, made, prompt_digest(PROMPT, "")) == large


def _with(**fields: Any) -> Callable[[KvSession], KvSession]:
    def change(made: KvSession) -> KvSession:
        changed = {**made.attributes["vllm"], **fields}
        kept = {key: value for key, value in changed.items() if value != "(gone)"}
        return replace(made, attributes={**made.attributes, "vllm": kept})

    return change


def _attribute(**fields: Any) -> Callable[[KvSession], KvSession]:
    return lambda made: replace(made, attributes={**made.attributes, **fields})


ODD: dict[str, Callable[[KvSession], KvSession]] = {
    "nothing": lambda made: replace(made, attributes={}),
    "deadly": _attribute(vllm={"do_remote_prefill": True}),
    "backend": lambda made: replace(made, transfer_backend="mooncake"),
    "no endpoint": lambda made: replace(made, endpoints=()),
    "other endpoint": _with(remote_host="127.0.0.2"),
    "expired": _attribute(vllm_ends_at=5),
    "no end": _attribute(vllm_ends_at=True),
    "other prompt": _attribute(vllm_prompt=prompt_digest((1, 2), "")),
    "other adapter": _attribute(vllm_prompt=prompt_digest(PROMPT, "l")),
    "wildcard": _with(remote_host="0.0.0.0"),
    "no host": _with(remote_host="(gone)"),
    "port": _with(remote_port=65536),
    "port text": _with(remote_port="x"),
    "port float": _with(remote_port=5600.5),
    "no blocks": _with(remote_block_ids="(gone)"),
    "empty blocks": _with(remote_block_ids=[[], []]),
    "flat blocks": _with(remote_block_ids=[1]),
    "block": _with(remote_block_ids=[[-1]]),
    "engine": _with(remote_engine_id=""),
    "request": _with(remote_request_id=3),
    "size": _with(tp_size=0),
    "count": _with(remote_num_tokens=True),
    "expiry": _with(remote_blocks_expiry_time="soon"),
    "mode": _with(transfer_mode="push"),
    "unknown field": _with(more=1),
    "no prefill": _with(do_remote_prefill=False),
    "prefill as text": _with(do_remote_prefill="true"),
    "turned round": _with(do_remote_decode=True),
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_session_never_reaches_vllm(name: str) -> None:
    made = ODD[name](session())
    with pytest.raises(Exception, match="session") as seen:
        decode_parameters(NIXL, made, prompt_digest(PROMPT, ""))
    codes = {"backend": "kv_transfer_failed", "expired": "kv_session_not_found"}
    assert seen.value.code == codes.get(name, "invalid_argument")  # type: ignore[attr-defined]


def test_a_fetch_that_fails_is_a_failed_transfer() -> None:
    async def test() -> None:
        async with backend(Role.DECODE, options()) as (engine, server):
            server.answers.append([error("Internal server error", 500), DONE])
            generation = await engine.accept(asking(PROMPT, session=session()))

            async def read() -> None:
                async for _ in generation:
                    pass

            assert (await fault(read())).code == "kv_transfer_failed"
            await generation.close()

    run(test)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (whole(None), "kv_transfer_failed"),
        (whole({**PARAMETERS, "remote_block_ids": [[]]}), "kv_transfer_failed"),
        (whole(PARAMETERS, "abort"), "cancelled"),
        ((500, error("boom", 500)), "internal"),
    ],
)
def test_a_prefill_without_a_cache_is_a_fault(answer: Any, code: str) -> None:
    async def test() -> None:
        async with backend(Role.PREFILL, options()) as (engine, server):
            server.answers.append(answer)
            doing = told(engine, asking(PROMPT, prefill_only=True))
            assert (await fault(doing)).code == code

    run(test)


def test_mooncake_names_the_transfer_and_asks_the_bootstrap_server() -> None:
    async def test() -> None:
        bootstrap: Json = {"0": {"engine_id": "e-0", "worker_addr": {}}}
        async with backend(bootstrap=bootstrap) as (_, server):
            host, _, port = server.url.removeprefix("http://").rpartition(":")
            known = options(
                "MooncakeConnector", VLLM_HOST_IP=host, VLLM_MOONCAKE_BOOTSTRAP_PORT=port
            )
            async with backend(Role.PREFILL, known) as (engine, prefill):
                prefill.answers.append(whole(None))
                (done,), _ = await told(engine, asking(PROMPT, prefill_only=True))
                assert isinstance(done, PrefillDone)
                said = prefill.bodies("generate")[0]["kv_transfer_params"]
                facts = await engine.facts()
                assert facts.connector is not None
                assert facts.connector.local_endpoints == done.session.endpoints
            assert done.session.attributes["vllm"] == {
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "transfer_id": said["transfer_id"],
                "remote_engine_id": "e-0",
                "remote_bootstrap_addr": server.url,
            }
            async with backend(Role.DECODE, known) as (engine, decode):
                decode.answers.append([chunk(0, (9,), end="length"), usage(3, 1), DONE])
                await told(engine, asking(PROMPT, session=done.session))
                fetched = decode.bodies("generate")[0]["kv_transfer_params"]
                assert fetched == done.session.attributes["vllm"]

    run(test)


def test_only_a_decode_in_use_can_be_aborted_by_its_session() -> None:
    async def test() -> None:
        async with backend(Role.DECODE, options()) as (engine, server):
            assert (await fault(engine.abort_session(session()))).code == "kv_session_not_found"
            server.answers.append([chunk(0, (9,), "x"), 30.0])
            used = session()
            generation = await engine.accept(asking(PROMPT, session=used))
            await engine.abort_session(used)
            await server.cut.wait()
            await generation.close()
        async with backend(Role.PREFILL, options()) as (engine, server):
            assert (await fault(engine.abort_session(used))).code == "unimplemented"
        plain = {"argv": ["vllm", "serve", "m"]}
        async with backend(Role.PREFILL, plain) as (engine, server):
            refused = await fault(engine.accept(asking(PROMPT, prefill_only=True)))
            assert refused.code == "failed_precondition"
            assert server.bodies("generate") == []

    run(test)
