"""The complete parallel shape of one replica, as plain positive integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from inferlab_adapters.errors import Faults, one_of, pointer
from inferlab_adapters.protocol import ParallelismAttention, ParallelismExperts, ParallelismOuter

if TYPE_CHECKING:
    from inferlab_adapters.protocol import Parallelism, answers

MAX_DEVICES = 65_536
"""More devices in a replica than any real deployment has."""


class Layout(NamedTuple):
    """All nine sizes of the neutral shape, filled in.

    ``devices`` is the number of accelerators one replica takes; how it follows from the
    sizes is the framework's own rule.
    """

    tensor: int
    pipeline: int
    attention_tensor: int
    attention_data: int
    attention_context: int
    expert_tensor: int
    expert_data: int
    expert: int
    dense_tensor: int
    devices: int

    def to_wire(self) -> answers.Parallelism:
        """The effective parallelism of a role: every size present."""
        return {
            "outer": {
                "tensor_parallel_size": self.tensor,
                "pipeline_parallel_size": self.pipeline,
            },
            "attention": {
                "tensor_parallel_size": self.attention_tensor,
                "data_parallel_size": self.attention_data,
                "context_parallel_size": self.attention_context,
            },
            "experts": {
                "tensor_parallel_size": self.expert_tensor,
                "data_parallel_size": self.expert_data,
                "expert_parallel_size": self.expert,
                "dense_tensor_parallel_size": self.dense_tensor,
            },
        }


class DeclaredLayout(NamedTuple):
    """The sizes that a request names; ``None`` where it leaves the choice to the adapter.

    A declared size is honoured exactly or refused. ``base`` is the JSON pointer of the
    parallelism object, for messages.
    """

    base: str
    tensor: int | None = None
    pipeline: int | None = None
    attention_tensor: int | None = None
    attention_data: int | None = None
    attention_context: int | None = None
    expert_tensor: int | None = None
    expert_data: int | None = None
    expert: int | None = None
    dense_tensor: int | None = None

    @classmethod
    def from_wire(cls, wire: Parallelism, base: str) -> DeclaredLayout:
        """Read the wire form, in which every group and every size may be absent."""
        outer = wire.outer or ParallelismOuter()
        attention = wire.attention or ParallelismAttention()
        experts = wire.experts or ParallelismExperts()
        return cls(
            base=base,
            tensor=outer.tensor_parallel_size,
            pipeline=outer.pipeline_parallel_size,
            attention_tensor=attention.tensor_parallel_size,
            attention_data=attention.data_parallel_size,
            attention_context=attention.context_parallel_size,
            expert_tensor=experts.tensor_parallel_size,
            expert_data=experts.data_parallel_size,
            expert=experts.expert_parallel_size,
            dense_tensor=experts.dense_tensor_parallel_size,
        )

    def pointer(self, size: str) -> str:
        """Where the size called ``size`` (a field name of this class) stands in the request."""
        return pointer(self.base, *_WIRE_PATHS[size])

    def declared(self) -> Iterator[tuple[str, int]]:
        """The sizes that were named, as (field name, value)."""
        for name, value in self._asdict().items():
            if name != "base" and value is not None:
                yield name, value

    def require(self, faults: Faults, size: str, *legal: int, why: str) -> None:
        """Refuse a declared size that is none of ``legal``; an absent one is fine."""
        value = getattr(self, size)
        if value is not None and value not in legal:
            choices = one_of(sorted(set(legal)))
            faults.add(self.pointer(size), f"must be {choices}, got {value}", why)

    def divisor(self, faults: Faults, size: str, whole: int, *, why: str) -> int:
        """A declared size that must divide ``whole``; 1 where it does not or is not declared."""
        value: int = getattr(self, size) or 1
        if whole % value == 0:
            return value
        self.require(faults, size, *divisors(whole), why=why)
        return 1


def divisors(whole: int) -> list[int]:
    """Every divisor that can be the size of a shape: none is above :data:`MAX_DEVICES`."""
    return [size for size in range(1, min(whole, MAX_DEVICES) + 1) if whole % size == 0]


_WIRE_PATHS = {
    "tensor": ("outer", "tensor_parallel_size"),
    "pipeline": ("outer", "pipeline_parallel_size"),
    "attention_tensor": ("attention", "tensor_parallel_size"),
    "attention_data": ("attention", "data_parallel_size"),
    "attention_context": ("attention", "context_parallel_size"),
    "expert_tensor": ("experts", "tensor_parallel_size"),
    "expert_data": ("experts", "data_parallel_size"),
    "expert": ("experts", "expert_parallel_size"),
    "dense_tensor": ("experts", "dense_tensor_parallel_size"),
}
