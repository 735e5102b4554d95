"""A prompt of text straight to ``POST /v1/completions``, which spares it a round trip to /tokenize.

Most requests fit: vLLM turns their text into tokens itself and streams ids beside text. Those that
need the prompt's ids before (logprobs, KV sessions) do not, nor does what this endpoint lacks. What
it refuses is asked again the long way, so that both ways refuse alike: it wants prompt and
``max_tokens`` to fit the context together, where ``/inference/v1/generate`` ends at its limit.

Source (vLLM 0.32.0): entrypoints/openai/completion/{protocol,serving}.py; seen on a running server.
A stream without ``max_tokens`` ends in an assertion. Sampling options that are left out come from
the model's generation config, which ``/inference/v1/generate`` does not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferlab_adapters.openengine.engine import GenerateRequest, ModelFacts
from oe_adapter_vllm.backend import sampling

PATH = "/v1/completions"

_NEUTRAL: Mapping[str, float] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""What vLLM's SamplingParams are where nothing is said (sampling_params.py)."""


def fits(request: GenerateRequest) -> bool:
    """Whether this endpoint can answer a request as the other one would."""
    returned = request.returned
    return not (
        request.prompt is None
        or request.stopping.max_tokens is None
        or request.prefill_only
        or request.session is not None
        or request.bypass_prefix_cache
        or returned.output_logprobs
        or returned.prompt_logprobs
    )


def body(request: GenerateRequest, model: ModelFacts, engine_id: str) -> dict[str, Any]:
    """What vLLM is asked; raises as :func:`.sampling.sampling` does."""
    return {
        **_NEUTRAL,
        **sampling.sampling(request, 0, model),
        **sampling.addressed(request, model, engine_id),
        "prompt": request.prompt,
        "return_token_ids": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
