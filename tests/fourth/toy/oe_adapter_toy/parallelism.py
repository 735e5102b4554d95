"""Toy's parallel algebra: tensor parallel for everything, and nothing else."""

from __future__ import annotations

from inferlab_adapters.errors import Faults
from inferlab_adapters.options import OptionTable
from inferlab_adapters.parallelism import DeclaredLayout, Layout


def layout(declared: DeclaredLayout, table: OptionTable, faults: Faults) -> Layout:
    """Complete a declared shape: devices = tensor."""
    tensor = declared.tensor or 1
    for size in ("attention_tensor", "expert_tensor", "dense_tensor"):
        declared.require(faults, size, tensor, why="toy splits every layer by outer tensor")
    for size in ("pipeline", "attention_data", "attention_context", "expert_data", "expert"):
        declared.require(faults, size, 1, why="toy has tensor parallel only")
    return Layout(
        tensor=tensor,
        pipeline=1,
        attention_tensor=tensor,
        attention_data=1,
        attention_context=1,
        expert_tensor=tensor,
        expert_data=1,
        expert=1,
        dense_tensor=tensor,
        devices=tensor,
    )
