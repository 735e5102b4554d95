"""Prompt tokens, where they can be asked for."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import TOKEN_IDS, Subject
from inferlab_adapters.openengine.conformance.wire import Call, Proto, arm

_ASKED = {"return_prompt_logprobs": True}


def prompt_tokens(call: Call) -> list[Proto] | None:
    """The records of the prompt; ``None`` where no event brought them."""
    for message in call.messages:
        if arm(message) == "prompt":
            return list(message.prompt.tokens)
    return None


@check("O3")
async def prompt_comes_when_asked(s: Subject) -> None:
    call = await _with_prompt(s, 0)
    if prompt_tokens(call) is None and s.role == "prefill":
        raise Skip("a prefill server may leave prompt tokens to decode")
    if prompt_tokens(call) is None:
        raise Broken("prompt logprobs are advertised and asked for, and no prompt tokens came")


@check("O5")
async def prompt_is_what_was_sent(s: Subject) -> None:
    if not s.takes_ids:
        raise Skip("the model takes no token ids")
    for start in (0, 3):
        tokens = prompt_tokens(await _with_prompt(s, start))
        if tokens is None:
            raise Skip("no prompt tokens came")
        ids = [token.token_id for token in tokens]
        if ids != list(TOKEN_IDS[start:]):
            sent = list(TOKEN_IDS[start:])
            raise Broken(f"sent {sent}, from position {start} on; came {ids}")


async def _with_prompt(s: Subject, start: int) -> Call:
    if not s.generation.prompt_logprobs.supported:
        raise Skip("prompt logprobs are not advertised")
    response = {**_ASKED, **({"prompt_logprob_start": start} if start else {})}
    return await s.served({"response": response}, ids=True)
