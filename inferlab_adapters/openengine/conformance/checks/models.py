"""What the server says of a model."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import (
    NOT_FOUND,
    UNIMPLEMENTED,
    must_refuse,
)
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto

UNKNOWN = "conformance/no-such-model"
_TASKS = ("embed", "classify", "score")


@check("M1")
async def model_is_required(s: Subject) -> None:
    must_refuse(await s.wire.unary("GetModelInfo", expect="refused"), "an empty model")


@check("M2")
async def unknown_model(s: Subject) -> None:
    call = await s.wire.unary("GetModelInfo", {"model": UNKNOWN}, expect="refused")
    must_refuse(call, "an unknown model", NOT_FOUND)


@check("M3")
async def capabilities_say(s: Subject) -> None:
    found = [
        name
        for name in ("prompt_logprobs", "output_logprobs", "guided_decoding")
        if s.generation.HasField(name)
    ]
    if not found:
        raise Skip("the server reports no capability")
    for name in found:
        if not getattr(s.generation, name).HasField("supported"):
            raise Broken(f"{name} is present and does not say supported")


@check("M5")
async def adapters_are_served(s: Subject) -> None:
    if not s.model_info.supports_lora:
        raise Skip("adapters are not advertised")
    for method in ("ListLoras", "UnloadLora", "LoadLora"):
        call = await s.wire.unary(method)
        if call.code is UNIMPLEMENTED or (method == "ListLoras" and not call.ok):
            raise Broken(f"supports_lora is true, and {call.told()}")


@check("M7")
async def task_capabilities(s: Subject) -> None:
    for name, task in _tasks(s):
        for field, value in task.ListFields():
            many = [value] if isinstance(value, int) else list(value)
            limit = field.name.startswith("max_") or field.name == "dimension"
            if limit and 0 in many:
                raise Broken(f"{name}.{field.name} is 0")
            if field.enum_type is not None and 0 in many:
                raise Broken(f"{name}.{field.name} holds an unspecified value")


@check("M8")
async def task_modalities(s: Subject) -> None:
    multimodal = s.wire.revision.enum("TaskInputType").Value("TASK_INPUT_TYPE_MULTIMODAL")
    for name, task in _tasks(s):
        if task.modalities and multimodal not in task.input_types:
            raise Broken(f"{name} has modalities and takes no multimodal input")
        if multimodal in task.input_types and 0 in task.modalities:
            raise Broken(f"{name}.modalities holds an unspecified one")


@check("M10")
async def every_name(s: Subject) -> None:
    facts = s.model_info
    names = [name for name in (facts.served_model_name, *facts.served_model_aliases) if name]
    if not names:
        raise Skip("the server reports no served name")
    for name in names:
        call = await s.generate(s.plain({"model": name}), expect="served")
        if not call.messages and not call.ok:
            raise Broken(f"the name {name!r} is reported, and {call.told()}")


def _tasks(s: Subject) -> list[tuple[str, Proto]]:
    if not s.model_info.HasField("tasks"):
        raise Skip("tasks are not advertised")
    return [
        (name, getattr(s.model_info.tasks, name))
        for name in _TASKS
        if s.model_info.tasks.HasField(name)
    ]
