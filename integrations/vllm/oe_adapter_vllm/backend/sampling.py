"""A neutral request as a body for ``POST /inference/v1/generate``, or a refusal.

Sources (vLLM 0.32.0): sampling_params.py and
entrypoints/scale_out/token_in_token_out/{protocol,serving}.py. Seen on a running server:

- A stream answers 200 before vLLM has checked vocabulary, length, logprobs and grammar; the
  refusal is then its first line. So vocabulary and length are checked here as well.
- ``top_logprobs`` is cut to ``logprobs`` entries and begins with the sampled token, so that the
  best n are complete only if n + 1 were asked for.
- ``logprob_token_ids`` shows nothing unless ``logprobs`` is their count, the cut then loses the
  last one (a repeated last id saves it), and their ranks are their positions, no ranks.
- ``min_tokens`` without ``max_tokens`` is held against a ``max_tokens`` of 16.
- ``skip_reading_prefix_cache`` reuses nothing but still stores what it computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from inferlab_adapters.openengine.engine import (
    EngineFault,
    GenerateRequest,
    Guide,
    GuideMode,
    ModelFacts,
    Selection,
    Stopping,
)

MAX_LOGPROB_TOKEN_IDS = 128
"""sampling_params.py, MAX_LOGPROB_TOKEN_IDS."""

GUIDES: Mapping[GuideMode, str] = {
    "json_schema": "json",
    "regex": "regex",
    "ebnf_grammar": "grammar",
    "structural_tag": "structural_tag",
    "choice": "choice",
    "json_object": "json_object",
}
"""Fields of vLLM's StructuredOutputsParams."""


def body(
    request: GenerateRequest, token_ids: Sequence[int], model: ModelFacts, engine_id: str
) -> dict[str, Any]:
    """What vLLM is asked; raises ``invalid_argument`` or ``unsupported_feature``."""
    check_prompt(token_ids, model)
    streamed = not request.returned.prompt_logprobs
    asked = {
        **addressed(request, model, engine_id),
        "token_ids": list(token_ids),
        "sampling_params": sampling(request, len(token_ids), model),
        "output_mode": "tokens" if request.returned.output_logprobs else "text",
        "stream": streamed,
    }
    if streamed:
        asked["stream_options"] = {"include_usage": True}
    return asked


def prefill_body(
    request: GenerateRequest, token_ids: Sequence[int], model: ModelFacts, engine_id: str
) -> dict[str, Any]:
    """A request whose KV cache is wanted and whose one token nobody sees.

    Only an output that ends by its length leaves its blocks behind with Mooncake
    (mooncake_connector.py, request_finished), so that an end token must not count.
    """
    check_prompt(token_ids, model)
    params: dict[str, Any] = {"max_tokens": 1, "ignore_eos": True, "temperature": 0.0}
    if request.guide is not None:
        # For vLLM to check it: the same request goes to decode, where it is too late to refuse.
        params["structured_outputs"] = _guide(request.guide)
    if request.bypass_prefix_cache:
        params["skip_reading_prefix_cache"] = True
    return {
        **addressed(request, model, engine_id),
        "token_ids": list(token_ids),
        "sampling_params": params,
    }


def addressed(request: GenerateRequest, model: ModelFacts, engine_id: str) -> dict[str, Any]:
    """What every body says: which request of which model, and how soon."""
    asked: dict[str, Any] = {
        "request_id": engine_id,
        "model": request.lora_name or model.served_name,
    }
    if request.priority:
        asked["priority"] = -request.priority  # vLLM runs lower numbers first.
    if request.cache_salt:
        asked["cache_salt"] = request.cache_salt
    return asked


def check_prompt(token_ids: Sequence[int], model: ModelFacts) -> None:
    """Refuse what vLLM would refuse, before it is asked."""
    if not token_ids:
        raise EngineFault("invalid_argument", "the prompt has no tokens")
    _check_ids(token_ids, model, "the prompt")
    most = model.max_context_length
    if most is not None and len(token_ids) + 1 > most:
        what = f"the prompt has {len(token_ids)} tokens; with one token of output, {model.names[0]}"
        raise EngineFault("invalid_argument", f"{what} takes at most {most - 1}")


def _check_ids(ids: Sequence[int], model: ModelFacts, where: str) -> None:
    if ids and (min(ids) < 0 or (model.vocabulary is not None and max(ids) >= model.vocabulary)):
        bad = next(i for i in ids if i < 0 or i >= (model.vocabulary or math.inf))
        what = f"token id {bad} in {where} is outside the vocabulary"
        size = f" of {model.vocabulary}" if model.vocabulary is not None else ""
        raise EngineFault("invalid_argument", what + size)


