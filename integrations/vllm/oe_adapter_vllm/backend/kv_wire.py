"""vLLM's KV event batches as neutral ones.

Source (vLLM 0.32.0): distributed/kv_events.py. Seen on the wire: frames topic, 8-byte big-endian
sequence number, msgpack ``[seconds, [events], rank]``; events are maps with ``type``; a block hash
is an unsigned 64-bit integer or bytes. ``lora_id`` there is vLLM's own number, which no client
knows; the adapter's name is passed on instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from inferlab_adapters.openengine.engine import (
    BlockHash,
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    EngineFault,
    KvBatch,
    KvEvent,
)

Medium: TypeAlias = Literal["gpu", "cpu_pinned", "disk", "external", ""]

_MEDIA: dict[str, Medium] = {"GPU": "gpu", "CPU": "cpu_pinned", "STORAGE": "disk"}


class _Stored(msgspec.Struct, tag="BlockStored"):
    block_hashes: list[int | bytes]
    token_ids: list[int]
    block_size: int
    parent_block_hash: int | bytes | None = None
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class _Removed(msgspec.Struct, tag="BlockRemoved"):
    block_hashes: list[int | bytes]
    medium: str | None = None
    group_idx: int | None = None


class _Cleared(msgspec.Struct, tag="AllBlocksCleared"):
    pass


class _Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[_Stored | _Removed | _Cleared]
    data_parallel_rank: int | None = None


_batch = msgspec.msgpack.Decoder(_Batch)


def batch(sequence: int, payload: bytes, rank: int) -> KvBatch:
    """One batch; ``rank`` is used where it names none. Raises ``internal`` for other bytes."""
    try:
        read = _batch.decode(payload)
    except msgspec.MsgspecError as error:
        what = f"vLLM published a KV event of another shape: {error}"
        raise EngineFault("internal", what) from error
    named = read.data_parallel_rank
    return KvBatch(
        sequence,
        round(read.ts * 1_000_000_000),
        rank if named is None else named,
        [_event(event) for event in read.events],
    )


def _event(event: _Stored | _Removed | _Cleared) -> KvEvent:
    if isinstance(event, _Removed):
        hashes = [_hash(value) for value in event.block_hashes]
        return BlocksRemoved(hashes, _medium(event.medium), event.group_idx or 0)
    if isinstance(event, _Cleared):
        return BlocksCleared()
    parent = event.parent_block_hash
    return BlocksStored(
        [_hash(value) for value in event.block_hashes],
        None if parent is None else _hash(parent),
        event.token_ids,
        event.block_size,
        lora_name=event.lora_name or "",
        medium=_medium(event.medium),
        extra_keys=_extra(event.extra_keys),
        group=event.group_idx or 0,
        spec_kind=event.kv_cache_spec_kind or "",
        sliding_window=event.kv_cache_spec_sliding_window or 0,
    )


def _hash(value: int | bytes) -> BlockHash:
    if isinstance(value, bytes):
        return BlockHash(value, "bytes")
    # The same 64 bits, whether read with a sign or without.
    return BlockHash((value & (2**64 - 1)).to_bytes(8, "big"), "int64")


def _medium(name: str | None) -> Medium:
    return _MEDIA.get(name, "external") if name else ""


def _extra(keys: Sequence[Sequence[Any] | None] | None) -> tuple[tuple[str, ...], ...]:
    if keys is None:
        return ()
    return tuple(tuple(map(_key, block or ())) for block in keys)


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    # For example a media item's identifier and offset.
    return msgspec.json.encode(value).decode()
