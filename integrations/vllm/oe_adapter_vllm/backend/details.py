"""Logprobs of vLLM's answers as details of tokens: just the candidates that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferlab_adapters.openengine.engine import (
    Candidate,
    PromptEvent,
    Returned,
    Selection,
    TokenDetail,
)
from oe_adapter_vllm.backend.text import TokenTexts
from oe_adapter_vllm.backend.wire import PromptScore, Scored, ScoredToken


class Details:
    """Makes the details that ``returned`` asks for of the tokens of one request."""

    def __init__(self, returned: Returned, token_ids: Sequence[int], texts: TokenTexts) -> None:
        self._returned = returned
        self._token_ids = token_ids
        self._texts = texts

    async def of_tokens(
        self, token_ids: Sequence[int], texts: Sequence[str], scores: Sequence[ScoredToken]
    ) -> list[TokenDetail]:
        selection = self._returned.output_candidates
        if selection is None or (selection.mode == "top_n" and not selection.top_n):
            return [
                TokenDetail(token_id, text, _logprob(score), score.rank)
                for token_id, text, score in zip(token_ids, texts, scores, strict=False)
            ]
        chosen = [_chosen(score, selection) for score in scores[: len(token_ids)]]
        known = await self._texts.of(scored.token_id for row in chosen for scored in row)
        # With ids, vLLM gives positions for ranks: the sampled token's too, if it is one of them.
        by_id = frozenset(selection.token_ids) if selection.mode == "token_ids" else None
        return [
            TokenDetail(
                token_id,
                text,
                _logprob(score),
                None if by_id is not None and token_id in by_id else score.rank,
                tuple(
                    Candidate(
                        scored.token_id,
                        _logprob(scored),
                        known[scored.token_id],
                        scored.rank if by_id is None else None,
                    )
                    for scored in row
                ),
            )
            for token_id, text, score, row in zip(token_ids, texts, scores, chosen, strict=False)
        ]

    async def of_prompt(self, rows: Sequence[Mapping[str, PromptScore] | None]) -> PromptEvent:
        start = self._returned.prompt_start
        selection = self._returned.prompt_candidates
        known = dict(await self._texts.of(self._token_ids[start:]))
        tokens = []
        for token_id, row in list(zip(self._token_ids, rows, strict=False))[start:]:
            score = (row or {}).get(str(token_id))
            if score is None:
                tokens.append(TokenDetail(token_id, known[token_id]))
                continue
            candidates = _prompt_candidates(row or {}, selection)
            tokens.append(
                TokenDetail(token_id, known[token_id], _logprob(score), score.rank, candidates)
            )
        return PromptEvent(tokens)


def _logprob(score: Scored | ScoredToken | PromptScore) -> float:
    return min(score.logprob, 0.0)


def _chosen(score: ScoredToken, selection: Selection) -> list[Scored]:
    """Of what vLLM sent, the candidates that were asked for."""
    if selection.mode == "token_ids":
        by_id = {scored.token_id: scored for scored in score.top_logprobs}
        return [by_id[i] for i in dict.fromkeys(selection.token_ids) if i in by_id]
    most = selection.top_n if selection.mode == "top_n" else len(score.top_logprobs)
    return sorted(score.top_logprobs, key=_by_rank)[:most]


def _by_rank(scored: Scored) -> tuple[int, float]:
    return (scored.rank or 2**31, -scored.logprob)


def _prompt_candidates(
    row: Mapping[str, PromptScore], selection: Selection | None
) -> tuple[Candidate, ...]:
    if selection is None:
        return ()
    most = selection.top_n if selection.mode == "top_n" else len(row)
    found = [
        Candidate(int(token_id), _logprob(score), score.decoded_token or "", score.rank)
        for token_id, score in row.items()
    ]
    found.sort(key=lambda candidate: (candidate.rank or 2**31, -candidate.logprob))
    return tuple(found[:most])
