"""Classifications."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.tasks import CLASSIFY, done, rows
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto, enum_name

_TOKEN = "TASK_OUTPUT_GRANULARITY_TOKEN"
_PROBABILITIES = "TASK_VALUE_SEMANTICS_PROBABILITIES"
_ROUNDING = 1e-3


@check("C1", needs="tasks")
async def semantics(s: Subject) -> None:
    for output in await _outputs(s):
        if not output.semantics:
            raise Broken("the semantics are unspecified")


@check("C2", needs="tasks")
async def shapes(s: Subject) -> None:
    for output in await _outputs(s):
        ranks = 2 if enum_name(output, "granularity") == _TOKEN else 1
        if len(output.scores.shape) != ranks:
            shape = list(output.scores.shape)
            raise Broken(f"{enum_name(output, 'granularity')} has the shape {shape}")


@check("C3", needs="tasks")
async def labels(s: Subject) -> None:
    for output in await _outputs(s):
        classes = output.scores.shape[-1] if output.scores.shape else 0
        if output.labels and len(output.labels) != classes:
            raise Broken(f"{len(output.labels)} labels of {classes} classes")


@check("C4", needs="tasks")
async def token_ids(s: Subject) -> None:
    for output in await _outputs(s):
        if output.token_ids and len(output.token_ids) != rows(output):
            raise Broken(f"{len(output.token_ids)} token_ids and {rows(output)} rows")


@check("C5", needs="tasks")
async def probabilities(s: Subject) -> None:
    found = False
    for output in await _outputs(s):
        if enum_name(output, "semantics") == _PROBABILITIES:
            found = True
            for value in output.scores.values:
                if not -_ROUNDING <= value <= 1 + _ROUNDING:
                    raise Broken(f"a probability is {value}")
    if not found:
        raise Skip("the values are no probabilities")


async def _outputs(s: Subject) -> list[Proto]:
    return list((await done(s, CLASSIFY)).outputs)