def sampling(request: GenerateRequest, prompt_length: int, model: ModelFacts) -> dict[str, Any]:
    """vLLM's ``sampling_params``: only what was said, so that its own defaults stand."""
    wanted = request.sampling
    asked: dict[str, Any] = {}
    for name in (
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "seed",
    ):
        value = getattr(wanted, name)
        if value is None:
            continue
        if not math.isfinite(value):
            raise EngineFault("invalid_argument", f"{name} must be a finite number, got {value}")
        asked[name] = value
    if wanted.num_sequences != 1:
        if request.session is not None:
            what = "num_sequences must be 1 with a KV session: vLLM frees it with the first output"
            raise EngineFault("invalid_argument", what)
        asked["n"] = wanted.num_sequences
    _stop(request.stopping, prompt_length, model, asked)
    _logprobs(request, model, asked)
    if request.guide is not None:
        asked["structured_outputs"] = _guide(request.guide)
    if request.bypass_prefix_cache:
        asked["skip_reading_prefix_cache"] = True
    return asked


def _stop(wanted: Stopping, prompt_length: int, model: ModelFacts, asked: dict[str, Any]) -> None:
    if wanted.max_tokens is not None:
        asked["max_tokens"] = wanted.max_tokens
    elif wanted.min_tokens is not None and model.max_context_length is not None:
        asked["max_tokens"] = model.max_context_length - prompt_length
    if wanted.min_tokens is not None:
        asked["min_tokens"] = wanted.min_tokens
    if wanted.stop_texts:
        asked["stop"] = list(wanted.stop_texts)
    if wanted.stop_token_ids:
        _check_ids(wanted.stop_token_ids, model, "the stop tokens")
        asked["stop_token_ids"] = list(wanted.stop_token_ids)
    if wanted.ignore_eos:
        asked["ignore_eos"] = True
    if wanted.include_stop_in_output:
        asked["include_stop_str_in_output"] = True


def _logprobs(request: GenerateRequest, model: ModelFacts, asked: dict[str, Any]) -> None:
    returned = request.returned
    if returned.prompt_logprobs:
        selection = returned.prompt_candidates
        if selection is not None and selection.mode == "token_ids":
            what = "vLLM reports no candidates by token id for prompts"
            raise EngineFault("unsupported_feature", what)
        asked["prompt_logprobs"] = _count(selection)
        most = model.abilities.prompt_logprobs.max_top_n
        _check_count(asked["prompt_logprobs"], most, "prompt")
    if not returned.output_logprobs:
        return
    selection = returned.output_candidates
    most = model.abilities.output_logprobs.max_top_n
    if selection is not None and selection.mode == "token_ids":
        ids = list(dict.fromkeys(selection.token_ids))
        _check_ids(ids, model, "the candidates")
        limit = MAX_LOGPROB_TOKEN_IDS - 1 if most is None else min(MAX_LOGPROB_TOKEN_IDS - 1, most)
        if not 0 < len(ids) <= limit:
            what = f"candidates by token id must be 1 to {limit} ids, got {len(ids)}"
            raise EngineFault("invalid_argument", what)
        asked["logprob_token_ids"] = [*ids, ids[-1]]
        asked["logprobs"] = len(ids) + 1
        return
    count = _count(selection)
    _check_count(count, most, "output")
    asked["logprobs"] = count + 1 if count > 0 else count


def _count(selection: Selection | None) -> int:
    if selection is None:
        return 0
    return -1 if selection.mode == "all" else selection.top_n


def _check_count(count: int, most: int | None, where: str) -> None:
    if most is not None and count > most:
        what = f"{where} candidates: vLLM was started for at most {most}, got {count}"
        raise EngineFault("invalid_argument", f"{what}; --max-logprobs raises it")


def _guide(guide: Guide) -> dict[str, Any]:
    if guide.backend:
        what = "vLLM chooses the backend of guided decoding for all requests, at its start"
        raise EngineFault("unsupported_feature", f"{what}; leave {guide.backend!r} out")
    if guide.mode == "choice":
        return {"choice": list(guide.choices)}
    if guide.mode == "json_object":
        return {"json_object": True}
    if not guide.text.strip() and guide.mode != "regex":
        raise EngineFault("invalid_argument", f"the guide {guide.mode} is empty")
    return {GUIDES[guide.mode]: guide.text}
