"""Limits on logprobs, at their edge."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import must_refuse
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject


@check("M4")
async def logprob_limits(s: Subject) -> None:
    found = False
    for side in ("prompt", "output"):
        ability = getattr(s.generation, f"{side}_logprobs")
        top_n = s.wire.revision.enum("CandidateTokenSelectionMode").Value(
            "CANDIDATE_TOKEN_SELECTION_MODE_TOP_N"
        )
        if not ability.HasField("max_top_n") or top_n not in ability.candidate_selection_modes:
            continue
        found, most = True, ability.max_top_n

        def asked(count: int, side: str = side) -> dict[str, object]:
            return {
                "response": {
                    f"return_{side}_logprobs": True,
                    f"{side}_candidates": {"top_n": count},
                }
            }

        call = await s.generate(s.plain(asked(most)), expect="served")
        if call.refused and not call.messages:
            raise Broken(f"{side} max_top_n is {most}, and top_n={most}: {call.told()}")
        call = await s.generate(s.plain(asked(most + 1)), expect="refused")
        must_refuse(call, f"{side} top_n={most + 1} (max_top_n {most})")
    if not found:
        raise Skip("the server reports no max_top_n")
