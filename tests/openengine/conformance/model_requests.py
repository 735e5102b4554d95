"""What the model server refuses, and requests as the scripted model reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from inferlab_adapters.openengine.engine import (
    GenerateRequest,
    Guide,
    Returned,
    Sampling,
    Selection,
    Stopping,
)
from tests.openengine.conformance.model_server import Refusal

NAMES = ("model-a", "alias-a")
MAX_SEQUENCES = 4
MAX_TOP_N = 5
VOCABULARY = 20
RANK = "openengine-target-dp-rank"
PRIORITY = "openengine-priority"
_GUIDES = ("json_schema", "regex", "choice", "json_object")


def bad(message: str) -> Refusal:
    return Refusal("INVALID_ARGUMENT", message)


def check_model(name: str) -> None:
    """Refuse a model that is not served."""
    if not name:
        raise bad("model: must not be empty")
    if name not in NAMES:
        raise Refusal("NOT_FOUND", f"model: {name} is not served")


def routing(metadata: Mapping[str, list[str]]) -> dict[str, int]:
    """The routing keys of v0.1.0, each at most once and a number of its range."""
    limits = {PRIORITY: (-(2**31), 2**31 - 1), RANK: (0, 2**32 - 1)}
    found = {}
    for key, (least, most) in limits.items():
        values = metadata.get(key, [])
        if len(values) > 1:
            raise bad(f"{key}: comes twice")
        for value in values:
            if not re.fullmatch("-?[0-9]+", value) or not least <= int(value) <= most:
                raise bad(f"{key}: is {value}")
            found[key] = int(value)
    return found


def check(request: Any, loras: Mapping[str, Any], lacks: frozenset[str]) -> None:
    """Refuse what can never be served, and the options that the server ``lacks``."""
    if not request.request_id:
        raise bad("request_id: must not be empty")
    check_model(request.model)
    if request.WhichOneof("input") is None:
        raise bad("input: must be set")
    sampling, response = request.sampling, request.response
    if sampling.HasField("num_sequences") and not 0 < sampling.num_sequences <= MAX_SEQUENCES:
        raise bad(f"sampling.num_sequences: is {sampling.num_sequences}")
    for condition in request.stopping.conditions:
        if condition.WhichOneof("condition") is None:
            raise bad("stopping.conditions: must be of a kind")
    for side in ("prompt", "output"):
        if response.HasField(f"{side}_candidates"):
            chosen = getattr(response, f"{side}_candidates")
            if chosen.WhichOneof("selection") is None:
                raise bad(f"response.{side}_candidates: must be of a kind")
            if chosen.top_n > MAX_TOP_N:
                raise bad(f"response.{side}_candidates.top_n: is over {MAX_TOP_N}")
    if request.media:
        raise bad("media: the model takes none")
    if request.lora_name and request.lora_name not in loras:
        raise Refusal("NOT_FOUND", f"lora_name: {request.lora_name} is not loaded")
    if "cache_salt" in lacks and request.kv.HasField("cache_salt"):
        raise bad("kv.cache_salt: is not supported")
    _check_guide(request)


def _check_guide(request: Any) -> None:
    guide = request.guided.WhichOneof("guide")
    if guide is None:
        return
    if guide not in _GUIDES:
        raise bad(f"guided.{guide}: is not supported")
    try:
        if guide == "json_schema":
            json.loads(request.guided.json_schema)
        elif guide == "regex":
            re.compile(request.guided.regex)
    except (ValueError, re.error) as error:
        raise bad(f"guided.{guide}: {error}") from None


def neutral(request: Any) -> GenerateRequest:
    """The request in the words of the scripted model."""
    sampling, stopping, response = request.sampling, request.stopping, request.response
    text = request.WhichOneof("input") == "prompt"
    conditions = list(stopping.conditions)
    return GenerateRequest(
        request_id=request.request_id,
        model=request.model,
        prompt=request.prompt if text else None,
        token_ids=None if text else list(request.token_ids.ids),
        sampling=Sampling(
            temperature=sampling.temperature if sampling.HasField("temperature") else None,
            seed=sampling.seed if sampling.HasField("seed") else None,
            num_sequences=sampling.num_sequences if sampling.HasField("num_sequences") else 1,
        ),
        stopping=Stopping(
            max_tokens=stopping.max_tokens if stopping.HasField("max_tokens") else None,
            min_tokens=stopping.min_tokens,
            stop_texts=tuple(c.stop_text for c in conditions if c.HasField("stop_text")),
            stop_token_ids=tuple(
                c.stop_token_id for c in conditions if c.HasField("stop_token_id")
            ),
            ignore_eos=stopping.ignore_eos,
            include_stop_in_output=stopping.include_stop_in_output,
        ),
        returned=Returned(
            prompt_logprobs=response.return_prompt_logprobs,
            prompt_candidates=_selection(response, "prompt_candidates"),
            prompt_start=response.prompt_logprob_start,
            output_logprobs=response.return_output_logprobs,
            output_candidates=_selection(response, "output_candidates"),
        ),
        guide=_guide(request),
        lora_name=request.lora_name,
    )


def _selection(response: Any, name: str) -> Selection | None:
    if not response.HasField(name):
        return None
    chosen = getattr(response, name)
    if chosen.HasField("all"):
        # As if the vocabulary were so small; the suite reads every candidate.
        return Selection(mode="token_ids", token_ids=tuple(range(VOCABULARY)))
    return Selection(
        mode=chosen.WhichOneof("selection"),
        top_n=chosen.top_n,
        token_ids=tuple(chosen.token_ids.ids),
    )


def _guide(request: Any) -> Guide | None:
    mode = request.guided.WhichOneof("guide")
    if mode is None:
        return None
    value = getattr(request.guided, mode)
    return Guide(
        mode=mode,
        text=value if isinstance(value, str) else "",
        choices=tuple(value.choices) if mode == "choice" else (),
    )
