"""The LoRA RPCs and the requests that use them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine.engine import EngineFault, Lora
from inferlab_adapters.openengine.revisions import Revision
from tests.openengine.scripted import MODEL, ScriptedEngine, facts_with
from tests.openengine.serving import BOTH, Served, run, serving

revisions = pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)


async def load(served: Served, number: int = 1, name: str = "a", path: str = "/loras/a") -> Any:
    adapter = {"lora_id": number, "lora_name": name, "source_path": path}
    return await served.client.outcome("LoadLora", {"adapter": adapter})


@revisions
def test_a_life(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            first, second = await load(served), await load(served)
            assert [first.messages[0].already_loaded, second.messages[0].already_loaded] == [
                False,
                True,
            ]
            assert served.engine.loras == {"a": Lora(lora_id=1, name="a", path="/loras/a")}
            (listed,) = (await served.client.call("ListLoras")).adapters
            assert (listed.lora_id, listed.lora_name, listed.source_path) == (1, "a", "/loras/a")
            assert (await served.generate(lora_name="a")).ok
            assert served.engine.accepted[0].lora_name == "a"
            reply = await served.client.call("UnloadLora", {"lora_name": "a"})
            assert reply.adapter.lora_id == 1
            assert served.engine.loras == {}
            assert not (await served.client.call("ListLoras")).adapters
            assert (await served.generate(lora_name="a")).code is grpc.StatusCode.NOT_FOUND
            outcome = await served.client.outcome("UnloadLora", {"lora_name": "a"})
            assert outcome.code is grpc.StatusCode.NOT_FOUND

    run(test)


@pytest.mark.parametrize(
    ("adapter", "code"),
    [
        ((0, "b", "/b"), grpc.StatusCode.INVALID_ARGUMENT),
        ((-1, "b", "/b"), grpc.StatusCode.INVALID_ARGUMENT),
        ((2, "", "/b"), grpc.StatusCode.INVALID_ARGUMENT),
        ((2, "b\n", "/b"), grpc.StatusCode.INVALID_ARGUMENT),
        ((2, "b", ""), grpc.StatusCode.INVALID_ARGUMENT),
        ((2, "b", "b"), grpc.StatusCode.INVALID_ARGUMENT),
        ((2, MODEL, "/b"), grpc.StatusCode.ALREADY_EXISTS),
        ((1, "b", "/b"), grpc.StatusCode.ALREADY_EXISTS),
        ((2, "a", "/b"), grpc.StatusCode.ALREADY_EXISTS),
        ((2, "b", "/loras/a"), grpc.StatusCode.ALREADY_EXISTS),
        ((2, "b", "/loras/./a/"), grpc.StatusCode.ALREADY_EXISTS),
    ],
)
def test_adapters_that_cannot_be(adapter: tuple[int, str, str], code: grpc.StatusCode) -> None:
    async def test() -> None:
        async with serving() as served:
            assert (await load(served)).ok
            outcome = await load(served, *adapter)
            assert outcome.code is code
            assert outcome.details.startswith("adapter.")
            assert list(served.engine.loras) == ["a"]

    run(test)


def test_no_more_are_loaded_than_there_is_room_for() -> None:
    async def test() -> None:
        async with serving() as served:
            for number, name in ((1, "a"), (2, "b")):
                assert (await load(served, number, name, f"/{name}")).ok
            outcome = await load(served, 3, "c", "/c")
            assert outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert len((await served.client.call("ListLoras")).adapters) == 2

    run(test)


@revisions
def test_without_lora_nothing_of_it_works(revision: Revision) -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(facts=facts_with(lora=False)), revision) as served:
            outcomes = [
                await load(served),
                await served.client.outcome("UnloadLora", {"lora_name": "a"}),
                await served.client.outcome("ListLoras", {}),
            ]
            assert {o.code for o in outcomes} == {grpc.StatusCode.FAILED_PRECONDITION}
            assert not (await served.client.call("GetModelInfo", {"model": MODEL})).supports_lora

    run(test)


def test_what_the_engine_refuses_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with serving() as served:

            async def refuse(lora: Lora) -> None:
                raise EngineFault("invalid_argument", "no such folder")

            with monkeypatch.context() as patch:
                patch.setattr(served.engine, "load_lora", refuse)
                assert (await load(served)).code is grpc.StatusCode.INVALID_ARGUMENT
            assert not (await served.client.call("ListLoras")).adapters
            assert (await load(served)).ok
            monkeypatch.setattr(served.engine, "unload_lora", refuse)
            outcome = await served.client.outcome("UnloadLora", {"lora_name": "a"})
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert len((await served.client.call("ListLoras")).adapters) == 1

    run(test)


@revisions
def test_adapters_that_the_engine_had_by_itself(revision: Revision) -> None:
    async def test() -> None:
        engine = ScriptedEngine()
        engine.loras = {"own": Lora(lora_id=0, name="own", path="/loras/own")}
        async with serving(engine, revision) as served:
            assert (await served.generate(lora_name="own")).ok
            (listed,) = (await served.client.call("ListLoras")).adapters
            assert (listed.lora_id, listed.lora_name, listed.source_path) == (
                *(1, "own", "/loras/own"),
            )
            again = await load(served, 1, "own", "/loras/own")
            assert again.messages[0].already_loaded
            assert (await load(served, 1, "a")).code is grpc.StatusCode.ALREADY_EXISTS
            assert (await load(served, 2, "a")).ok
            reply = await served.client.call("UnloadLora", {"lora_name": "own"})
            assert reply.adapter.lora_id == 1
            assert list(engine.loras) == ["a"]

    run(test)


def test_an_engine_that_came_up_again_is_asked_what_it_has() -> None:
    async def test() -> None:
        async with serving() as served:
            assert (await load(served, 5, "a")).ok
            assert (await load(served, 6, "b", "/loras/b")).ok
            # Of the engine that is there now, one has another folder and one is new.
            served.engine.loras = {
                name: Lora(lora_id=0, name=name, path=path)
                for name, path in (("c", "/loras/c"), ("a", "/loras/a"), ("b", "/elsewhere"))
            }
            served.server.set_state("not_ready", "it went away")
            served.server.set_state("ready", "it came back")
            listed = (await served.client.call("ListLoras")).adapters
            assert [(one.lora_id, one.lora_name, one.source_path) for one in listed] == [
                (1, "c", "/loras/c"),
                (5, "a", "/loras/a"),
                (2, "b", "/elsewhere"),
            ]
            assert (await served.generate(lora_name="c")).ok

    run(test)
