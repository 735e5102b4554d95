"""What the three tasks have in common: requests, tensors, outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import PROMPT, TOKEN_IDS, Subject
from inferlab_adapters.openengine.conformance.wire import Call, Expect, Proto

SENTENCES = (PROMPT, "The quick brown fox", "jumps over the lazy dog")


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """``method`` is the call, ``name`` its field in the capabilities."""

    method: str
    name: str


EMBED = Task(method="Embed", name="embed")
CLASSIFY = Task(method="Classify", name="classify")
SCORE = Task(method="Score", name="score")
TASKS = (EMBED, CLASSIFY, SCORE)


def ability(s: Subject, task: Task) -> Proto:
    """What the model says of a task; every field absent where it says nothing."""
    return getattr(s.model_info.tasks, task.name)


def need(s: Subject, task: Task) -> Proto:
    """The same; raises :class:`Skip` where the task is not advertised."""
    found = ability(s, task)
    if not found.supported:
        raise Skip(f"{task.method} is not advertised")
    return found


def item(s: Subject, task: Task, number: int) -> dict[str, Any]:
    """An input that the model takes."""
    types = s.wire.revision.enum("TaskInputType")
    listed = ability(s, task).input_types
    data: dict[str, Any] = {"item_id": f"item-{number}"}
    if listed and types.Value("TASK_INPUT_TYPE_TEXT") not in listed:
        data["token_ids"] = {"ids": list(TOKEN_IDS)}
    else:
        data["text"] = SENTENCES[number % len(SENTENCES)]
    return data


def body(s: Subject, task: Task, count: int = 2) -> dict[str, Any]:
    """Inputs of a task, as many as asked for."""
    if task is not SCORE:
        return {"inputs": [item(s, task, number) for number in range(count)]}
    group = {
        "group_id": "group-0",
        "query": item(s, task, 0),
        "candidates": [item(s, task, number) for number in range(1, count + 1)],
    }
    return {"groups": [group]}


async def ask(
    s: Subject,
    task: Task,
    changes: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    *,
    expect: Expect = "any",
) -> Call:
    """A task request, with ``changes`` in place of its parts."""
    asked = {"request_id": s.new_id(), "model": s.model, **(context or {})}
    data = {"context": asked, **body(s, task), **(changes or {})}
    return await s.wire.unary(task.method, data, expect=expect)


async def done(s: Subject, task: Task, changes: Mapping[str, Any] | None = None) -> Proto:
    """The answer to a task that is advertised; raises Broken where it fails."""
    need(s, task)
    call = await ask(s, task, changes, expect="served")
    if not call.ok:
        raise Broken(f"{task.method} is advertised: {call.told()}")
    return call.reply


def tensors(reply: Proto) -> list[Proto]:
    """Every tensor of an answer."""
    found = []
    for output in _outputs(reply):
        names = [f.name for f, _ in output.ListFields() if f.name in ("dense", "sparse", "scores")]
        found += [getattr(output, name) for name in names]
    return found


def _outputs(reply: Proto) -> list[Proto]:
    if reply.DESCRIPTOR.name == "ScoreResponse":
        return [candidate for group in reply.groups for candidate in group.candidates]
    return list(reply.outputs)


def check_tensor(tensor: Proto) -> None:
    """Raise Broken unless a tensor is what its shape says."""
    size = math.prod(tensor.shape)
    if not tensor.shape or size == 0:
        raise Broken(f"a tensor has the shape {list(tensor.shape)}")
    bad = [value for value in tensor.values if not math.isfinite(value)]
    if bad:
        raise Broken(f"a tensor holds {bad[0]}")
    if tensor.DESCRIPTOR.name == "DenseFloatTensor":
        if len(tensor.values) != size:
            raise Broken(f"shape {list(tensor.shape)} has {len(tensor.values)} values")
        return
    indices = list(tensor.indices)
    if len(indices) != len(tensor.values):
        raise Broken(f"{len(indices)} indices and {len(tensor.values)} values")
    if any(a >= b for a, b in pairwise(indices)):
        raise Broken("indices do not rise strictly")
    if indices and indices[-1] >= size:
        raise Broken(f"index {indices[-1]} in a tensor of {size}")


def rows(output: Proto) -> int:
    """How many rows the tensor of an output has."""
    name = "scores" if output.DESCRIPTOR.name == "ClassificationOutput" else None
    tensor = getattr(output, name or output.WhichOneof("embedding") or "dense")
    return int(tensor.shape[0]) if tensor.shape else 0
