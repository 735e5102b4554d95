"""Logprobs of the output, and the candidates beside them."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check, watch
from inferlab_adapters.openengine.conformance.checks.streams import outputs
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, Proto


@check("O19", needs="decode")
async def greedy_is_first(s: Subject) -> None:
    tokens = _tokens(await s.served({"response": _asked(s)}))
    for token in tokens:
        if not token.HasField("logprob"):
            raise Broken(f"logprobs were asked for, and token {token.token_id} has none")
        # Equal logprobs may share the first place.
        if token.HasField("rank") and token.rank > 1 and token.logprob < _best(token):
            raise Broken(f"the greedy token {token.token_id} has the rank {token.rank}")


@check("O18", needs="decode")
async def two_candidates(s: Subject) -> None:
    ability = s.generation.output_logprobs
    asked = _asked(s)
    if ability.HasField("max_top_n") and ability.max_top_n >= 2:
        asked["output_candidates"] = {"top_n": 2}
        await s.served({"response": asked})


@watch("O18", unseen="no stream brought candidates that were asked for")
def candidates_are_selected(call: Call) -> bool:
    response = call.request.response
    if not response.HasField("output_candidates") or call.expect == "refused":
        return False
    selection = response.output_candidates
    kind = selection.WhichOneof("selection")
    tokens = _tokens(call)
    counts = {len(token.candidates) for token in tokens}
    for token in tokens:
        ids = [one.token_id for one in token.candidates]
        if len(set(ids)) != len(ids):
            raise Broken(f"candidates come twice: {ids}")
        if kind == "top_n" and len(ids) != selection.top_n:
            raise Broken(f"top_n={selection.top_n} gave {len(ids)} candidates")
        if kind == "token_ids" and set(ids) != set(selection.token_ids.ids):
            raise Broken(f"candidates {list(selection.token_ids.ids)} were asked for, came {ids}")
    if kind == "all" and tokens and (len(counts) > 1 or counts == {0}):
        raise Broken(f"all candidates were asked for, came {sorted(counts)}")
    return bool(tokens) and kind is not None


def _asked(s: Subject) -> dict[str, object]:
    if not s.generation.output_logprobs.supported:
        raise Skip("output logprobs are not advertised")
    return {"return_output_logprobs": True}


def _tokens(call: Call) -> list[Proto]:
    return [token for name, event in outputs(call) if name == "token" for token in event.tokens]


def _best(token: Proto) -> float:
    return max((one.logprob for one in token.candidates), default=0.0)
