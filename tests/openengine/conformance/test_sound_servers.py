"""Servers that keep the rules: none is failed, and what can be seen of each rule is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack

import pytest

from inferlab_adapters.openengine.conformance.report import Report
from inferlab_adapters.openengine.conformance.rules import rules
from inferlab_adapters.openengine.conformance.runner import Asked, run
from inferlab_adapters.openengine.conformance.subject import Allowed
from inferlab_adapters.openengine.engine import EngineFault, GenerateRequest, Role
from inferlab_adapters.openengine.revisions import REVISIONS
from inferlab_adapters.openengine.server import Server
from tests.openengine.conformance.broken import TIMEOUT, model
from tests.openengine.conformance.model_server import Hooks, Transport
from tests.openengine.conformance.model_tasks import Model
from tests.openengine.scripted import ScriptedEngine, Step
from tests.openengine.scripted_model import answer

_ALLOWED = Allowed(drain=True, lora="/adapters/two")
_KEY = b"a key of the test"
_SLOW_FROM, _TICK_SECONDS = 100, 0.008


def _slow(request: GenerateRequest) -> Iterator[Step]:
    """Long answers take their time, so that they are caught running."""
    slow = (request.stopping.max_tokens or 0) > _SLOW_FROM
    for event in answer(request):
        if slow:
            yield _TICK_SECONDS
        yield event


def _failing(request: GenerateRequest) -> Iterable[Step]:
    """Every fifth request fails after its first event, or before it has one."""
    number = int(request.request_id.rpartition("-")[2])
    fault = EngineFault("internal", "the engine failed")
    if number % 5:
        return _slow(request)
    return [next(iter(answer(request))), fault] if number % 2 else [fault]


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Every run, by the kind of server and the revision."""
    return asyncio.run(_all())


async def _all() -> dict[str, Report]:
    kinds = {
        "aggregated": _ours(ScriptedEngine(script=_slow)),
        "failing": _ours(ScriptedEngine(script=_failing), allowed=Allowed()),
        "prefill": _pair(Role.PREFILL),
        "decode": _pair(Role.DECODE),
        **{f"model {name}": _model(name) for name in REVISIONS},
    }
    found = await asyncio.gather(*kinds.values())
    return {
        f"{kind}, {report.revision}": report
        for kind, reports in zip(kinds, found, strict=True)
        for report in reports
    }


async def _ours(engine: ScriptedEngine, allowed: Allowed = _ALLOWED) -> list[Report]:
    server = Server(engine, listen="127.0.0.1:0")
    port = await server.start()
    try:
        return await run(Asked(address=f"127.0.0.1:{port}", timeout=TIMEOUT, allowed=allowed))
    finally:
        await server.stop(0)


async def _pair(asked: Role) -> list[Report]:
    prefill = ScriptedEngine(Role.PREFILL)
    decode = ScriptedEngine(Role.DECODE, script=_slow, prefill=prefill)
    servers = {
        engine.role: Server(engine, listen="127.0.0.1:0", session_key=_KEY)
        for engine in (prefill, decode)
    }
    ports = {role: await server.start() for role, server in servers.items()}
    other = Role.DECODE if asked is Role.PREFILL else Role.PREFILL
    try:
        return await run(
            Asked(
                address=f"127.0.0.1:{ports[asked]}",
                peer=f"127.0.0.1:{ports[other]}",
                timeout=TIMEOUT,
            )
        )
    finally:
        for server in servers.values():
            await server.stop(0)


async def _model(revision: str) -> list[Report]:
    inner = model(Model, revision, "aggregated")
    async with AsyncExitStack() as stack:
        transport = Transport(inner, REVISIONS[revision], Hooks())
        address = (await stack.enter_async_context(transport)).address
        return await run(
            Asked(address=address, revisions=(revision,), timeout=TIMEOUT, allowed=_ALLOWED)
        )


KINDS = [
    *(
        f"{kind}, {name}"
        for kind in ("aggregated", "failing", "prefill", "decode")
        for name in REVISIONS
    ),
    *(f"model {name}, {name}" for name in REVISIONS),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_server_breaks_no_rule(kind: str, reports: dict[str, Report]) -> None:
    failed = {one.rule: one.message for one in reports[kind].outcomes if one.state == "failed"}
    assert failed == {}


def test_every_skipped_rule_says_why(reports: dict[str, Report]) -> None:
    for report in reports.values():
        assert all(one.message for one in report.outcomes if one.state == "skipped")


# Rules that take a fault or a load that none of these servers has.
_UNSEEN = {"G7", "G8", "G9", "R13", "D2", "T1", "T4", "T11", "T15", "X3", "LO5", "P6"}


def test_every_rule_that_is_served_was_seen_to_be_kept(reports: dict[str, Report]) -> None:
    passed = {rule for report in reports.values() for rule in report.states("passed")}
    served = {rule.id for rule in rules().values() if rule.served}
    assert served - passed <= _UNSEEN


def test_faults_of_the_engine_show(reports: dict[str, Report]) -> None:
    for name in REVISIONS:
        assert {"G2", "G3"} <= set(reports[f"failing, {name}"].states("passed"))
