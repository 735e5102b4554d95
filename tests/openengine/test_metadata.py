"""The call metadata of v0.1.0."""

from __future__ import annotations

from dataclasses import replace

import grpc
import pytest

from inferlab_adapters.openengine.engine import Parallelism, Role
from inferlab_adapters.openengine.metadata import PRIORITY, RANK
from inferlab_adapters.openengine.revisions import V0_1_0
from tests.openengine.scripted import ScriptedEngine, facts_with
from tests.openengine.serving import run, serving


@pytest.mark.parametrize(
    "metadata",
    [
        ((PRIORITY, "x"),),
        ((PRIORITY, ""),),
        ((PRIORITY, "1.0"),),
        ((PRIORITY, str(2**31)),),
        ((PRIORITY, str(-(2**31) - 1)),),
        ((PRIORITY, "1"), (PRIORITY, "1")),
        ((RANK, "-1"),),
        ((RANK, str(2**32)),),
        ((RANK, "1" * 50),),
        ((RANK, "0"), (RANK, "0")),
    ],
)
def test_malformed_and_doubled_keys_are_refused(metadata: tuple[tuple[str, str], ...]) -> None:
    async def test() -> None:
        async with serving(revision=V0_1_0) as served:
            outcome = await served.client.outcome("Generate", served.request(), metadata=metadata)
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert outcome.details.startswith(f"metadata {metadata[0][0]}: ")
            assert served.engine.accepted == []
            assert (await served.client.outcome("Health", {}, metadata=metadata)).ok

    run(test)


def test_priority_and_rank_reach_the_engine() -> None:
    async def test() -> None:
        facts = replace(facts_with(dp_rank_choice=True), parallelism=Parallelism(data=4))
        async with serving(ScriptedEngine(facts=facts), V0_1_0) as served:
            metadata = ((PRIORITY, str(-(2**31))), (RANK, "3"))
            outcome = await served.client.outcome("Generate", served.request(), metadata=metadata)
            assert outcome.ok
            (request,) = served.engine.accepted
            assert (request.priority, request.dp_rank) == (-(2**31), 3)

    run(test)


def test_what_is_not_advertised_is_refused() -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(facts=facts_with(priority=False)), V0_1_0) as served:
            for metadata in (((PRIORITY, "0"),), ((RANK, "1"),)):
                outcome = await served.client.outcome(
                    "Generate", served.request(), metadata=metadata
                )
                assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
                assert outcome.details.startswith(f"metadata {metadata[0][0]}: ")

    run(test)


def test_a_rank_must_be_that_of_the_session() -> None:
    async def test() -> None:
        facts = replace(ScriptedEngine(Role.DECODE).described, parallelism=Parallelism(data=2))
        prefill, decode = ScriptedEngine(Role.PREFILL), ScriptedEngine(Role.DECODE, facts=facts)
        async with serving(prefill, V0_1_0) as first, serving(decode, V0_1_0) as second:
            ready = (await first.generate()).messages[0].prefill_ready.kv_session
            request = second.request(kv={"session": ready})
            outcome = await second.client.outcome("Generate", request, metadata=((RANK, "1"),))
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert "session's rank" in outcome.details

    run(test)
