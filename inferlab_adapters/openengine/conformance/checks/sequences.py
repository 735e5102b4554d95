"""Outputs: that they come at all, as deltas, and again."""

from __future__ import annotations

from itertools import pairwise

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.streams import outputs
from inferlab_adapters.openengine.conformance.outcome import Broken
from inferlab_adapters.openengine.conformance.subject import MAX_TOKENS, Subject
from inferlab_adapters.openengine.conformance.wire import Call

_ATTEMPTS = 4
_DELTAS = 3


def texts(call: Call, index: int = 0) -> list[str]:
    """The text of each token event of an output."""
    return [e.text for name, e in outputs(call) if name == "token" and e.output_index == index]


def token_ids(call: Call, index: int = 0) -> list[int]:
    """The token ids of an output."""
    return [
        token.token_id
        for name, event in outputs(call)
        if name == "token" and event.output_index == index
        for token in event.tokens
    ]


@check("O10")
async def a_request_succeeds(s: Subject) -> None:
    # An engine may fail once and again; one that always does cannot be told from a broken server.
    for _ in range(_ATTEMPTS):
        call = await s.generate(s.plain(), expect="served")
        if call.ok and call.messages and call.error is None:
            return
    raise Broken(f"{_ATTEMPTS} plain requests failed, the last: {call.told()}")


@check("O8", needs="decode")
async def deltas(s: Subject) -> None:
    call = await s.served()
    many = [[t.token_id for t in e.tokens] for name, e in outputs(call) if name == "token"]
    if _grows(many) or _grows([text for text in texts(call) if text]):
        raise Broken("each token event repeats the one before: output is cumulative")
    if len(token_ids(call)) > MAX_TOKENS:
        raise Broken(f"{len(token_ids(call))} tokens came, max_tokens is {MAX_TOKENS}")


@check("O7", needs="decode")
async def two_sequences(s: Subject) -> None:
    if not s.generation.HasField("max_num_sequences") or s.generation.max_num_sequences > 1:
        await s.served({"sampling": {"num_sequences": 2, "temperature": 1.0}})


@check("O22", needs="decode")
async def seeds(s: Subject) -> None:
    for _ in range(_ATTEMPTS):
        pair = [
            await s.served({"sampling": {"temperature": 1.0, "seed": 20260712}}) for _ in range(2)
        ]
        if token_ids(pair[0]) == token_ids(pair[1]) and _text(pair[0]) == _text(pair[1]):
            return
    raise Broken(f"one seed gave different outputs {_ATTEMPTS} times")


def _text(call: Call) -> str:
    return "".join(texts(call))


def _grows(parts: list[str] | list[list[int]]) -> bool:
    if len(parts) < _DELTAS:
        return False
    return all(
        len(after) > len(before) and after[: len(before)] == before
        for before, after in pairwise(parts)
    )
