"""The adapters that are loaded, and the rules of loading them."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Collection, Mapping
from itertools import count
from typing import TYPE_CHECKING

from inferlab_adapters.errors import did_you_mean, shown
from inferlab_adapters.openengine.engine import EngineFacts, EngineFault, Lora
from inferlab_adapters.openengine.errors import invalid

if TYPE_CHECKING:
    from inferlab_adapters.openengine.state import ServerState


class Loras:
    """What the engine had when its facts were read and what was loaded since, by name.

    One change at a time. An adapter that the engine had by itself gets the lowest free id.
    """

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._loaded: dict[str, Lora] = {}
        self._changing = asyncio.Lock()
        self._reading = 0

    async def names(self) -> Collection[str]:
        """The names that requests may use."""
        facts = await self._state.facts()
        if self._reading != self._state.readings:
            async with self._changing:
                await self._follow(facts)
        return self._loaded.keys()

    async def all(self) -> tuple[Lora, ...]:
        """Every adapter, in the order of loading. Raises ``failed_precondition`` without LoRA."""
        await self._enabled()
        await self.names()
        return tuple(self._loaded.values())

    async def _follow(self, facts: EngineFacts) -> None:
        """Where the facts are new, so may the engine be: ask it what it has."""
        reading = self._state.readings
        if reading == self._reading:
            return
        found: Mapping[str, str] = {}
        if any(model.abilities.lora for model in facts.models):
            found = await self._state.engine.list_loras()
        known = self._loaded
        kept = {
            name: lora
            for name, lora in known.items()
            if name in found and posixpath.normpath(found[name]) == posixpath.normpath(lora.path)
        }
        free = (i for i in count(1) if all(i != lora.lora_id for lora in kept.values()))
        self._loaded = {
            name: kept.get(name) or Lora(lora_id=next(free), name=name, path=path)
            for name, path in found.items()
        }
        self._reading = reading

    async def load(self, lora: Lora) -> bool:
        """Load an adapter; whether it was there already, just so.

        Raises ``invalid_argument``, ``already_exists`` where its id, name or path is another's,
        ``overloaded`` where there is no room, ``failed_precondition`` without LoRA.
        """
        facts = await self._enabled()
        _check(lora, facts)
        async with self._changing:
            await self._follow(facts)
            if lora in self._loaded.values():
                return True
            for other in self._loaded.values():
                _check_apart(lora, other)
            if facts.max_loras is not None and len(self._loaded) >= facts.max_loras:
                what = f"{facts.max_loras} adapters are loaded, which is the most; unload one"
                raise EngineFault("overloaded", f"adapter: {what}")
            await self._state.engine.load_lora(lora)
            self._loaded[lora.name] = lora
            return False

    async def unload(self, name: str) -> Lora:
        """Unload an adapter. Raises ``not_found``, or ``failed_precondition`` without LoRA."""
        facts = await self._enabled()
        if not name:
            raise invalid("lora_name: is empty; name the adapter")
        async with self._changing:
            await self._follow(facts)
            lora = self._loaded.get(name)
            if lora is None:
                hint = did_you_mean(name, list(self._loaded)) or "ListLoras tells what is"
                raise EngineFault("not_found", f"lora_name: {shown(name)} is not loaded; {hint}")
            # Requests from now on do without it, whatever the engine makes of this one.
            del self._loaded[name]
            try:
                await self._state.engine.unload_lora(lora)
            except EngineFault as fault:
                if fault.code != "not_found":
                    self._loaded[name] = lora
                raise
            return lora

    async def _enabled(self) -> EngineFacts:
        facts = await self._state.facts()
        if not any(model.abilities.lora for model in facts.models):
            raise EngineFault("failed_precondition", "this server runs without LoRA")
        return facts


def _check(lora: Lora, facts: EngineFacts) -> None:
    if lora.lora_id <= 0:
        raise invalid(f"adapter.lora_id: must be above 0 ({lora.lora_id})")
    if not lora.name:
        raise invalid("adapter.lora_name: is empty; give the adapter a name")
    if not lora.name.isprintable():
        raise invalid(f"adapter.lora_name: {shown(lora.name)} cannot be printed")
    if any(lora.name in model.names for model in facts.models):
        raise EngineFault("already_exists", f"adapter.lora_name: {shown(lora.name)} is a model")
    if not posixpath.isabs(lora.path) or "\0" in lora.path:
        what = f"{shown(lora.path)} is no absolute path; give the folder as the engine sees it"
        raise invalid(f"adapter.source_path: {what}")


def _check_apart(lora: Lora, other: Lora) -> None:
    for field, mine, theirs in (
        ("lora_id", lora.lora_id, other.lora_id),
        ("lora_name", lora.name, other.name),
        ("source_path", posixpath.normpath(lora.path), posixpath.normpath(other.path)),
    ):
        if mine == theirs:
            what = f"{shown(mine)} is that of the adapter {shown(other.name)}"
            raise EngineFault("already_exists", f"adapter.{field}: {what}; unload that one first")
