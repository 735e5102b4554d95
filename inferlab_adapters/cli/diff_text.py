"""A comparison of two deployments as lines for people and as data for programs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from inferlab_adapters.control.compare import Change, Comparison, ProcessDiff
    from inferlab_adapters.control.prepare import Prepared
    from inferlab_adapters.control.types import Json


class Side(NamedTuple):
    """One of the two things compared.

    ``prepared`` is ``None`` where it was refused; ``refusals`` says why, or which settings were
    left out because this engine refuses them.
    """

    title: str
    prepared: Prepared | None
    refusals: Sequence[str]


def lines(before: Side, after: Side, comparison: Comparison | None) -> Iterator[str]:
    """What differs; a line that begins with ``-`` or ``+`` is what one side alone has.

    Without a ``comparison`` one side was refused, and that is the difference.
    """
    refusals = [*_refusals("-", before), *_refusals("+", after)]
    if not comparison and not refusals:
        yield f"no difference between {before.title} and {after.title}"
        return
    yield f"- {before.title}"
    yield f"+ {after.title}"
    yield from refusals
    if comparison is None:
        return
    for section in comparison.plan:
        yield from ("", section.title)
        yield from _changes(section.changes, _setting)
    for process in comparison.processes:
        yield from _process(process)


def data(before: Side, after: Side, comparison: Comparison | None) -> Json:
    """The same as JSON: a change holds ``before`` and ``after`` where these sides have it."""
    found: Json = {
        "before": _side(before),
        "after": _side(after),
        "compared": comparison is not None,
        "same": comparison is not None and not (comparison or before.refusals or after.refusals),
    }
    if comparison is not None:
        found["plan"] = [
            {"part": section.title, "changes": [*map(_one, section.changes)]}
            for section in comparison.plan
        ]
        found["processes"] = [
            {
                "before": process.before,
                "after": process.after,
                "argv": [_uses(change) for change in process.argv],
                "env": [*map(_one, process.env)],
                "files": [{"name": file.name, "diff": list(file.lines)} for file in process.files],
            }
            for process in comparison.processes
        ]
    return found


def _refusals(mark: str, side: Side) -> Iterator[str]:
    tail = "" if side.prepared is None else " (compared without it)"
    for refusal in side.refusals:
        yield f"{mark} refused by {side.title}: {refusal}{tail}"


def _process(process: ProcessDiff) -> Iterator[str]:
    names = dict.fromkeys(name for name in (process.before, process.after) if name)
    yield from ("", f"process {' -> '.join(names)}")
    if process.argv:
        yield "  command"
        yield from _changes(process.argv, lambda name, use: shlex.join(use))
    if process.env:
        yield "  environment"
        yield from _changes(process.env, lambda name, value: f"{name}={shlex.quote(value)}")
    for file in process.files:
        yield f"  launch file {file.name}"
        yield from file.lines


def _changes(changes: Sequence[Change], said: Callable[[str, Any], str]) -> Iterator[str]:
    for change in changes:
        yield from (f"- {said(change.name, value)}" for value in change.before)
        yield from (f"+ {said(change.name, value)}" for value in change.after)


def _setting(name: str, value: Any) -> str:
    return f"{name}: {json.dumps(value, ensure_ascii=False)}"


def _side(side: Side) -> Json:
    return {
        "title": side.title,
        "refused": side.prepared is None,
        "refusals": list(side.refusals),
    }


def _one(change: Change) -> Json:
    """A change of something that stands at most once."""
    sides = {"before": change.before, "after": change.after}
    return {"name": change.name, **{side: value[0] for side, value in sides.items() if value}}


def _uses(change: Change) -> Json:
    """A change of an option: every use of it as its tokens."""
    return {"name": change.name, "before": list(change.before), "after": list(change.after)}
