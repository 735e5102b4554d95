"""TensorRT-LLM's parallel algebra.

Source: tensorrt_llm/mapping.py and tensorrt_llm/llmapi/llm_args.py, 1.3 and 1.4.0rc.
"""

from __future__ import annotations

from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout


def layout(declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
    """Complete a declared shape: devices = tp * pp.

    Attention data parallel is all or nothing: every tensor rank becomes a data parallel rank.
    The tensor ranks of a stage are split between experts and the tensors of each expert.
    """
    tensor = declared.tensor or (declared.attention_tensor or 1) * (declared.attention_data or 1)
    declared.require(
        faults,
        "attention_data",
        1,
        tensor,
        why="TensorRT-LLM makes all tensor ranks data parallel in attention, or none",
    )
    data = tensor if declared.attention_data == tensor else 1
    declared.require(
        faults,
        "attention_tensor",
        tensor // data,
        why=f"with attention data parallel {data} that is what {tensor} tensor ranks leave",
    )
    declared.require(
        faults,
        "attention_context",
        1,
        why="context parallel of TensorRT-LLM was not run with this adapter",
    )
    why = f"it must divide tensor parallel {tensor}"
    expert = declared.divisor(faults, "expert", tensor, why=why)
    if declared.expert is None and declared.expert_tensor and tensor % declared.expert_tensor == 0:
        expert = tensor // declared.expert_tensor
    declared.require(
        faults,
        "expert_tensor",
        tensor // expert,
        why=f"with expert parallel {expert} that is what {tensor} tensor ranks leave",
    )
    declared.require(
        faults, "expert_data", 1, why="TensorRT-LLM has no data parallel group of experts"
    )
    declared.require(
        faults, "dense_tensor", 1, why="TensorRT-LLM has no separate tensor group for dense layers"
    )
    pipeline = declared.pipeline or 1
    return Layout(
        tensor=tensor,
        pipeline=pipeline,
        attention_tensor=tensor // data,
        attention_data=data,
        attention_context=1,
        expert_tensor=tensor // expert,
        expert_data=1,
        expert=expert,
        dense_tensor=1,
        devices=tensor * pipeline,
    )
