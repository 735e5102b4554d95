"""What a running vLLM is: from its endpoints, its command line, and questions that it refuses.

What no endpoint tells (vocabulary, logprobs at most, sequences at most) stands in vLLM's refusals
of impossible requests, which cost it no work. Seen with vLLM 0.32.0: "Vocabulary size: 512",
"which is greater than max allowed: 20", "the server's max_num_seqs (128)".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from inferlab_adapters.openengine.engine import (
    Abilities,
    EngineFacts,
    EngineFault,
    GuideMode,
    LogprobAbility,
    ModelFacts,
    Parallelism,
    Role,
)
from oe_adapter_vllm.backend.arguments import EngineArguments
from oe_adapter_vllm.backend.connector import VllmConnector
from oe_adapter_vllm.backend.http import Http
from oe_adapter_vllm.backend.metrics import Metrics
from oe_adapter_vllm.backend.models import listed
from oe_adapter_vllm.backend.sampling import GUIDES
from oe_adapter_vllm.backend.stream import GENERATE

LOAD_LORA = "/v1/load_lora_adapter"

_IMPOSSIBLE = 2**31 - 1
_VOCABULARY = re.compile(r"Vocabulary size: (\d+)")
_MOST_LOGPROBS = re.compile(r"greater than max allowed: (\d+)")
_MOST_SEQUENCES = re.compile(r"max_num_seqs \((\d+)\)|n must be at most (\d+)")
_MOST_N = 16384
"""VLLM_MAX_N_SEQUENCES as it is unless set."""

_ONLY_TEXT_GUIDES = ("outlines", "lm-format-enforcer")
"""Backends of guided decoding that take neither grammars nor structural tags."""


class _Version(msgspec.Struct):
    version: str


async def read(
    http: Http, role: Role, arguments: EngineArguments, connector: VllmConnector
) -> EngineFacts:
    """The facts; raises ``not_ready`` while vLLM does not answer."""
    try:
        await http.get("/health")
    except EngineFault as fault:
        raise EngineFault("not_ready", fault.message, retryable=True) from fault
    version = msgspec.json.decode(await http.get("/version"), type=_Version).version
    models, adapters = await listed(http)
    if not models:
        raise EngineFault("not_ready", "vLLM lists no model", retryable=True)
    metrics = Metrics((await http.get("/metrics")).decode("utf-8", "replace"))
    connector.recognize(metrics)
    first = models[0]
    asked = _Questions(http, first.id)
    ranks = metrics.by_rank("vllm:num_requests_running")
    most_sequences = await asked.sequences()
    prompt_logprobs, output_logprobs = await asked.logprobs()
    with_lora = metrics.measures("vllm:lora_requests_info")
    if with_lora:
        # vLLM applies adapters to a prompt's logits by the map of the tokens that it samples
        # (lora/layers/logits_processor.py). Seen on the CPU build: beside other requests their
        # sizes differ, which ends the engine; GPU kernels take the wrong rows, as far as read.
        prompt_logprobs = LogprobAbility(supported=False)
    lora = with_lora and (bool(adapters) or await asked.route(LOAD_LORA))
    model = ModelFacts(
        model_id=first.root or first.id,
        served_name=first.id,
        aliases=tuple(model.id for model in models[1:]),
        max_context_length=first.max_model_len,
        vocabulary=await asked.vocabulary(),
        reasoning_parser=arguments.text("reasoning_parser"),
        tool_call_parser=arguments.text("tool_call_parser"),
        abilities=Abilities(
            guides=_guides(arguments),
            # A session is freed with the first output that fetched it.
            max_num_sequences=1 if role is Role.DECODE and connector.transfer else most_sequences,
            priority=await _priority(asked, arguments),
            stop_in_output=True,
            cache_salt=True,
            prefix_cache_bypass=True,
            lora=lora,
            dp_rank_choice=len(ranks) > 1,
            prompt_logprobs=prompt_logprobs,
            output_logprobs=output_logprobs,
        ),
    )
    blocks = metrics.blocks()
    sizes = [labels.get("block_size", "") for labels in metrics.cache().values()]
    return EngineFacts(
        engine_name="vllm",
        engine_version=version,
        models=(model,),
        parallelism=_parallelism(arguments, len(ranks)),
        connector=connector.described(role),
        kv_block_size=int(sizes[0]) if sizes and sizes[0].isdigit() else None,
        total_kv_blocks=sum(blocks.values()) if blocks else None,
        max_running_requests=most_sequences and most_sequences * max(len(ranks), 1),
        max_batched_tokens=arguments.number("max_num_batched_tokens"),
        max_loras=_max_loras(arguments, len(adapters)) if lora else None,
    )


def _max_loras(arguments: EngineArguments, present: int) -> int | None:
    """How many may be loaded; vLLM takes as many as it is given at its start."""
    most = arguments.number("max_loras", 1)
    return None if most is None else max(most, present)


def _parallelism(arguments: EngineArguments, ranks: int) -> Parallelism:
    data = arguments.number("data_parallel_size", 1)
    return Parallelism(
        tensor=arguments.number("tensor_parallel_size", 1),
        pipeline=arguments.number("pipeline_parallel_size", 1),
        data=ranks if data is None and ranks > 1 else data,
        data_rank=arguments.number("data_parallel_rank"),
        data_start_rank=arguments.number("data_parallel_start_rank"),
        decode_context=arguments.number("decode_context_parallel_size", 1),
    )


def _guides(arguments: EngineArguments) -> tuple[GuideMode, ...]:
    backend = arguments.mapping("structured_outputs_config").get("backend", "auto")
    if backend in _ONLY_TEXT_GUIDES:
        return ("json_schema", "regex", "choice", "json_object")
    return tuple(GUIDES)


async def _priority(asked: _Questions, arguments: EngineArguments) -> bool:
    if arguments.known:
        return arguments.text("scheduling_policy") == "priority"
    return await asked.priority()


class _Questions:
    """Requests that vLLM refuses with the answer in its message."""

    def __init__(self, http: Http, model: str) -> None:
        self._http = http
        self._model = model

    async def vocabulary(self) -> int | None:
        """How many token ids the model has; ``None`` where vLLM puts it in other words."""
        return _number(_VOCABULARY, await self._refusal({}))

    async def logprobs(self) -> tuple[LogprobAbility, LogprobAbility]:
        """Which candidates prompts and outputs can have.

        For outputs the best n cost one more (sampling).
        """
        most = _number(_MOST_LOGPROBS, await self._refusal({"logprobs": _IMPOSSIBLE}))
        if most is None:
            unknown = LogprobAbility(supported=True)
            return unknown, unknown
        if not most:
            bare = LogprobAbility(supported=True, max_top_n=0)
            return bare, bare
        everything = ("all",) if most == await self.vocabulary() else ()
        prompt = LogprobAbility(supported=True, selections=("top_n", *everything), max_top_n=most)
        output = LogprobAbility(
            supported=True, selections=("top_n", "token_ids", *everything), max_top_n=most - 1
        )
        return prompt, output

    async def sequences(self) -> int | None:
        """How many outputs one request may have, which is how many requests run at once."""
        return _number(_MOST_SEQUENCES, await self._refusal({"n": _MOST_N, "temperature": 1.0}))

    async def priority(self) -> bool:
        """Whether vLLM takes priorities; only a request that it carries out tells."""
        body = {**self._body({}), "priority": -1}
        try:
            await self._http.post(GENERATE, body)
        except EngineFault as refused:
            if refused.code != "invalid_argument":
                raise
            return False
        return True

    async def route(self, path: str) -> bool:
        """Whether vLLM has this path; an empty body is never carried out."""
        try:
            await self._http.post(path, {})
        except EngineFault as refused:
            return refused.code == "invalid_argument"
        return True

    def _body(self, sampling: dict[str, Any]) -> dict[str, Any]:
        asked = {"max_tokens": 1, **sampling}
        return {"model": self._model, "token_ids": [0], "sampling_params": asked}

    async def _refusal(self, sampling: dict[str, Any]) -> str:
        # The stop token is impossible, so that no such request is ever carried out.
        body = self._body({"stop_token_ids": [_IMPOSSIBLE], **sampling})
        try:
            await self._http.post(GENERATE, body)
        except EngineFault as refused:
            if refused.code != "invalid_argument":
                raise
            return refused.message
        return ""


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(next(group for group in found.groups() if group)) if found else None
