"""Streams that no sound server sends, in the eyes of a smoke test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from inferlab_adapters.control import openengine_answers as answers
from inferlab_adapters.control.openengine_answers import NotSo
from inferlab_adapters.control.types import Json
from inferlab_adapters.openengine.conformance.wire import Call
from inferlab_adapters.openengine.messages import build
from inferlab_adapters.openengine.revisions import REVISIONS, Revision


def call(revision: Revision, *messages: Json) -> Call:
    """A Generate that ended well after these messages."""
    response = revision.message("GenerateResponse")
    return Call(
        server="127.0.0.1:1",
        method="Generate",
        request=build(revision.message("GenerateRequest"), {"request_id": "r"}),
        messages=[build(response, {"request_id": "r", **one}) for one in messages],
        code=grpc.StatusCode.OK,
    )


def sound() -> list[Json]:
    """Two tokens and an end."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return [
        {"token": {"output_index": 0, "tokens": [{"token_id": 5}], "text": "a"}},
        {"token": {"output_index": 0, "tokens": [{"token_id": 6}], "text": "b"}},
        {"finished": {"output_index": 0, "reason": "FINISH_REASON_LENGTH"}, "usage": usage},
    ]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_a_sound_answer_has_its_tokens(revision: Revision) -> None:
    assert answers.tokens(call(revision, *sound()), limit=2) == 2


def test_the_token_that_ended_it_counts() -> None:
    messages = sound()
    messages[-1]["usage"] |= {"completion_tokens": 3, "total_tokens": 6}
    assert answers.tokens(call(REVISIONS["seed"], *messages), limit=3) == 3


_BROKEN: dict[str, tuple[Callable[[list[Any]], object], str]] = {
    "nothing": (list.clear, "without an event"),
    "no end": (list.pop, "0 GenerationFinished"),
    "two ends": (lambda m: m.append(m[-1]), "2 GenerationFinished"),
    "tokens after the end": (lambda m: m.append(m.pop(0)), "not at the end"),
    "no event": (lambda m: m.insert(0, {}), "a message without an event"),
    "a session": (lambda m: m.insert(0, {"prefill_ready": {}}), "prefill_ready came"),
    "another request": (lambda m: m[0].update(request_id="x"), "of the request 'x'"),
    "no output index": (lambda m: m[0]["token"].pop("output_index"), "output_index 0"),
    "another output": (lambda m: m[2]["finished"].update(output_index=1), "output_index 0"),
    "no reason": (lambda m: m[2]["finished"].pop("reason"), "FINISH_REASON_UNSPECIFIED"),
    "no text": (lambda m: [m[i]["token"].pop("text") for i in (0, 1)], "the text is empty"),
    "no usage": (lambda m: m[2].pop("usage"), "usage must come"),
    "usage twice": (lambda m: m[0].update(usage=m[2]["usage"]), "with no other"),
    "no prompt": (lambda m: m[2]["usage"].update(prompt_tokens=0), "no prompt tokens"),
    "wrong sum": (lambda m: m[2]["usage"].update(total_tokens=6), "6 tokens in all, not 3 + 2"),
    "too few counted": (
        lambda m: m[2]["usage"].update(completion_tokens=1, total_tokens=4),
        "usage counts 1 completion tokens where 2 came",
    ),
    "too many": (
        lambda m: m[2]["usage"].update(completion_tokens=9, total_tokens=12),
        "8 are the most",
    ),
    "an error": (
        lambda m: m.append({"error": {"code": "ERROR_CODE_INTERNAL", "message": "out of\nluck"}}),
        "ERROR_CODE_INTERNAL: out of luck",
    ),
}


@pytest.mark.parametrize(("spoil", "said"), _BROKEN.values(), ids=_BROKEN)
def test_a_broken_answer_is_seen(spoil: Callable[[list[Any]], object], said: str) -> None:
    messages = sound()
    spoil(messages)
    with pytest.raises(NotSo, match=said.replace("+", r"\+")):
        answers.tokens(call(REVISIONS["seed"], *messages), limit=8)


def test_a_prefill_gives_one_session() -> None:
    ready = {"prefill_ready": {"kv_session": {"session_id": "s"}}}
    seed = REVISIONS["seed"]
    assert answers.session(call(seed, ready)).session_id == "s"
    for messages, said in (
        ([], "without an event"),
        ([ready, ready], "2 PrefillReady"),
        ([{"prefill_ready": {}}], "no session_id"),
        (sound(), "token came"),
    ):
        with pytest.raises(NotSo, match=said):
            answers.session(call(seed, *messages))


def test_a_call_that_was_too_slow_says_so() -> None:
    slow = call(REVISIONS["seed"])
    slow.ended = "deadline"
    assert answers.told(slow) == "Generate was not answered in time"
