"""vLLM's parallel algebra.

Source: vllm/config/parallel.py and vllm/model_executor/layers/fused_moe/config.py, 0.32.0.
"""

from __future__ import annotations

from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout

CONTEXT_OPTION = "prefill_context_parallel_size"


def layout(declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
    """Complete a declared shape: devices = tp * pp * attention dp * prefill cp.

    Attention is split like everything else (attention tp = tp). Experts are either split as
    tensors or spread one by one over the whole tp * dp * cp group, nothing in between.
    """
    tensor = declared.tensor or declared.attention_tensor or 1
    pipeline = declared.pipeline or 1
    data = declared.attention_data or 1
    context = declared.attention_context or 1
    declared.require(
        faults, "attention_tensor", tensor, why="vLLM splits attention by outer tensor parallel"
    )
    if context > 1 and CONTEXT_OPTION not in table:
        declared.require(
            faults, "attention_context", 1, why=f"vLLM {table.version} has no {CONTEXT_OPTION}"
        )
    group = tensor * data * context
    declared.require(
        faults,
        "expert",
        1,
        group,
        why=f"vLLM spreads experts over all {group} ranks of a pipeline stage, or over none",
    )
    expert = declared.expert if declared.expert in (1, group) else 1
    declared.require(
        faults,
        "expert_tensor",
        group // expert,
        why=f"with expert parallel {expert} that is what {group} ranks leave",
    )
    declared.require(faults, "expert_data", 1, why="vLLM has no data parallel group of experts")
    declared.require(
        faults, "dense_tensor", 1, why="vLLM has no separate tensor group for dense layers"
    )
    return Layout(
        tensor=tensor,
        pipeline=pipeline,
        attention_tensor=tensor,
        attention_data=data,
        attention_context=context,
        expert_tensor=group // expert,
        expert_data=1,
        expert=expert,
        dense_tensor=1,
        devices=group * pipeline,
    )
