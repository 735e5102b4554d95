"""What a smoke test asks over OpenEngine, of real servers around scripted engines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inferlab_adapters.control import openengine_checks, smoke_openengine
from inferlab_adapters.control.openengine_checks import TOKENS, ask
from inferlab_adapters.control.smoke_openengine import Speaker
from inferlab_adapters.control.types import Json
from inferlab_adapters.openengine.engine import EngineFault, FinishedEvent, Role, TokenEvent
from inferlab_adapters.openengine.launch import PROGRAM
from inferlab_adapters.openengine.revisions import REVISIONS
from inferlab_adapters.openengine.server import Server
from tests.control import fake_engine
from tests.control.fake_engine import free_port
from tests.openengine.scripted import MODEL, ScriptedEngine, tokens


@asynccontextmanager
async def _served(engine: ScriptedEngine, name: str, **more: Any) -> AsyncIterator[Speaker]:
    server = Server(engine, listen="127.0.0.1:0", instance_id=name, **more)
    address = f"127.0.0.1:{await server.start()}"
    try:
        yield Speaker(replica=name, instance=name, role=engine.role.value, address=address)
    finally:
        await server.stop(0)


def asked(
    *engines: ScriptedEngine,
    model: str = MODEL,
    planned: Callable[[Speaker], Speaker] = lambda speaker: speaker,
    keys: tuple[bytes, ...] = (b"k" * 32,),
) -> tuple[Json, list[str]]:
    """Serve these engines, as server-0 and so on, and ask them."""

    async def run() -> tuple[Json, list[str]]:
        async with asyncio.timeout(60), AsyncExitStack() as stack:
            speakers = [
                planned(
                    await stack.enter_async_context(
                        _served(engine, f"server-{index}", session_key=keys[index % len(keys)])
                    )
                )
                for index, engine in enumerate(engines)
            ]
            return await ask(speakers, model=model, prompt="once upon a time")

    return asyncio.run(run())


def pair() -> tuple[ScriptedEngine, ScriptedEngine]:
    """A prefill and a decode engine that share a cache."""
    prefill = ScriptedEngine(Role.PREFILL)
    return prefill, ScriptedEngine(Role.DECODE, prefill=prefill)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openengine_checks, "_POLL_SECONDS", 0.02)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openengine_checks, "READY_SECONDS", 0.1)


def test_a_replica_is_asked_everything_in_both_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    engine = ScriptedEngine()
    found, wrong = asked(engine)
    assert wrong == []
    assert found["handoff"] is None
    told = found["replicas"]["server-0"]
    assert (told["role"], told["instance_id"]) == ("aggregated", "server-0")
    ready = {"seed": "HEALTH_STATE_READY", "v0.1.0": "HEALTH_STATE_READY"}
    assert told["health"] == {**ready, "grpc.health.v1": "SERVING"}
    assert told["seconds"] > 0
    for name, revision in REVISIONS.items():
        assert told["revisions"][name] == {
            "schema_revision": 1,
            "minimum_client_revision": 1,
            "schema_release": revision.schema_release,
        }
        assert told["generate"][name]["tokens"] == TOKENS
    assert [request.stopping.max_tokens for request in engine.accepted] == [TOKENS, TOKENS]
    assert {request.sampling.temperature for request in engine.accepted} == {0}
    assert len({request.request_id for request in engine.accepted}) == 2


def test_a_prompt_is_handed_from_prefill_to_decode() -> None:
    prefill, decode = pair()
    found, wrong = asked(prefill, decode)
    assert wrong == []
    assert found["handoff"].pop("seconds") > 0
    assert found["handoff"] == {"prefill": "server-0", "decode": "server-1", "tokens": TOKENS}
    assert [one["role"] for one in found["replicas"].values()] == ["prefill", "decode"]
    assert [len(engine.accepted) for engine in (prefill, decode)] == [1, 1]
    assert decode.accepted[0].session is not None
    assert prefill.sessions == {}


def test_of_several_the_first_two_hand_over() -> None:
    prefill, decode = pair()
    found, wrong = asked(prefill, decode, ScriptedEngine(Role.DECODE), ScriptedEngine(Role.PREFILL))
    assert wrong == []
    assert (found["handoff"]["prefill"], found["handoff"]["decode"]) == ("server-0", "server-1")
    assert len(found["replicas"]) == 4


def test_an_engine_may_need_a_moment() -> None:
    class Slow(ScriptedEngine):
        looks = 0

        async def facts(self) -> Any:
            self.looks += 1
            self.ready = self.looks > 5
            return await super().facts()

    engine = Slow()
    _, wrong = asked(engine)
    assert wrong == []
    assert engine.looks > 5


@pytest.mark.usefixtures("impatient")
def test_a_server_that_never_gets_ready_fails() -> None:
    engine = ScriptedEngine()
    engine.ready = False
    found, wrong = asked(engine)
    (sentence,) = wrong
    assert sentence.startswith("OpenEngine of server-0 (seed): Health is HEALTH_STATE_STARTING (")
    assert "the engine is loading" in sentence
    assert sentence.endswith("after its engine answered HTTP")
    assert found["replicas"]["server-0"]["health"] == {"seed": "HEALTH_STATE_STARTING"}
    assert engine.accepted == []


@pytest.mark.usefixtures("impatient")
def test_a_port_where_nobody_listens_fails() -> None:
    address = f"127.0.0.1:{free_port()}"
    _, wrong = asked(ScriptedEngine(), planned=lambda one: replace(one, address=address))
    assert len(wrong) == 1
    assert wrong[0].startswith("OpenEngine of server-0 (seed): Health: UNAVAILABLE: ")


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        ({"role": "prefill"}, "GetEngineInfo says role 'aggregated', not 'prefill'"),
        ({"instance": "x"}, "GetEngineInfo says instance_id 'server-0', not 'x'"),
    ],
)
def test_a_server_that_is_another_one_fails(planned: dict[str, str], said: str) -> None:
    engine = ScriptedEngine()
    _, wrong = asked(engine, planned=lambda one: replace(one, **planned))
    assert wrong == [f"OpenEngine of server-0 (seed): {said}"]
    assert engine.accepted == []


def test_a_model_that_is_not_served_fails() -> None:
    _, wrong = asked(ScriptedEngine(), model="llama")
    assert wrong == [
        f"OpenEngine of server-0 (seed): GetEngineInfo lists the models {MODEL}, not llama"
    ]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([TokenEvent(0, (66,), ""), FinishedEvent(0, "length")], "the text is empty"),
        ([FinishedEvent(0, "cancelled")], "the output ended with FINISH_REASON_CANCELLED"),
        (tokens(9), "usage counts 9 completion tokens where 9 came and 8 are the most"),
        ([EngineFault("internal", "no KV blocks left")], "no KV blocks left"),
    ],
)
def test_a_bad_answer_fails(script: list[Any], said: str) -> None:
    found, wrong = asked(ScriptedEngine(script=lambda request: script))
    assert len(wrong) == 1
    assert wrong[0].startswith("OpenEngine of server-0 (seed): Generate: ")
    assert said in wrong[0]
    assert found["replicas"]["server-0"]["generate"] == {}


def test_a_request_that_is_refused_fails() -> None:
    engine = ScriptedEngine()
    engine.refusal = EngineFault("overloaded", "come back later")
    _, wrong = asked(engine)
    assert wrong == ["OpenEngine of server-0 (seed): Generate: RESOURCE_EXHAUSTED: come back later"]


def test_one_bad_replica_does_not_hide_another() -> None:
    bad = ScriptedEngine()
    bad.refusal = EngineFault("overloaded", "come back later")
    found, wrong = asked(bad, ScriptedEngine())
    assert len(wrong) == 1
    assert list(found["replicas"]["server-1"]["generate"]) == list(REVISIONS)


def test_a_prefill_without_a_session_fails() -> None:
    prefill, decode = pair()
    prefill.script = lambda request: [EngineFault("internal", "no room for the cache")]
    found, wrong = asked(prefill, decode)
    assert len(wrong) == 1
    assert wrong[0].startswith("OpenEngine of server-0 (seed): Generate: ")
    assert "no room for the cache" in wrong[0]
    assert (found["handoff"], decode.accepted) == (None, [])


def test_a_decode_that_does_not_get_the_cache_fails() -> None:
    prefill, decode = pair()
    decode.refusal = EngineFault("kv_transfer_failed", "the peer cannot be reached")
    found, wrong = asked(prefill, decode)
    said = "Generate: FAILED_PRECONDITION: the peer cannot be reached"
    assert wrong == [f"OpenEngine of server-1 (seed): {said}"]
    assert found["handoff"] is None


def test_servers_with_different_secrets_fail() -> None:
    prefill, decode = pair()
    found, wrong = asked(prefill, decode, keys=(b"a" * 32, b"b" * 32))
    assert len(wrong) == 1
    assert wrong[0].startswith("OpenEngine of server-1 (seed): Generate: INVALID_ARGUMENT: ")
    assert "seal does not match" in wrong[0]
    assert (found["handoff"], decode.accepted) == (None, [])


def test_no_handoff_is_tried_where_a_server_is_bad() -> None:
    prefill, decode = pair()
    found, wrong = asked(prefill, decode, planned=lambda one: replace(one, instance="server-0"))
    assert len(wrong) == 1
    assert (found["handoff"], prefill.accepted) == (None, [])


def test_speakers_are_the_wrapped_replicas(tmp_path: Path) -> None:
    engines = [
        fake_engine.engine("p", kind="prefill", argv=[*PROGRAM, "--", "vllm"]),
        fake_engine.engine("s", argv=[*PROGRAM, "--", "vllm"]),
        fake_engine.engine("d", kind="decode", argv=["vllm", "serve"]),
    ]
    prepared = fake_engine.prepared(tmp_path, *engines)
    for one in prepared.allocations:
        one["ports"] = {"openengine": {"host": "fd00::1", "port": 9000}}
    found = smoke_openengine.speakers(prepared)
    assert found == (
        Speaker(replica="p", instance="p", role="prefill", address="[fd00::1]:9000"),
        Speaker(replica="s", instance="s", role="aggregated", address="[fd00::1]:9000"),
    )
    (note,) = smoke_openengine.notes(found)
    assert "the role decode does not speak it" in note
    assert smoke_openengine.notes(found[1:]) == []
