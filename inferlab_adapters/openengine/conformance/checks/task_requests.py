"""What every task refuses, and what every answer has."""

from __future__ import annotations

from typing import Any

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import (
    FAILED_PRECONDITION,
    INVALID,
    NOT_FOUND,
    UNIMPLEMENTED,
    must_refuse,
)
from inferlab_adapters.openengine.conformance.checks.models import UNKNOWN
from inferlab_adapters.openengine.conformance.checks.running import Running
from inferlab_adapters.openengine.conformance.checks.tasks import (
    SCORE,
    TASKS,
    Task,
    ability,
    ask,
    body,
    check_tensor,
    done,
    item,
    tensors,
)
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip, TooFast
from inferlab_adapters.openengine.conformance.subject import Subject

_NONE = "no task is advertised"


@check("T1", needs="tasks")
async def unsupported(s: Subject) -> None:
    tasks = [task for task in TASKS if not ability(s, task).supported]
    if not tasks:
        raise Skip("every task is advertised")
    for task in tasks:
        call = await ask(s, task, expect="refused")
        # Support that is not reported may be there all the same.
        if call.ok and not ability(s, task).HasField("supported"):
            continue
        must_refuse(call, f"{task.method} without the task", FAILED_PRECONDITION)


@check("T2", needs="tasks")
async def unknown_model(s: Subject) -> None:
    for task in TASKS:
        call = await ask(s, task, context={"model": UNKNOWN}, expect="refused")
        must_refuse(call, f"{task.method} on an unknown model", NOT_FOUND)


@check("T3", needs="tasks")
async def malformed(s: Subject) -> None:
    for task in _some(s):
        changes = {"options": {"granularity": 99}}
        call = await ask(s, task, changes, expect="refused")
        must_refuse(call, f"{task.method} with an unknown granularity", *_codes(s, task))


@check("T5", needs="tasks")
async def ids(s: Subject) -> None:
    for task in _some(s):
        await _refuse(s, task, "an empty request_id", context={"request_id": ""})
        call = await ask(s, task, context={"model": ""}, expect="refused")
        must_refuse(call, f"{task.method} without a model", *_codes(s, task), NOT_FOUND)
    served = [task for task in TASKS if ability(s, task).supported]
    if not served or not s.decodes:
        return
    request = await Running.start(s)
    try:
        call = await ask(s, served[0], context={"request_id": request.id}, expect="refused")
        if request.ended:
            raise TooFast
        must_refuse(call, f"{served[0].method} with the id of a running Generate")
    finally:
        await request.stop()


@check("T6", needs="tasks")
async def not_empty(s: Subject) -> None:
    for task in _some(s):
        await _refuse(s, task, "no item", {"groups" if task is SCORE else "inputs": []})


@check("T7", needs="tasks")
async def item_ids(s: Subject) -> None:
    for task in _some(s):
        await _refuse_items(s, task, "an empty item_id", {"item_id": ""})
        await _refuse_items(s, task, "an item_id twice", {"item_id": "item-1"})


@check("T8", needs="tasks")
async def one_input(s: Subject) -> None:
    for task in _some(s):
        bare = {"text": None, "token_ids": None}
        await _refuse_items(s, task, "an item without input", bare)


@check("T9", needs="tasks")
async def media(s: Subject) -> None:
    for task in _some(s):
        changes = {"text": None, "token_ids": None, "multimodal": {"text": "a"}}
        await _refuse_items(s, task, "a multimodal item without media", changes)


@check("T10", needs="tasks")
async def dense(s: Subject) -> None:
    await _tensors(s, "DenseFloatTensor")


@check("T11", needs="tasks")
async def sparse(s: Subject) -> None:
    await _tensors(s, "SparseFloatTensor")


@check("T12", needs="tasks")
async def scalars(s: Subject) -> None:
    for tensor in await _all_tensors(s):
        if len(tensor.values) == 1 and not tensor.shape:
            raise Broken("a single number has an empty shape")


