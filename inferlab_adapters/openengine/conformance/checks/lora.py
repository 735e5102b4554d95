"""Adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import (
    FAILED_PRECONDITION,
    NOT_FOUND,
    answer,
    must_answer,
    must_refuse,
)
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Expect

_NAME = "conformance-adapter"
_ID = 20260712
_NO_FOLDER = "needs the folder of an adapter that the server sees: --lora"
_NONE = "adapters are not advertised"


@check("LO1")
async def fields(s: Subject) -> None:
    _advertised(s)
    good = _adapter("/conformance/no-such-folder")
    cases: dict[str, Mapping[str, Any]] = {
        "lora_id=0": {"lora_id": 0},
        "lora_id=-1": {"lora_id": -1},
        "an empty lora_name": {"lora_name": ""},
        "a relative source_path": {"source_path": "adapters/one"},
        "an empty source_path": {"source_path": ""},
    }
    for what, changes in cases.items():
        must_refuse(await _load(s, {**good, **changes}, refused=True), what)


@check("LO4")
async def unknown(s: Subject) -> None:
    _advertised(s)
    call = await s.wire.unary("UnloadLora", {"lora_name": f"{_NAME}-none"}, expect="refused")
    must_refuse(call, "unloading an unknown adapter", NOT_FOUND)


@check("LO5")
async def disabled(s: Subject) -> None:
    if s.model_info.supports_lora:
        raise Skip("adapters are advertised")
    if not s.model_info.HasField("supports_lora"):
        raise Skip("the server does not say whether it has adapters")
    calls = [
        await s.wire.unary("ListLoras", expect="refused"),
        await _load(s, _adapter("/conformance/no-such-folder"), refused=True),
        await s.wire.unary("UnloadLora", {"lora_name": _NAME}, expect="refused"),
    ]
    for call in calls:
        must_refuse(call, f"{call.method} without adapters", FAILED_PRECONDITION)


@check("LO2")
async def twice(s: Subject) -> None:
    adapter = _adapter(_folder(s))
    try:
        if must_answer(await _load(s, adapter)).already_loaded:
            raise Broken("the first load says already_loaded")
        if not must_answer(await _load(s, adapter)).already_loaded:
            raise Broken("the second load does not say already_loaded")
    finally:
        await _unload(s)


@check("LO3")
async def clashes(s: Subject) -> None:
    folder = _folder(s)
    adapter = _adapter(folder)
    answer(await _load(s, adapter))
    cases: dict[str, Mapping[str, Any]] = {
        "another name for the id": {"lora_name": f"{_NAME}-2"},
        "another id for the name": {"lora_id": _ID + 1},
        "another path for the name and id": {"source_path": f"{folder.rstrip('/')}-2"},
    }
    try:
        for what, changes in cases.items():
            call = await _load(s, {**adapter, **changes}, refused=True)
            must_refuse(call, what)
            if call.code is not None and call.code.name != "ALREADY_EXISTS":
                raise Broken(f"{what}: {call.told()}")
    finally:
        await _unload(s)


@check("LO6")
async def loaded_and_unloaded(s: Subject) -> None:
    answer(await _load(s, _adapter(_folder(s))))
    try:
        if _NAME not in await _listed(s):
            raise Broken("a loaded adapter is not listed")
        call = await s.generate(s.plain({"lora_name": _NAME}), expect="served")
        if call.refused:
            raise Broken(f"a loaded adapter: {call.told()}")
    finally:
        await _unload(s)
    if _NAME in await _listed(s):
        raise Broken("an unloaded adapter is still listed")
    call = await s.generate(s.plain({"lora_name": _NAME}), expect="refused")
    must_refuse(call, "an adapter that was unloaded")


@check("LO7")
async def no_more_than_fit(s: Subject) -> None:
    _advertised(s)
    if not s.capacity.HasField("max_loras"):
        raise Skip("max_loras is not reported")
    listed = await _listed(s)
    if len(listed) > s.capacity.max_loras:
        raise Broken(f"{len(listed)} adapters are loaded, max_loras is {s.capacity.max_loras}")


async def _load(s: Subject, adapter: Mapping[str, Any], *, refused: bool = False) -> Call:
    expect: Expect = "refused" if refused else "served"
    return await s.wire.unary("LoadLora", {"adapter": adapter}, expect=expect)


async def _unload(s: Subject) -> None:
    await s.wire.unary("UnloadLora", {"lora_name": _NAME})


async def _listed(s: Subject) -> list[str]:
    reply = answer(await s.wire.unary("ListLoras"))
    return [adapter.lora_name for adapter in reply.adapters]


def _adapter(folder: str) -> dict[str, Any]:
    return {"lora_id": _ID, "lora_name": _NAME, "source_path": folder}


def _advertised(s: Subject) -> None:
    if not s.model_info.supports_lora:
        raise Skip(_NONE)


def _folder(s: Subject) -> str:
    _advertised(s)
    if not s.allowed.lora:
        raise Skip(_NO_FOLDER)
    return s.allowed.lora
