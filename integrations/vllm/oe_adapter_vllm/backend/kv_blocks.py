"""The blocks that are in a KV cache, followed through its events: what a snapshot is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from inferlab_adapters.openengine.engine import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvBatch,
    KvEvent,
)

_Key: TypeAlias = tuple[str, int, bytes]
"""Medium, group and hash: what a removal names."""


class CachedBlocks:
    """The state after some batches of one rank, in the order in which blocks were stored."""

    def __init__(self) -> None:
        self._blocks: dict[_Key, tuple[BlocksStored, int]] = {}

    def apply(self, batch: KvBatch) -> None:
        """Follow one more batch."""
        for event in batch.events:
            if isinstance(event, BlocksCleared):
                self._blocks.clear()
            elif isinstance(event, BlocksRemoved):
                for block in event.hashes:
                    self._blocks.pop((event.medium, event.group, block.value), None)
            else:
                for place, block in enumerate(event.hashes):
                    key = (event.medium, event.group, block.value)
                    self._blocks.setdefault(key, (event, place))

    def stored(self) -> list[KvEvent]:
        """The present blocks as events; blocks that were stored together stay together."""
        events: list[KvEvent] = []
        run: list[int] = []
        current: BlocksStored | None = None
        for event, place in self._blocks.values():
            if event is current and place == run[-1] + 1:
                run.append(place)
                continue
            if current is not None:
                events.append(_part(current, run))
            current, run = event, [place]
        if current is not None:
            events.append(_part(current, run))
        return events


def _part(event: BlocksStored, places: Sequence[int]) -> BlocksStored:
    first, end = places[0], places[-1] + 1
    return event._replace(
        hashes=event.hashes[first:end],
        parent=event.hashes[first - 1] if first else event.parent,
        token_ids=event.token_ids[first * event.block_size : end * event.block_size],
        extra_keys=event.extra_keys[first:end],
    )


def clears(batch: KvBatch) -> bool:
    """Whether nothing from before this batch is left after it."""
    return any(isinstance(event, BlocksCleared) for event in batch.events)


def snapshot(batches: Iterable[KvBatch]) -> list[KvEvent]:
    """What the cache holds after these batches, which must begin with an empty cache."""
    blocks = CachedBlocks()
    for batch in batches:
        blocks.apply(batch)
    return blocks.stored()
