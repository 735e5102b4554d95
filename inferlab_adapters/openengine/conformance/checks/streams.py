"""Seen on every Generate stream: what messages carry, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterator

from inferlab_adapters.openengine.conformance.check import watch
from inferlab_adapters.openengine.conformance.outcome import Broken
from inferlab_adapters.openengine.conformance.wire import Call, Proto, arm, enum_name

_STOP, _LENGTH = "FINISH_REASON_STOP", "FINISH_REASON_LENGTH"
_REASONS = (_STOP, _LENGTH, "FINISH_REASON_CANCELLED")
# Rounding of engines that work in half precision.
_ABOVE_ZERO = 1e-3


def outputs(call: Call) -> Iterator[tuple[str, Proto]]:
    """The token and finish events, in order."""
    for message in call.messages:
        name = arm(message)
        if name in ("token", "finished"):
            yield name, getattr(message, name)


def sequences(call: Call) -> int:
    """How many outputs were asked for."""
    sampling = call.request.sampling
    return sampling.num_sequences if sampling.HasField("num_sequences") else 1


@watch("O1")
def repeats_the_id(call: Call) -> bool:
    for message in call.messages:
        if message.request_id != call.request.request_id:
            raise Broken(f"sent id {call.request.request_id!r}, came {message.request_id!r}")
    return bool(call.messages)


@watch("O2")
def one_event(call: Call) -> bool:
    for number, message in enumerate(call.messages):
        if arm(message) is None:
            raise Broken(f"message {number} of {len(call.messages)} has no event")
    return bool(call.messages)


@watch("O3", unseen="no stream brought prompt tokens")
def prompt_first(call: Call) -> bool:
    arms = [arm(message) for message in call.messages]
    if "prompt" not in arms:
        return False
    response = call.request.response
    asked = response.return_prompt_logprobs or response.HasField("prompt_candidates")
    if not asked:
        raise Broken("prompt tokens came that were not asked for")
    if arms.count("prompt") > 1:
        raise Broken(f"{arms.count('prompt')} messages with prompt tokens")
    if "token" in arms[: arms.index("prompt")] or "finished" in arms[: arms.index("prompt")]:
        raise Broken("prompt tokens came after output")
    return True


@watch("O4", unseen="no stream brought the first prompt token")
def first_prompt_token(call: Call) -> bool:
    for message in call.messages:
        if arm(message) == "prompt" and message.prompt.tokens:
            if call.request.response.prompt_logprob_start:
                return False
            first = message.prompt.tokens[0]
            fields = [name for name in ("logprob", "rank") if first.HasField(name)]
            if fields or first.candidates:
                raise Broken(f"the first prompt token has {', '.join(fields) or 'candidates'}")
            return True
    return False


@watch("O6")
def index_is_present(call: Call) -> bool:
    found = False
    for name, event in outputs(call):
        found = True
        if not event.HasField("output_index"):
            raise Broken(f"a {name} event has no output_index")
    return found


@watch("O7")
def index_is_in_range(call: Call) -> bool:
    found = False
    for name, event in outputs(call):
        # A request for no output at all is another rule's.
        found = sequences(call) > 0
        if found and event.output_index >= sequences(call):
            raise Broken(f"{name} event of output {event.output_index} of {sequences(call)}")
    return found


@watch("O9")
def nothing_after_a_finish(call: Call) -> bool:
    finished: set[int] = set()
    for name, event in outputs(call):
        if event.output_index in finished:
            raise Broken(f"a {name} event of output {event.output_index} after its finish")
        if name == "finished":
            finished.add(event.output_index)
    return bool(finished)


@watch("O14", unseen="no output ended by STOP")
def stop_names_what_was_hit(call: Call) -> bool:
    found = False
    for name, event in outputs(call):
        if name != "finished" or enum_name(event, "reason") != _STOP:
            continue
        found = True
        kind = event.stop_match.WhichOneof("match") if event.HasField("stop_match") else None
        if kind is None:
            raise Broken("a finish by STOP has no stop_match")
        wanted = [
            getattr(one, one.WhichOneof("condition") or "stop_text")
            for one in call.request.stopping.conditions
        ]
        hit = getattr(event.stop_match, kind)
        if kind != "eos_token_id" and hit not in wanted:
            raise Broken(f"stop_match says {kind} {hit!r}, which was not asked for")
    return found


@watch("O16")
def reason_exists(call: Call) -> bool:
    found = False
    for name, event in outputs(call):
        if name == "finished":
            found = True
            reason = enum_name(event, "reason")
            if reason not in _REASONS:
                raise Broken(f"the finish reason is {reason}")
    return found


@watch("O19", unseen="no stream brought logprobs")
def logprobs_are_possible(call: Call) -> bool:
    found = False
    for message in call.messages:
        name = arm(message)
        if name not in ("token", "prompt"):
            continue
        for token in getattr(message, name).tokens:
            records = [token] if token.HasField("logprob") else []
            for record in (*records, *token.candidates):
                found = True
                if math.isnan(record.logprob) or record.logprob > _ABOVE_ZERO:
                    raise Broken(f"token {record.token_id} has the logprob {record.logprob}")
                if record.HasField("rank") and record.rank < 1:
                    raise Broken(f"token {record.token_id} has the rank {record.rank}")
    return found
