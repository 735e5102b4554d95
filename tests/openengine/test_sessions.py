"""KV sessions between prefill and decode: what is taken, what is refused, what is freed."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine.engine import Endpoint, EngineFault, KvSession, Role, TokenEvent
from inferlab_adapters.openengine.revisions import Revision
from inferlab_adapters.openengine.sessions import IssuedSessions, SessionSeal
from tests.openengine.scripted import ScriptedEngine
from tests.openengine.serving import BOTH, kinds, run, serving

KEY = b"a secret"
SESSION = KvSession(
    session_id="s-1",
    transfer_backend="nixl",
    endpoints=(Endpoint(host="127.0.0.1", port=5600, protocol="tcp"),),
    dp_rank=1,
    attributes={"vllm": {"big": 2**60, "ids": [[1, 2.0, 0.5]], "flag": True, "none": None}},
)

revisions = pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)


def test_a_sealed_session_is_taken_once() -> None:
    mine, other = SessionSeal(KEY), SessionSeal(KEY)
    sealed = mine.seal(SESSION, "m")
    checked = other.check(sealed, "m", "nixl")
    assert checked.attributes == {
        "vllm": {"big": str(2**60), "ids": [[1, 2, 0.5]], "flag": True, "none": None}
    }
    assert replace(checked, attributes={}) == replace(SESSION, attributes={})
    other.use(checked)
    with pytest.raises(EngineFault, match="used before"):
        other.check(sealed, "m", "nixl")
    other.unuse(checked)
    assert other.check(sealed, "m", None) == checked


def _attributes(session: KvSession, **changes: Any) -> KvSession:
    return replace(session, attributes={**session.attributes, **changes})


def _nested(depth: int) -> list[Any]:
    return [_nested(depth - 1)] if depth else []


def _seal(session: KvSession, **changes: Any) -> KvSession:
    return _attributes(session, oe={**session.attributes["oe"], **changes})


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda s: replace(s, session_id=""), "invalid_argument"),
        (lambda s: replace(s, session_id="s-2"), "invalid_argument"),
        (lambda s: replace(s, transfer_backend="mooncake"), "invalid_argument"),
        (lambda s: replace(s, dp_rank=0), "invalid_argument"),
        (lambda s: replace(s, endpoints=()), "invalid_argument"),
        (lambda s: replace(s, attributes={}), "invalid_argument"),
        (lambda s: _attributes(s, vllm={"do_remote_prefill": True}), "invalid_argument"),
        (lambda s: _attributes(s, more=1), "invalid_argument"),
        (lambda s: _attributes(s, deep=_nested(60)), "invalid_argument"),
        (lambda s: _attributes(s, oe=3), "invalid_argument"),
        (lambda s: _seal(s, digest=3), "invalid_argument"),
        (lambda s: _seal(s, digest="é"), "invalid_argument"),
        (lambda s: _seal(s, expires_at=9e9), "invalid_argument"),
        (lambda s: SessionSeal(b"other").seal(SESSION, "m"), "invalid_argument"),
        (lambda s: SessionSeal(None).seal(SESSION, "m"), "invalid_argument"),
        (lambda s: SessionSeal(KEY, lifetime=-1).seal(SESSION, "m"), "kv_session_not_found"),
        (lambda s: SessionSeal(KEY, lifetime=1e6).seal(SESSION, "m"), "invalid_argument"),
        (lambda s: SessionSeal(KEY).seal(SESSION, "n"), "kv_transfer_failed"),
        (
            lambda s: SessionSeal(KEY).seal(replace(SESSION, transfer_backend="x"), "m"),
            "kv_transfer_failed",
        ),
        (lambda s: SessionSeal(KEY).seal(replace(SESSION, endpoints=()), "m"), "invalid_argument"),
        *(
            (
                lambda s, host=host, port=port: SessionSeal(KEY).seal(
                    replace(SESSION, endpoints=(Endpoint(host=host, port=port, protocol=""),)), "m"
                ),
                "invalid_argument",
            )
            for host, port in (("0.0.0.0", 1), ("*", 1), ("::", 1), ("", 1), ("a", 0), ("a", 65536))
        ),
    ],
)
def test_spoilt_sessions_are_refused(spoil: Any, code: str) -> None:
    sealed = SessionSeal(KEY).seal(SESSION, "m")
    with pytest.raises(EngineFault) as caught:
        SessionSeal(KEY).check(spoil(sealed), "m", "nixl")
    assert caught.value.code == code
    assert caught.value.message.startswith("kv.session")


def test_a_seal_of_the_future_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = SessionSeal(KEY)
    sealed = seal.seal(SESSION, "m")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 60)
    with pytest.raises(EngineFault, match="clocks"):
        seal.check(sealed, "m", "nixl")
    monkeypatch.setattr(time, "time", lambda: now + 121)
    with pytest.raises(EngineFault, match="expired"):
        seal.check(sealed, "m", "nixl")


def test_used_sessions_are_forgotten_when_they_could_not_be_used_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seal = SessionSeal(KEY, lifetime=10)
    seal.use(SESSION)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 60)
    seal.use(replace(SESSION, session_id="s-2"))
    assert not seal.used(SESSION)


def test_issued_sessions_are_forgotten_with_time() -> None:
    issued = IssuedSessions(lifetime=-1)
    issued.add(SESSION)
    assert issued.find("s-1") is None
    assert issued.all() == ()


def test_a_key_that_everybody_knows_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        for role, key in ((Role.AGGREGATED, None), (Role.PREFILL, KEY), (Role.DECODE, None)):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                async with serving(ScriptedEngine(role), session_key=key):
                    pass
            expected = 1 if role is Role.DECODE else 0
            assert len(caplog.messages) == expected, role

    run(test)


@revisions
def test_a_decode_server_takes_the_session_of_a_prefill_server_unchanged(
    revision: Revision,
) -> None:
    async def test() -> None:
        prefill, decode = ScriptedEngine(Role.PREFILL), ScriptedEngine(Role.DECODE)
        decode.prefill = prefill
        async with (
            serving(prefill, revision, session_key=KEY) as first,
            serving(decode, revision, session_key=KEY) as second,
        ):
            ready = (await first.generate()).messages[0].prefill_ready.kv_session
            load = (await first.client.call("GetLoad")).active_kv_sessions
            assert load == 1

            def request(request_id: str, session: Any) -> Any:
                message = second.client.message("GenerateRequest", second.request(request_id))
                message.kv.session.CopyFrom(session)
                return message

            outcome = await second.client.outcome("Generate", request("d1", ready))
            assert kinds(outcome) == ["token", "token", "finished"]
            (accepted,) = decode.accepted
            assert accepted.session is not None
            assert accepted.session.attributes == {
                "remote_block_ids": [[1, 2]],
                "remote_engine_id": "prefill-0",
                "tp": 1,
            }
            assert (await first.client.call("GetLoad")).active_kv_sessions == 0
            outcome = await second.client.outcome("Generate", request("d2", ready))
            assert outcome.code is grpc.StatusCode.NOT_FOUND
            forged = type(ready)()
            forged.CopyFrom(ready)
            forged.attributes_struct.fields["remote_engine_id"].string_value = "mine"
            outcome = await second.client.outcome("Generate", request("d3", forged))
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            forged.attributes_struct.fields["x"].number_value = float("nan")
            outcome = await second.client.outcome("Generate", request("d4", forged))
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert len(decode.accepted) == 1

    run(test)


def test_a_session_that_the_engine_did_not_take_may_be_tried_again() -> None:
    async def test() -> None:
        prefill, decode = ScriptedEngine(Role.PREFILL), ScriptedEngine(Role.DECODE)
        async with serving(prefill) as first, serving(decode) as second:
            ready = (await first.generate()).messages[0].prefill_ready.kv_session
            message = second.client.message("GenerateRequest", second.request())
            message.kv.session.CopyFrom(ready)
            decode.refusal = EngineFault("overloaded", "full", retryable=True)
            outcome = await second.client.outcome("Generate", message)
            assert outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            decode.refusal = None
            assert (await second.client.outcome("Generate", message)).ok

    run(test)


def test_abort_frees_a_session() -> None:
    async def test() -> None:
        engine = ScriptedEngine(Role.PREFILL)
        async with serving(engine) as served:
            session = (await served.generate()).messages[0].prefill_ready.kv_session
            only_id = {"session_id": session.session_id}
            assert (await served.abort(kv_session=only_id)).messages[0].status == 1
            assert engine.sessions == {}
            assert (await served.abort(kv_session=session)).messages[0].status == 2
            session = (await served.generate("r2")).messages[0].prefill_ready.kv_session
            engine.sessions.clear()
            assert (await served.abort(kv_session=session)).messages[0].status == 2

    run(test)


def test_abort_of_a_session_ends_the_request_that_reads_it() -> None:
    async def test() -> None:
        prefill, decode = ScriptedEngine(Role.PREFILL), ScriptedEngine(Role.DECODE)
        decode.script = lambda request: [TokenEvent(0, (1,), "a"), 600.0]
        async with serving(prefill) as first, serving(decode) as second:
            ready = (await first.generate()).messages[0].prefill_ready.kv_session
            call = second.open(kv={"session": ready})
            await call.read()
            assert (await second.abort(kv_session=ready)).messages[0].status == 1
            assert (await call.read()).finished.reason == 3
            assert (await second.abort(kv_session=ready)).messages[0].status == 2

    run(test)
