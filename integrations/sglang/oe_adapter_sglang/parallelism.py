"""SGLang's parallel algebra: attention and experts divide the tensor parallel group.

Sources (0.5.23): sglang/srt/arg_groups/parallel_hook.py and validation_hook.py. That expert
parallel divides the group is checked here only: the engine forgets to.
"""

from __future__ import annotations

from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout


def layout(declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
    """Complete a declared shape: devices = tp * pp, all else divides tp.

    Dense layers follow the whole group unless 1 was asked for; ``dense_tensor`` equal to the
    tensor size is what the engine does by itself, and only another size is written out.
    """
    attention = (declared.attention_data or 1) * (declared.attention_context or 1)
    tensor = declared.tensor or (declared.attention_tensor or 1) * attention
    pipeline = declared.pipeline or 1
    data = _divisor(declared, "attention_data", tensor, faults)
    context = _divisor(declared, "attention_context", tensor // data, faults)
    attention_tensor = tensor // (data * context)
    why = f"attention data {data} and context {context} leave that of tensor parallel {tensor}"
    declared.require(faults, "attention_tensor", attention_tensor, why=why)
    expert, expert_data = _experts(declared, tensor, pipeline, context, faults)
    left = tensor // (expert * expert_data)
    why = f"expert parallel {expert} and expert data {expert_data} leave that of {tensor}"
    declared.require(faults, "expert_tensor", left, why=why)
    why = "SGLang splits dense layers by the whole tensor parallel group, or not at all"
    declared.require(faults, "dense_tensor", 1, tensor, why=why)
    return Layout(
        tensor=tensor,
        pipeline=pipeline,
        attention_tensor=attention_tensor,
        attention_data=data,
        attention_context=context,
        expert_tensor=left,
        expert_data=expert_data,
        expert=expert,
        dense_tensor=declared.dense_tensor or tensor,
        devices=tensor * pipeline,
    )


def _experts(
    declared: DeclaredLayout, tensor: int, pipeline: int, context: int, faults: Faults
) -> tuple[int, int]:
    """Expert parallel and expert data parallel: (ep, moe dp)."""
    data = declared.expert_data or 1
    if data > 1 and (pipeline > 1 or data != context or tensor % data):
        legal = {1, context} if pipeline == 1 and tensor % context == 0 else {1}
        why = "SGLang has expert data parallel only without pipeline, as large as attention context"
        declared.require(faults, "expert_data", *legal, why=why)
        data = 1
    expert = declared.expert or 1
    if data > 1 and expert > 1:
        why = f"with expert data parallel {data} the two must fill tensor parallel {tensor}"
        declared.require(faults, "expert", 1, tensor // data, why=why)
        return (expert if expert * data == tensor else 1), data
    return _divisor(declared, "expert", tensor // data, faults), data


def _divisor(declared: DeclaredLayout, size: str, whole: int, faults: Faults) -> int:
    why = f"it divides {whole} ranks of the tensor group"
    return declared.divisor(faults, size, whole, why=why)
