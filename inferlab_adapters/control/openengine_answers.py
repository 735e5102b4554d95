"""What the stream of a Generate must hold, in the eyes of a smoke test."""

from __future__ import annotations

from typing import Any

from inferlab_adapters.openengine.conformance.wire import Call, arm, enum_name

_ENDS = ("FINISH_REASON_STOP", "FINISH_REASON_LENGTH")


class NotSo(Exception):
    """Something is not as it must be; the message says what."""


def told(call: Call) -> str:
    """How a call ended, in one line."""
    if call.ended == "deadline":
        return f"{call.method} was not answered in time"
    return " ".join(call.told().split())


def tokens(call: Call, *, limit: int) -> int:
    """The tokens of one finished output, as usage counts them. Raises :class:`NotSo`."""
    _check_events(call, "token", "finished")
    finished = [message.finished for message in call.messages if arm(message) == "finished"]
    outputs = [message.token for message in call.messages if arm(message) == "token"]
    if len(finished) != 1 or arm(call.reply) != "finished":
        raise NotSo(f"{len(finished)} GenerationFinished for one output, or not at the end")
    for one in (*outputs, *finished):
        if not one.HasField("output_index") or one.output_index != 0:
            raise NotSo("an event of the only output does not have output_index 0")
    reason = enum_name(finished[0], "reason")
    if reason not in _ENDS:
        raise NotSo(f"the output ended with {reason}")
    if not "".join(one.text for one in outputs):
        raise NotSo("the text is empty")
    usage = _usage(call)
    seen = sum(len(one.tokens) for one in outputs)
    # A token that ended the output counts, though it may not be sent.
    if not max(1, seen) <= usage.completion_tokens <= limit:
        counted = f"usage counts {usage.completion_tokens} completion tokens"
        raise NotSo(f"{counted} where {seen} came and {limit} are the most")
    return int(usage.completion_tokens)


def session(call: Call) -> Any:
    """The KV session of a prefill. Raises :class:`NotSo`."""
    _check_events(call, "prefill_ready")
    if len(call.messages) != 1:
        raise NotSo(f"{len(call.messages)} PrefillReady instead of one")
    found = call.reply.prefill_ready.kv_session
    if not found.session_id:
        raise NotSo("PrefillReady has no session_id")
    return found


def _check_events(call: Call, *wanted: str) -> None:
    if call.error is not None:
        raise NotSo(" ".join(f"{enum_name(call.error, 'code')}: {call.error.message}".split()))
    if not call.messages:
        raise NotSo("it ended without an event")
    for message in call.messages:
        if arm(message) not in wanted:
            raise NotSo(f"{arm(message) or 'a message without an event'} came, which must not")
        if message.request_id != call.request.request_id:
            raise NotSo(f"an event is of the request {message.request_id!r}")


def _usage(call: Call) -> Any:
    *before, last = call.messages
    if not last.HasField("usage") or any(message.HasField("usage") for message in before):
        raise NotSo("usage must come with the last message, and with no other")
    usage = last.usage
    if usage.prompt_tokens < 1:
        raise NotSo("usage counts no prompt tokens")
    if usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
        parts = f"{usage.prompt_tokens} + {usage.completion_tokens}"
        raise NotSo(f"usage says {usage.total_tokens} tokens in all, not {parts}")
    return usage
