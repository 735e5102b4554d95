"""Chunks that had to wait for us, as one.

A server of many streams that falls behind its engine would stay behind, for a message costs it much
more than the tokens in it. What has piled up in a connection goes out in one message instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from oe_adapter_vllm.backend.wire import Answer, Choice


def together(answers: Sequence[Answer]) -> Sequence[Answer]:
    """The chunks of one stream in fewer: an output's tokens joined, up to an error or its end."""
    if len(answers) < 2:
        return answers
    joined: list[Answer] = []
    latest: dict[int, Choice] = {}
    for answer in answers:
        if not joined or answer.error is not None or joined[-1].error is not None:
            joined.append(Answer(error=answer.error))
            latest = {}
        into = joined[-1]
        into.usage = answer.usage or into.usage
        for choice in answer.choices:
            before = latest.get(choice.index)
            if before is None or before.finish_reason is not None:
                into.choices.append(choice)
                latest[choice.index] = choice
            else:
                _extend(before, choice)
    return joined


def _extend(choice: Choice, more: Choice) -> None:
    choice.token_ids = [*(choice.token_ids or ()), *(more.token_ids or ())]
    choice.text += more.text
    choice.finish_reason = more.finish_reason
    choice.stop_reason = more.stop_reason
    if choice.logprobs is None:
        choice.logprobs = more.logprobs
    elif more.logprobs is not None:
        choice.logprobs.content = [
            *(choice.logprobs.content or ()),
            *(more.logprobs.content or ()),
        ]
