"""Broken in the tasks."""

from __future__ import annotations

from typing import Any

from tests.openengine.conformance.faults import Fault, ReplyEdit, inside
from tests.openengine.conformance.model_server import Data, Refusal
from tests.openengine.conformance.model_tasks import Model

_SEED = "seed"
_MODEL = "GetModelInfo"
_EMBED: Any = {"revision": _SEED, "method": "Embed", "groups": ("task_requests", "embed", "models")}
_CLASSIFY: Any = {"revision": _SEED, "method": "Classify", "groups": ("task_requests", "classify")}
_SCORE: Any = {"revision": _SEED, "method": "Score", "groups": ("task_requests", "score")}


class _NoTasks(Model):
    with_tasks = False


def _each(path: str, value: Any) -> ReplyEdit:
    """One value of every output replaced."""
    return lambda r, d: {**d, "outputs": [inside(one, path, value) for one in d["outputs"]]}


def _candidates(path: str, value: Any) -> ReplyEdit:
    def edit(request: Any, data: Data) -> Data:
        groups = [
            {**group, "candidates": [inside(one, path, value) for one in group["candidates"]]}
            for group in data["groups"]
        ]
        return {**data, "groups": groups}

    return edit


def _unimplemented(request: Any, refusal: Refusal) -> Refusal:
    changed = refusal.code.name == "FAILED_PRECONDITION"
    return Refusal("UNIMPLEMENTED", refusal.message) if changed else refusal


def _default_dimensions(request: Any) -> None:
    request.options.ClearField("dimensions")


def _labels_once(request: Any) -> None:
    labels = list(dict.fromkeys(request.options.label_token_ids))
    del request.options.label_token_ids[:]
    request.options.label_token_ids.extend(labels)


def _reversed(request: Any, data: Data) -> Data:
    return {**data, "label_token_ids": data["label_token_ids"][::-1]}


FAULTS = [
    Fault(
        rule="T1",
        related=frozenset({"T3"}),
        name="another code",
        revision=_SEED,
        method="Embed",
        model=_NoTasks,
        groups=("task_requests",),
        refusal=_unimplemented,
    ),
    Fault(
        rule="M7",
        name="a limit of 0",
        revision=_SEED,
        method=_MODEL,
        groups=("models",),
        reply=lambda r, d: inside(d, "tasks.embed.max_batch_size", 0),
    ),
    Fault(
        rule="T10",
        name="a value too few",
        **_EMBED,
        reply=lambda r, d: {
            **d,
            "outputs": [
                inside(one, "dense.values", [1.0] * 3) if "dense" in one else one
                for one in d["outputs"]
            ],
        },
        related=frozenset({"E5"}),
    ),
    Fault(
        rule="T13",
        name="more cached than sent",
        **_EMBED,
        reply=lambda r, d: inside(d, "usage.cached_input_tokens", 99),
    ),
    Fault(rule="T14", name="no index", **_EMBED, reply=_each("input_index", ...)),
    Fault(rule="E2", name="dimensions padded", **_EMBED, request=_default_dimensions),
    Fault(rule="E4", name="a token id too many", **_EMBED, reply=_each("token_ids", [1, 2])),
    Fault(
        rule="E6", name="always dense", **_EMBED, request=lambda r: r.options.ClearField("encoding")
    ),
    Fault(rule="C1", name="no meaning", **_CLASSIFY, reply=_each("semantics", 0)),
    Fault(rule="C3", name="a label too few", **_CLASSIFY, reply=_each("labels", ["no"])),
    Fault(rule="C5", name="above 1", **_CLASSIFY, reply=_each("scores.values", [0.5, 1.5])),
    Fault(rule="SC2", name="a label twice", **_SCORE, request=_labels_once),
    Fault(rule="SC3", name="labels reversed", **_SCORE, reply=_reversed),
    Fault(
        rule="SC5",
        name="an instruction dropped",
        **_SCORE,
        request=lambda r: r.options.ClearField("instruction"),
    ),
    Fault(rule="SC6", name="no index", **_SCORE, reply=_candidates("candidate_index", ...)),
    Fault(rule="SC7", name="no meaning", **_SCORE, reply=lambda r, d: inside(d, "semantics", 0)),
    Fault(
        rule="SC10",
        name="turned round",
        **_SCORE,
        reply=lambda r, d: inside(d, "higher_is_better", False),
    ),
]
