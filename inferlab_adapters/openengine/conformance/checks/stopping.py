"""Where an output ends, and what of the stop is in it."""

from __future__ import annotations

from typing import Any

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.sequences import texts, token_ids
from inferlab_adapters.openengine.conformance.checks.streams import outputs
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, enum_name

_TOKENS = 16
_STOP, _LENGTH = "FINISH_REASON_STOP", "FINISH_REASON_LENGTH"
_LIMIT = {"max_tokens": _TOKENS, "ignore_eos": True}


@check("O15", needs="decode")
async def length(s: Subject) -> None:
    call = await s.served({"stopping": _LIMIT})
    if reason(call) not in (_LENGTH, None):
        raise Broken(f"ignore_eos and max_tokens={_TOKENS} ended by {reason(call)}")


@check("O24", needs="decode")
async def stopping_is_obeyed(s: Subject) -> None:
    both = {"max_tokens": _TOKENS, "min_tokens": _TOKENS, "ignore_eos": False}
    least = len(token_ids(await s.served({"stopping": both})))
    if least < _TOKENS:
        raise Broken(f"min_tokens={_TOKENS} gave {least} tokens")
    if len(token_ids(await s.served({"stopping": _LIMIT}))) < _TOKENS:
        raise Broken(f"ignore_eos ended before max_tokens={_TOKENS}")
    token, _ = await _stop_token(s)
    call = await s.served(_stop({"stop_token_id": token}))
    ids = token_ids(call)
    if token in ids[:-1] or (token in ids and reason(call) == _LENGTH):
        raise Broken(f"the stop token {token} came, and the output went on")


@check("O17", needs="decode")
async def stop_in_output(s: Subject) -> None:
    token, before = await _stop_token(s)
    call = await s.served(_stop({"stop_token_id": token}))
    _stopped(call)
    if token in token_ids(call):
        raise Broken(f"the stop token {token} is in the output, and was not asked for")
    if s.generation.supports_stop_in_output:
        call = await s.served(_stop({"stop_token_id": token}, True))
        _stopped(call)
        if token_ids(call)[-1:] != [token] and token_ids(call)[:before] == token_ids(call):
            raise Broken(f"the stop token {token} was asked for, and is not in the output")
    await _stop_texts(s)


@check("O14", needs="decode")
async def stop_text_is_named(s: Subject) -> None:
    text, _ = await _stop_text(s)
    _stopped(await s.served(_stop({"stop_text": text})))


async def _stop_texts(s: Subject) -> None:
    text, before = await _stop_text(s)
    call = await s.served(_stop({"stop_text": text}))
    _stopped(call)
    came = "".join(texts(call))
    # An output that differs from the first run says nothing of what was left out.
    if text in came or (came.startswith(before) and came != before):
        raise Broken(f"with the stop text {text!r}, which was not asked for, came {came!r}")
    if s.generation.supports_stop_in_output:
        call = await s.served(_stop({"stop_text": text}, True))
        _stopped(call)
        came = "".join(texts(call))
        if not came.endswith(text):
            raise Broken(f"the stop text {text!r} was asked for, and the output is {came!r}")


async def _stop_token(s: Subject) -> tuple[int, int]:
    """A token of the greedy output, not its first, and how many come before it."""
    ids = token_ids(await s.served({"stopping": _LIMIT}))
    for position, token in enumerate(ids):
        if position and token not in ids[:position]:
            return token, position
    raise Skip("the greedy output repeats one token, so that nothing can be its stop")


async def _stop_text(s: Subject) -> tuple[str, str]:
    """Text across the border of two tokens of the greedy output, and what comes before it."""
    parts = texts(await s.served({"stopping": _LIMIT}))
    whole, end = "".join(parts), 0
    for part in parts[:-1]:
        end += len(part)
        text = whole[max(end - 1, 1) : end + 1]
        if len(text) == 2 and text.isprintable() and whole.find(text) == end - 1 and end > 1:
            return text, whole[: end - 1]
    raise Skip("the greedy output has no text that could be its stop")


def _stop(condition: dict[str, Any], included: bool | None = None) -> dict[str, Any]:
    stopping: dict[str, Any] = {**_LIMIT, "conditions": [condition]}
    if included is not None:
        stopping["include_stop_in_output"] = included
    return {"stopping": stopping}


def _stopped(call: Call) -> None:
    if reason(call) != _STOP:
        raise Skip(f"the output did not stop there, it ended by {reason(call)}")


def reason(call: Call) -> str | None:
    """How the output ended; the last of several."""
    found = [enum_name(event, "reason") for name, event in outputs(call) if name == "finished"]
    return found[-1] if found else None
