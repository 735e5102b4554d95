"""Text beside logprobs, which vLLM does not send in one answer.

``output_mode`` "text" has text but no ids of candidates and no ranks; "tokens" has those but no
text (vLLM 0.32.0, token_in_token_out/serving.py). Where logprobs were asked for, the text comes
from ``POST /v1/completions/derender``, which --enable-scale-out opens as well: chunk by chunk with
a state that we carry, never splitting a character. It knows no stop texts: they are handled here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from oe_adapter_vllm.backend.http import Http

DERENDER = "/v1/completions/derender"
_BATCH = 128
"""Ids a question; vLLM takes no more than the model's context length."""
_KEPT = 300_000
"""Token texts that are remembered: more than a vocabulary has."""


class _Tokens(msgspec.Struct):
    tokens: list[str] = []


class _Choice(msgspec.Struct):
    text: str = ""
    logprobs: _Tokens | None = None


class _Derendered(msgspec.Struct):
    choices: list[_Choice] = []


class _Step(msgspec.Struct):
    chunk: _Derendered
    stream_state: dict[str, Any]


_derendered = msgspec.json.Decoder(_Derendered)
_step = msgspec.json.Decoder(_Step)


def _scored(token_ids: Iterable[int]) -> dict[str, Any]:
    # A logprob of each token makes the answer list the tokens' own texts.
    return {"content": [{"token_id": token_id, "logprob": 0.0} for token_id in token_ids]}


class TokenTexts:
    """The texts of single tokens, asked for once and remembered."""

    def __init__(self, http: Http, model: str, longest: int | None) -> None:
        self._http = http
        self._model = model
        self._batch = min(_BATCH, longest or _BATCH)
        self._texts: dict[int, str] = {}

    async def of(self, token_ids: Iterable[int]) -> dict[int, str]:
        """The texts of these tokens; half a character is the empty text."""
        wanted = set(token_ids)
        missing = sorted(wanted - self._texts.keys())
        if len(self._texts) + len(missing) > _KEPT:
            self._texts.clear()
            missing = sorted(wanted)
        for start in range(0, len(missing), self._batch):
            await self._ask(missing[start : start + self._batch])
        return self._texts

    async def _ask(self, ids: Sequence[int]) -> None:
        # One token a choice: a token's text shall not depend on the one before it.
        choices = [
            {"index": index, "token_ids": [token_id], "logprobs": _scored([token_id])}
            for index, token_id in enumerate(ids)
        ]
        response = {"request_id": "texts", "choices": choices}
        question = {"model": self._model, "generate_responses": [response]}
        answer = _derendered.decode(await self._http.post(DERENDER, question))
        for token_id, choice in zip(ids, answer.choices, strict=True):
            self._texts[token_id] = _printable(choice.logprobs)


def _printable(logprobs: _Tokens | None) -> str:
    text = logprobs.tokens[0] if logprobs is not None and logprobs.tokens else ""
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


class OutputText:
    """The text of one output, made from its token ids as they come.

    Text is held back as long as it may begin a stop text, as vLLM itself does
    (v1/engine/detokenizer.py), unless the stop text shall stay in the output.
    """

    def __init__(
        self, http: Http, model: str, prompt: Sequence[int], stops: Sequence[str], include: bool
    ) -> None:
        self._http = http
        self._model = model
        self._prompt: Sequence[int] | None = prompt
        self._state: dict[str, Any] | None = None
        self._include = include
        self._hold = 0 if include or not stops else max(map(len, stops)) - 1
        self._text = ""
        self._sent = 0

    async def add(self, token_ids: Sequence[int]) -> tuple[str, list[str]]:
        """Text that may be shown now, and the text of each token."""
        tokens = await self._decode(token_ids)
        return self._show(len(self._text) - self._hold), tokens

    async def finish(self, token_ids: Sequence[int], stop: str | None) -> tuple[str, list[str]]:
        """As :meth:`add` for the last tokens: all that is left, up to ``stop``, which ended it."""
        before = len(self._text)
        tokens = await self._decode(token_ids)
        end = len(self._text)
        if stop is not None:
            # These tokens completed the stop text, or it would have ended the output before.
            place = self._text.find(stop, max(0, before - len(stop) + 1))
            if place >= 0:
                end = place + len(stop) if self._include else place
        return self._show(end), tokens

    def _show(self, end: int) -> str:
        shown = self._text[self._sent : end] if end > self._sent else ""
        self._sent = max(self._sent, end)
        return shown

    async def _decode(self, token_ids: Sequence[int]) -> list[str]:
        if not token_ids:
            return []
        choice = {"index": 0, "token_ids": list(token_ids), "logprobs": _scored(token_ids)}
        question: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "generate_chunk": {"request_id": "text", "choices": [choice]},
        }
        if self._state is None:
            question["prompt_token_ids"] = list(self._prompt or ())
            self._prompt = None
        else:
            question["stream_state"] = self._state
        step = _step.decode(await self._http.post(DERENDER, question))
        self._state = step.stream_state
        (answer,) = step.chunk.choices
        self._text += answer.text
        return answer.logprobs.tokens if answer.logprobs is not None else [""] * len(token_ids)
