"""The prefix cache, as the usage shows it."""

from __future__ import annotations

import random
from typing import Any

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto

_BLOCKS = 4
_BLOCK = 16
_LONGEST = 2048
_IDS = (11, 90)


@check("O20")
async def bypass(s: Subject) -> None:
    if not s.generation.supports_prefix_cache_bypass:
        raise Skip("passing by the prefix cache is not advertised")
    await _need_hits(s)
    ids = _prompt(s)
    past = {"bypass_prefix_cache": True}
    await _cached(s, ids, past)
    normal = await _cached(s, ids, {})
    again = await _cached(s, ids, past)
    if again:
        raise Broken(f"{again} cached tokens were used past the cache")
    if not normal:
        raise Broken("a request past the cache did not fill it")


@check("O21")
async def salts(s: Subject) -> None:
    if not s.generation.supports_cache_salt:
        raise Skip("cache salts are not advertised")
    await _need_hits(s)
    ids = _prompt(s)
    hits = [await _cached(s, ids, {"cache_salt": salt}) for salt in ("a", "a", "b")]
    if hits[2]:
        raise Broken(f"another salt used {hits[2]} cached tokens")
    if not hits[1]:
        raise Broken("the same salt used no cached token")


async def _need_hits(s: Subject) -> None:
    if s.role == "decode":
        raise Skip("needs a server that computes prompts")
    if not s.takes_ids:
        raise Skip("needs prompts of token ids")
    ids = _prompt(s)
    await _cached(s, ids, {})
    if not await _cached(s, ids, {}):
        raise Skip("the same prompt twice shows no cached tokens")


def _prompt(s: Subject) -> list[int]:
    """Some blocks of tokens that no request ever had."""
    capacity: Proto = s.capacity
    block = capacity.kv_block_size if capacity.HasField("kv_block_size") else _BLOCK
    count = min(_BLOCKS * (block or _BLOCK), _LONGEST, s.max_output) + 1
    return [random.randint(*_IDS) for _ in range(count)]


async def _cached(s: Subject, ids: list[int], kv: dict[str, Any]) -> int:
    call = await s.served({"token_ids": {"ids": ids}, **({"kv": kv} if kv else {})}, ids=True)
    return int(call.reply.usage.cached_prompt_tokens)
