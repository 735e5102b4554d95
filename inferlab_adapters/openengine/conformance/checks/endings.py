"""Seen on every Generate stream: how it ends, and the usage that it ends with."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import watch
from inferlab_adapters.openengine.conformance.checks.streams import outputs, sequences
from inferlab_adapters.openengine.conformance.outcome import Broken
from inferlab_adapters.openengine.conformance.wire import Call, Proto, arm, enum_name


def final(call: Call) -> Proto | None:
    """The message that ends a stream by the contract; of a stream that has ended so."""
    if call.ended != "server" or not call.ok or not call.messages:
        return None
    last = call.messages[-1]
    return last if arm(last) in ("finished", "prefill_ready", "error") else None


def _finished(call: Call) -> set[int]:
    return {event.output_index for name, event in outputs(call) if name == "finished"}


@watch("O10")
def every_output_finishes(call: Call) -> bool:
    hung = call.ended == "deadline" and call.expect == "served"
    if not (call.ok or hung) or call.error is not None or call.expect == "refused":
        return False
    if any(arm(message) == "prefill_ready" for message in call.messages):
        return False
    finished = _finished(call)
    missing = sorted(set(range(sequences(call))) - finished)
    if missing and not any(index >= sequences(call) for index in finished):
        raise Broken(f"no finish of output {missing[0]}: {call.told()}")
    return True


@watch("O11")
def the_last_finish_is_the_end(call: Call) -> bool:
    left = set(range(sequences(call)))
    if not left:
        return False
    for number, message in enumerate(call.messages, 1):
        if arm(message) == "finished":
            left.discard(message.finished.output_index)
        if left:
            continue
        # Tokens and second finishes of an output that is over are another rule's.
        more = [arm(m) for m in call.messages[number:]]
        others = [name for name in more if name in ("prompt", "prefill_ready", "error")]
        if others:
            raise Broken(f"a {others[0]} event came after the last finish")
        if not more and call.ended == "deadline":
            raise Broken("the stream stays open after the last finish")
        if not more and call.ended == "server" and not call.ok:
            raise Broken(f"the last finish was followed by {call.code}")
        return not more
    return False


@watch("O12")
def usage_at_the_end(call: Call) -> bool:
    for number, message in enumerate(call.messages[:-1]):
        if message.HasField("usage"):
            raise Broken(f"message {number} of {len(call.messages)} has usage, not only the last")
    last = final(call)
    if last is None:
        return False
    if arm(last) == "error":
        return bool(last.HasField("usage"))
    if not last.HasField("usage"):
        raise Broken(f"the last message, {arm(last)}, has no usage")
    return _counts(call, last)


def _counts(call: Call, last: Proto) -> bool:
    if arm(last) != "finished":
        return True
    tokens, unseen = 0, 0
    reasons = set()
    for name, event in outputs(call):
        if name == "token":
            tokens += len(event.tokens)
            continue
        reasons.add(enum_name(event, "reason"))
        # A stop that is left out of the output may still be counted.
        unseen += enum_name(event, "reason") == "FINISH_REASON_STOP"
    said = last.usage.completion_tokens
    if "FINISH_REASON_CANCELLED" in reasons:
        return False
    texts = any(one.HasField("stop_text") for one in call.request.stopping.conditions)
    if said < tokens or (said > tokens + unseen and not texts):
        raise Broken(f"completion_tokens is {said}, and {tokens} tokens came")
    return True


@watch("O13")
def usage_adds_up(call: Call) -> bool:
    found = False
    for message in call.messages:
        if not message.HasField("usage"):
            continue
        usage, found = message.usage, True
        if usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
            raise Broken(
                f"total {usage.total_tokens} is not prompt {usage.prompt_tokens} "
                f"plus completion {usage.completion_tokens}"
            )
        if usage.cached_prompt_tokens > usage.prompt_tokens:
            raise Broken(f"{usage.cached_prompt_tokens} cached of {usage.prompt_tokens}")
        if usage.reasoning_tokens > usage.completion_tokens:
            raise Broken(f"{usage.reasoning_tokens} reasoning of {usage.completion_tokens}")
    return found


@watch("O15", unseen="no output ended by LENGTH")
def length_is_max_tokens(call: Call) -> bool:
    stopping = call.request.stopping
    # A max_tokens of 0 is another rule's.
    if not stopping.max_tokens or final(call) is None:
        return False
    counts: dict[int, int] = {}
    found = False
    for name, event in outputs(call):
        index = event.output_index
        if name == "token":
            counts[index] = counts.get(index, 0) + len(event.tokens)
        elif enum_name(event, "reason") == "FINISH_REASON_LENGTH":
            found = True
            if counts.get(index, 0) != stopping.max_tokens:
                raise Broken(
                    f"output {index} ended by LENGTH with {counts.get(index, 0)} tokens, "
                    f"max_tokens is {stopping.max_tokens}"
                )
    return found
