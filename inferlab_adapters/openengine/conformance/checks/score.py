"""Scores."""

from __future__ import annotations

import math
from typing import Any

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import (
    INVALID,
    must_refuse,
)
from inferlab_adapters.openengine.conformance.checks.tasks import (
    SCORE,
    SENTENCES,
    ask,
    body,
    done,
    need,
)
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call

_LABELS = [21, 12, 33]
_ROUNDING = 1e-2


@check("SC1", needs="tasks")
async def groups(s: Subject) -> None:
    need(s, SCORE)
    group = body(s, SCORE)["groups"][0]
    candidate = group["candidates"][0]
    cases: dict[str, list[dict[str, Any]]] = {
        "no group": [],
        "a group_id twice": [group, group],
        "no candidate": [{**group, "candidates": []}],
        "a group without a query": [{k: v for k, v in group.items() if k != "query"}],
        "a candidate's item_id twice": [{**group, "candidates": [candidate, candidate]}],
    }
    for what, sent in cases.items():
        call = await ask(s, SCORE, {"groups": sent}, expect="refused")
        must_refuse(call, f"Score with {what}", INVALID)


@check("SC2", needs="tasks")
async def labels_twice(s: Subject) -> None:
    need(s, SCORE)
    call = await ask(s, SCORE, {"options": {"label_token_ids": [7, 7]}}, expect="refused")
    must_refuse(call, "a label token twice", INVALID)


@check("SC3", needs="tasks")
async def labels_in_order(s: Subject) -> None:
    reply = (await _labelled(s, "SCORE_NORMALIZATION_UNSPECIFIED")).reply
    if list(reply.label_token_ids) != _LABELS:
        raise Broken(f"labels {_LABELS} came back as {list(reply.label_token_ids)}")


@check("SC4", needs="tasks")
async def softmax(s: Subject) -> None:
    reply = (await _labelled(s, "SCORE_NORMALIZATION_SOFTMAX")).reply
    for group in reply.groups:
        for candidate in group.candidates:
            total = math.fsum(candidate.scores.values)
            if abs(total - 1) > _ROUNDING:
                raise Broken(f"softmax scores add up to {total:.4f}")


@check("SC5", needs="tasks")
async def instruction(s: Subject) -> None:
    if need(s, SCORE).supports_instruction:
        raise Skip("instructions are advertised")
    changes = {"options": {"instruction": "Find what fits."}}
    call = await ask(s, SCORE, changes, expect="refused")
    must_refuse(call, "an instruction, which is not advertised,", INVALID)


@check("SC6", needs="tasks")
async def all_in_order(s: Subject) -> None:
    call = await _scored(s)
    groups = list(call.reply.groups)
    sent = list(call.request.groups)
    if [group.group_id for group in groups] != [group.group_id for group in sent]:
        raise Broken(f"the groups are {[group.group_id for group in groups]}")
    for number, (group, asked) in enumerate(zip(groups, sent, strict=True)):
        if not group.HasField("group_index") or group.group_index != number:
            raise Broken(f"group {number} has another group_index, or none")
        ids = [candidate.candidate_id for candidate in group.candidates]
        if ids != [candidate.item_id for candidate in asked.candidates]:
            raise Broken(f"the candidates of a group are {ids}")
        for index, one in enumerate(group.candidates):
            if not one.HasField("candidate_index") or one.candidate_index != index:
                raise Broken(f"candidate {index} has another candidate_index, or none")


@check("SC7", needs="tasks")
async def meaning(s: Subject) -> None:
    reply = (await _scored(s)).reply
    for name in ("granularity", "semantics", "normalization"):
        if not getattr(reply, name):
            raise Broken(f"{name} is unspecified")


@check("SC8", needs="tasks")
async def no_partial_success(s: Subject) -> None:
    call = await _scored(s)
    sent = sum(len(group.candidates) for group in call.request.groups)
    came = sum(bool(one.scores.values) for g in call.reply.groups for one in g.candidates)
    if came != sent:
        raise Broken(f"{sent} candidates were sent, {came} have scores")


@check("SC9", needs="tasks")
async def no_echo(s: Subject) -> None:
    came = str((await _scored(s)).reply)
    echoed = [text for text in SENTENCES if text in came]
    if echoed:
        raise Broken(f"the answer repeats {echoed[0]!r}")


@check("SC10", needs="tasks")
async def direction(s: Subject) -> None:
    said = need(s, SCORE)
    reply = (await _scored(s)).reply
    if not said.HasField("higher_is_better") or not reply.HasField("higher_is_better"):
        raise Skip("no direction is reported")
    if said.higher_is_better != reply.higher_is_better:
        raise Broken(f"advertised {said.higher_is_better}, came {reply.higher_is_better}")


async def _scored(s: Subject) -> Call:
    need(s, SCORE)
    groups = [{**body(s, SCORE)["groups"][0], "group_id": f"group-{n}"} for n in range(2)]
    call = await ask(s, SCORE, {"groups": groups}, expect="served")
    if not call.ok:
        raise Broken(f"Score is advertised: {call.told()}")
    return call


async def _labelled(s: Subject, normalization: str) -> Call:
    if not need(s, SCORE).supports_label_token_scoring:
        raise Skip("scoring of label tokens is not advertised")
    options = {"label_token_ids": _LABELS, "normalization": normalization}
    await done(s, SCORE)
    call = await ask(s, SCORE, {"options": options})
    if not call.ok:
        raise Skip(f"scoring of label tokens failed: {call.told()}")
    return call
