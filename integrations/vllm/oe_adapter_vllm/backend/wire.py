"""What vLLM's generate endpoint answers, as far as it is read.

Source (vLLM 0.32.0): entrypoints/scale_out/token_in_token_out/protocol.py, ``GenerateResponse``
and ``GenerateStreamResponse``, and entrypoints/openai/completion/protocol.py,
``CompletionStreamResponse``; all fit :class:`Answer`. Unknown fields are passed over.
"""

from __future__ import annotations

from typing import Any

import msgspec

from oe_adapter_vllm.backend.http import ErrorBody


class Scored(msgspec.Struct):
    """A token that could have stood there, with its logprob; ``rank`` counts from 1."""

    token_id: int
    logprob: float
    rank: int | None = None


class ScoredToken(msgspec.Struct):
    """The sampled token; ``top_logprobs`` begins with it, the rest is in rank order."""

    token_id: int
    logprob: float
    rank: int | None = None
    top_logprobs: list[Scored] = []


class Logprobs(msgspec.Struct):
    """One entry a token."""

    content: list[ScoredToken] | None = None


class Choice(msgspec.Struct):
    """New tokens of one output. ``text`` only where the text mode was asked for.

    ``prompt_token_ids`` stand only in the first of a completion.
    """

    index: int
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    text: str = ""
    logprobs: Logprobs | None = None
    prompt_token_ids: list[int] | None = None


class CachedTokens(msgspec.Struct):
    """Present with --enable-prompt-tokens-details."""

    cached_tokens: int | None = None


class Counted(msgspec.Struct):
    """Token counts over all outputs."""

    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: CachedTokens | None = None


class PromptScore(msgspec.Struct):
    """A prompt token's, or another candidate's, logprob at its place."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


class Answer(msgspec.Struct):
    """A chunk of a stream, or the whole answer.

    ``prompt_logprobs`` maps decimal token ids; its first entry is ``None``.
    """

    choices: list[Choice] = []
    usage: Counted | None = None
    error: ErrorBody | None = None
    prompt_logprobs: list[dict[str, PromptScore] | None] | None = None
    kv_transfer_params: dict[str, Any] | None = None


decode_answer = msgspec.json.Decoder(Answer).decode