@check("T13", needs="tasks")
async def usage(s: Subject) -> None:
    for task in _served(s):
        said = (await done(s, task)).usage
        if said.cached_input_tokens > said.input_tokens:
            raise Broken(f"{said.cached_input_tokens} cached of {said.input_tokens}")


@check("T14", needs="tasks")
async def one_output_each(s: Subject) -> None:
    for task in _served(s):
        call = await ask(s, task, expect="served")
        if not call.ok:
            raise Broken(f"{task.method} is advertised: {call.told()}")
        reply = call.reply
        if reply.request_id != call.request.context.request_id:
            raise Broken(f"{task.method} answers with the id {reply.request_id!r}")
        if task is SCORE:
            continue
        sent = [one.item_id for one in call.request.inputs]
        if [one.item_id for one in reply.outputs] != sent:
            raise Broken(f"sent {sent}, came {[one.item_id for one in reply.outputs]}")
        for number, output in enumerate(reply.outputs):
            if not output.HasField("input_index") or output.input_index != number:
                raise Broken(f"output {number} of {task.method} has another input_index, or none")


@check("T16", needs="tasks")
async def options_of_the_context(s: Subject) -> None:
    for task in _served(s):
        said = ability(s, task)
        for field, value in (("priority", 1), ("lora_name", "conformance-none")):
            name = f"supports_{field.removesuffix('_name')}"
            if said.HasField(name) and not getattr(said, name):
                call = await ask(s, task, context={field: value}, expect="refused")
                must_refuse(call, f"{field}, which {task.method} does not advertise,", INVALID)


@check("T17", needs="tasks")
async def limits(s: Subject) -> None:
    found = False
    for task in _served(s):
        said = ability(s, task)
        name = "max_candidates_per_group" if task is SCORE else "max_batch_size"
        most = getattr(said, name) if said.HasField(name) else 0
        if 0 < most < 10_000:
            found = True
            call = await ask(s, task, body(s, task, most + 1), expect="refused")
            must_refuse(call, f"{most + 1} items, with {name} {most},")
    if not found:
        raise Skip("no limit is reported")


def _served(s: Subject) -> list[Task]:
    found = [task for task in TASKS if ability(s, task).supported]
    if not found:
        raise Skip(_NONE)
    return found


def _some(s: Subject) -> list[Task]:
    """The tasks that are served; all where none is, since malformed is malformed."""
    return [task for task in TASKS if ability(s, task).supported] or list(TASKS)


def _codes(s: Subject, task: Task) -> tuple[Any, ...]:
    # Which of two faults is told first is open.
    return (INVALID,) if ability(s, task).supported else (INVALID, FAILED_PRECONDITION)


async def _refuse(
    s: Subject,
    task: Task,
    what: str,
    changes: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
) -> None:
    call = await ask(s, task, changes, context, expect="refused")
    if call.code is UNIMPLEMENTED:
        raise Skip(f"the server does not serve {task.method}")
    must_refuse(call, f"{task.method} with {what}", *_codes(s, task))


async def _refuse_items(s: Subject, task: Task, what: str, changes: dict[str, Any]) -> None:
    changed = {k: v for k, v in {**item(s, task, 2), **changes}.items() if v is not None}
    items = [item(s, task, 1), changed]
    group = {"group_id": "group-0", "query": item(s, task, 0), "candidates": items}
    await _refuse(s, task, what, {"groups": [group]} if task is SCORE else {"inputs": items})


async def _tensors(s: Subject, kind: str) -> None:
    found = [one for one in await _all_tensors(s) if one.DESCRIPTOR.name == kind]
    for tensor in found:
        check_tensor(tensor)
    if not found:
        raise Skip(f"no {kind} was seen")


async def _all_tensors(s: Subject) -> list[Any]:
    return [tensor for task in _served(s) for tensor in tensors(await done(s, task))]
