"""What the scripted engine says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inferlab_adapters.openengine.engine import (
    Abilities,
    Connector,
    Endpoint,
    EngineFacts,
    LogprobAbility,
    ModelFacts,
    Parallelism,
)
from tests.openengine.scripted_model import VOCABULARY

MODEL = "scripted"
BLOCK = 16
"""Tokens in a KV block."""
BACKEND = "scripted-kv"
PEER = Endpoint(host="127.0.0.1", port=9999, protocol="tcp")

_LOGPROBS = LogprobAbility(supported=True, selections=("top_n", "token_ids", "all"), max_top_n=20)
ABILITIES = Abilities(
    prompt_logprobs=_LOGPROBS,
    output_logprobs=_LOGPROBS,
    guides=("json_schema", "regex", "choice", "json_object"),
    max_num_sequences=8,
    priority=True,
    stop_in_output=True,
    cache_salt=True,
    prefix_cache_bypass=True,
    lora=True,
)
MODEL_FACTS = ModelFacts(
    model_id="test/scripted",
    served_name=MODEL,
    aliases=("scripted-alias",),
    max_context_length=4096,
    max_output_tokens=4096,
    vocabulary=VOCABULARY,
    tokenizer_modes=("text", "token_ids"),
    abilities=ABILITIES,
)
FACTS = EngineFacts(
    engine_name="scripted",
    engine_version="1.0",
    models=(MODEL_FACTS,),
    parallelism=Parallelism(tensor=1, pipeline=1, data=1, data_rank=0),
    kv_block_size=BLOCK,
    total_kv_blocks=1000,
    max_running_requests=256,
    max_batched_tokens=8192,
    max_loras=2,
)
CONNECTOR = Connector(
    transfer_backend=BACKEND,
    local_endpoints=(PEER,),
    supported_protocols=("tcp",),
    remote_prefill=True,
    decode_pull=True,
    abort_cleanup=True,
    drain=True,
    schema_version=1,
)


def facts_with(**abilities: Any) -> EngineFacts:
    """The facts of a healthy engine, some abilities changed."""
    model = replace(MODEL_FACTS, abilities=replace(ABILITIES, **abilities))
    return replace(FACTS, models=(model,))
