"""SubscribeKvEvents: the engine's batches, pulled one by one, so that a slow reader keeps none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from inferlab_adapters.openengine.discovery import check_ranks
from inferlab_adapters.openengine.engine import (
    BlockHash,
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    EngineFault,
    KvBatch,
    KvEvent,
)
from inferlab_adapters.openengine.errors import fill_error, unexpected
from inferlab_adapters.openengine.revisions import Revision
from inferlab_adapters.openengine.state import ServerState

_REFUSALS = frozenset(
    {"unimplemented", "invalid_argument", "not_found", "failed_precondition", "not_ready"}
)
"""Faults that, before the first batch, say that there is no subscription."""


async def kv_events(
    state: ServerState,
    revision: Revision,
    ranks: Sequence[int],
    *,
    start: int,
    snapshot: bool,
) -> AsyncIterator[Any]:
    """The messages of a subscription; an error event is the last.

    Raises :class:`EngineFault` where there is none.
    """
    check_ranks(ranks, await state.facts())
    kind = revision.message("SubscribeKvEventsResponse")
    batches = state.engine.kv_events(tuple(ranks), start=start, snapshot=snapshot)
    last: dict[int, int] = {}
    begun = False
    try:
        async for batch in batches:
            begun = True
            if ranks and batch.rank not in ranks:
                continue
            if batch.sequence <= last.get(batch.rank, -1):
                what = f"the engine's events of rank {batch.rank} began again; subscribe again"
                raise EngineFault("internal", what, retryable=True)
            last[batch.rank] = batch.sequence
            yield _batch(kind, revision, batch)
        raise EngineFault("internal", "the engine publishes no more events", retryable=True)
    except EngineFault as fault:
        if not begun and fault.code in _REFUSALS:
            raise
        message = kind()
        fill_error(message.error, fault, revision)
        yield message
    except Exception as error:
        message = kind()
        fill_error(message.error, unexpected(error), revision)
        yield message
    finally:
        close = getattr(batches, "aclose", None)
        if close is not None:
            await close()


def _batch(kind: Any, revision: Revision, batch: KvBatch) -> Any:
    message = kind()
    made = message.batch
    made.SetInParent()
    made.sequence_number = batch.sequence
    made.timestamp_unix_nanos = batch.timestamp_ns
    made.data_parallel_rank = batch.rank
    for event in batch.events:
        _fill_event(made.events.add(), event, revision)
    return message


def _fill_event(message: Any, event: KvEvent, revision: Revision) -> None:
    if isinstance(event, BlocksStored):
        stored = message.block_stored
        stored.SetInParent()
        _fill_hashes(stored.block_hashes, event.hashes)
        if event.parent is not None:
            _fill_hash(stored.parent_block_hash, event.parent)
        stored.token_ids.extend(event.token_ids)
        stored.block_size = event.block_size
        stored.lora_id = event.lora_id or 0
        stored.lora_name = event.lora_name
        stored.medium = _medium(event.medium, revision)
        for values in event.extra_keys:
            stored.extra_keys.add(values=values)
        stored.group_idx = event.group
        stored.kv_cache_spec_kind = event.spec_kind
        stored.kv_cache_spec_sliding_window = event.sliding_window
    elif isinstance(event, BlocksRemoved):
        removed = message.block_removed
        removed.SetInParent()
        _fill_hashes(removed.block_hashes, event.hashes)
        removed.medium = _medium(event.medium, revision)
        removed.group_idx = event.group
    elif isinstance(event, BlocksCleared):
        message.all_blocks_cleared.SetInParent()


def _fill_hashes(messages: Any, hashes: Sequence[BlockHash]) -> None:
    for each in hashes:
        _fill_hash(messages.add(), each)


def _fill_hash(message: Any, found: BlockHash) -> None:
    message.value = found.value
    message.encoding = found.encoding


def _medium(medium: str, revision: Revision) -> int:
    name = f"STORAGE_MEDIUM_{(medium or 'unspecified').upper()}"
    return revision.enum("StorageMedium").Value(name)
