"""Servers that are broken in one place, each with the rule that it breaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.openengine.conformance.model_server import Data, Hooks, Refusal
from tests.openengine.conformance.model_tasks import Model

STOP = None
"""In place of a message: the stream ends here, with OK."""

Edit: TypeAlias = Callable[[Any, Data], Iterable[Data | Refusal | None]]
ReplyEdit: TypeAlias = Callable[[Any, Data], Data]
RequestEdit: TypeAlias = Callable[[Any], None]
RefusalEdit: TypeAlias = Callable[[Any, Refusal], "Data | Refusal"]
MetadataEdit: TypeAlias = Callable[[list[tuple[str, str]]], list[tuple[str, str]]]

EVERYTHING = "everything"
STREAMS = (
    "candidates",
    "generate_fields",
    "prompt_tokens",
    "sequences",
    "stopping",
)
"""The checks for which most requests are served and refused."""


ERROR: Data = {"error": {"code": "ERROR_CODE_INTERNAL", "message": "the engine failed"}}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """``related``: rules that the same fault cannot but break too.

    ``groups``: the modules of checks that are asked, beside the rule's own and what is seen on
    the way; ``EVERYTHING`` asks all. Edits apply to the calls of ``method``.
    """

    rule: str
    name: str
    related: frozenset[str] = frozenset()
    revision: str = "v0.1.0"
    role: str = "aggregated"
    groups: tuple[str, ...] = STREAMS
    method: str = "Generate"
    stream: Edit | None = None
    reply: ReplyEdit | None = None
    request: RequestEdit | None = None
    refusal: RefusalEdit | None = None
    metadata: MetadataEdit | None = None
    model: type[Model] = Model
    lacks: frozenset[str] = field(default_factory=frozenset)

    @property
    def id(self) -> str:
        return f"{self.rule}: {self.name}"


class Broken(Hooks):
    """A fault at work."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def request(self, method: str, request: Any) -> None:
        if self.fault.request is not None and method == self.fault.method:
            self.fault.request(request)

    def metadata(self, values: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return self.fault.metadata(values) if self.fault.metadata else values

    def reply(self, method: str, request: Any, data: Data) -> Data:
        if self.fault.reply is None or method != self.fault.method:
            return data
        return self.fault.reply(request, data)

    def refusal(self, method: str, request: Any, refusal: Refusal) -> Data | Refusal:
        if self.fault.refusal is None or method != self.fault.method:
            return refusal
        return self.fault.refusal(request, refusal)

    def stream(self, method: str, request: Any, events: AsyncIterator[Data]) -> AsyncIterator[Data]:
        if self.fault.stream is None or method != self.fault.method:
            return events
        return _edited(self.fault.stream, request, events)


async def _edited(edit: Edit, request: Any, events: AsyncIterator[Data]) -> AsyncIterator[Data]:
    try:
        async for data in events:
            for item in edit(request, data):
                if item is STOP:
                    return
                if isinstance(item, Refusal):
                    raise item
                yield item
    finally:
        await events.aclose()  # type: ignore[attr-defined]


def once(*instead: Data | Refusal | None) -> Edit:
    """After the first message of the first stream, these instead of the rest."""
    waiting = [True]

    def edit(request: Any, data: Data) -> Iterable[Data | Refusal | None]:
        if not waiting:
            return [data]
        waiting.clear()
        request_id = data["request_id"]
        others = [
            {"request_id": request_id, **item} if isinstance(item, dict) else item
            for item in instead
        ]
        return [data, *others]

    return edit


def only(test: Callable[[Any], bool], edit: Edit) -> Edit:
    """The edit for some requests; the others are left alone."""
    return lambda request, data: edit(request, data) if test(request) else [data]


def two(request: Any) -> bool:
    """Whether two outputs were asked for."""
    return bool(request.sampling.num_sequences == 2)


def inside(data: Data, path: str, value: Any) -> Data:
    """The data with one value, at a dotted path, replaced; an ellipsis takes it away."""
    head, _, rest = path.partition(".")
    if rest:
        return {**data, head: inside(data.get(head, {}), rest, value)}
    if value is ...:
        return {name: one for name, one in data.items() if name != head}
    return {**data, head: value}


def sets(path: str, value: Any) -> ReplyEdit:
    """An answer with one value replaced."""
    return lambda request, data: inside(data, path, value)


def with_code(code: str, what: str = "") -> RefusalEdit:
    """A refusal whose message has ``what`` in it, with another code."""

    def edit(request: Any, refusal: Refusal) -> Refusal:
        return Refusal(code, refusal.message) if what in refusal.message else refusal

    return edit


def without(path: str) -> RequestEdit:
    """A request whose field at a dotted path is cleared."""

    def edit(request: Any) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            request = getattr(request, parent)
        request.ClearField(name)

    return edit
