"""The server under test: what it says of itself, and requests that fit it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from inferlab_adapters.openengine.conformance.outcome import Skip
from inferlab_adapters.openengine.conformance.wire import (
    Call,
    Expect,
    Metadata,
    Proto,
    Stream,
    Wire,
    enum_name,
)

PROMPT = "Once upon a time there was a"
TOKEN_IDS = (11, 12, 13, 14, 15, 16, 17, 18)
MAX_TOKENS = 8
_LONG = 4096
_ATTEMPTS = 3
# What a KV cache depends on.
_PROMPT_FIELDS = ("prompt", "token_ids", "lora_name")

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """What the person who asks lets us do.

    ``drain``: leave the server drained, so that it must be started again. ``lora``: the folder of
    an adapter that the server sees.
    """

    drain: bool = False
    lora: str = ""


@dataclass(kw_only=True, slots=True)
class Subject:
    """A server in one revision. ``peer`` is the other side of a prefill and decode pair.

    ``drain_health`` is what Health said while the server drained.
    """

    wire: Wire
    info: Proto
    model: str
    model_info: Proto
    seen: list[Call]
    peer: Wire | None = None
    allowed: Allowed = field(default_factory=Allowed)
    drain_health: Call | None = None
    _count: int = 0
    _name: str = field(default_factory=lambda: f"conformance-{secrets.token_hex(4)}")

    @property
    def soon(self) -> float:
        """Within so many seconds happens what needs no work."""
        return self.wire.timeout / 10

    @property
    def seed(self) -> bool:
        return self.wire.revision.name == "seed"

    @property
    def role(self) -> str:
        """aggregated, prefill, decode or unspecified."""
        name = enum_name(self.info, "role" if self.seed else "engine_role")
        return name.removeprefix("ENGINE_ROLE_").lower()

    @property
    def decodes(self) -> bool:
        return self.role != "prefill"

    @property
    def takes_ids(self) -> bool:
        """Whether prompts may be token ids; unless discovery denies it, they may."""
        facts = self.model_info
        return bool(
            facts.supports_token_ids_input or not facts.HasField("supports_token_ids_input")
        )

    @property
    def generation(self) -> Proto:
        """What discovery says of generation; every field absent where it says nothing."""
        return self.model_info.generation

    @property
    def capacity(self) -> Proto:
        """Where block size, blocks and request ceilings are."""
        return self.model_info if self.seed else self.info.capacity

    @property
    def max_output(self) -> int:
        """How many tokens an output may have, with room for our prompts."""
        facts = self.model_info
        limits = [_LONG]
        if facts.HasField("max_context_length") and facts.max_context_length:
            limits.append(facts.max_context_length - 64)
        if facts.HasField("max_output_tokens") and facts.max_output_tokens:
            limits.append(facts.max_output_tokens)
        return max(MAX_TOKENS, min(limits))

    def new_id(self) -> str:
        """A request id that was never used."""
        self._count += 1
        return f"{self._name}-{self._count}"

    def plain(self, changes: Json | None = None) -> dict[str, Any]:
        """A greedy request of 8 tokens, with ``changes`` laid over it; ``None`` leaves one out."""
        data: dict[str, Any] = {
            "request_id": self.new_id(),
            "model": self.model,
            "sampling": {"temperature": 0.0},
            "stopping": {"max_tokens": MAX_TOKENS, "ignore_eos": True},
        }
        facts = self.model_info
        if facts.HasField("supports_text_input") and not facts.supports_text_input:
            data["token_ids"] = {"ids": list(TOKEN_IDS)}
        else:
            data["prompt"] = PROMPT
        return _laid_over(data, changes or {})

    def with_ids(self, changes: Json | None = None) -> dict[str, Any]:
        """The same with token ids as its input."""
        return self.plain(
            {"prompt": None, "token_ids": {"ids": list(TOKEN_IDS)}, **(changes or {})}
        )

    def long(self, changes: Json | None = None) -> dict[str, Any]:
        """The same, as long as the server allows."""
        limit = {"stopping": {"max_tokens": self.max_output, "min_tokens": self.max_output}}
        return _laid_over(self.plain(limit), changes or {})

    async def open(
        self,
        data: Json,
        *,
        expect: Expect = "any",
        metadata: Metadata = (),
        timeout: float | None = None,
    ) -> Stream:
        """Send a Generate request; to a decode server with a session of its own.

        Raises :class:`Skip` for a decode server without a prefill server beside it.
        """
        if self.role == "decode" and "session" not in data.get("kv", {}):
            session = await self.session({} if expect == "refused" else data)
            message = self.wire.message("GenerateRequest", data)
            message.kv.session.CopyFrom(session)
            return self.wire.open(
                "Generate", message, expect=expect, metadata=metadata, timeout=timeout
            )
        return self.wire.open("Generate", data, expect=expect, metadata=metadata, timeout=timeout)

    async def generate(
        self, data: Json, *, expect: Expect = "any", metadata: Metadata = ()
    ) -> Call:
        """Send a Generate request and read all that comes."""
        return await (await self.open(data, expect=expect, metadata=metadata)).rest()

    async def served(self, changes: Json | None = None, *, ids: bool = False) -> Call:
        """A Generate request that ended well; tried again where the engine failed.

        Raises :class:`Skip` where it never did: whether that is a fault is for another check.
        """
        call = None
        for _ in range(_ATTEMPTS):
            data = self.with_ids(changes) if ids else self.plain(changes)
            call = await self.generate(data, expect="served")
            if call.ok and call.messages and call.error is None:
                return call
        raise Skip(f"the request that it needs was not served: {call.told() if call else ''}")

    async def session(self, data: Json | None = None) -> Proto:
        """A KV session of the prefill side, with the prompt of ``data``. May raise Skip."""
        wire = self.prefill_side
        if wire is None:
            raise Skip("needs a prefill server beside it: --peer")
        prompt = {key: data[key] for key in _PROMPT_FIELDS if key in data} if data else {}
        if prompt:
            prompt = {"prompt": None, "token_ids": None, **prompt}
        call = await wire.stream("Generate", self.plain(prompt))
        for message in call.messages:
            if message.HasField("prefill_ready"):
                return message.prefill_ready.kv_session
        raise Skip(f"the prefill server gave no session: {call.told()}")

    @property
    def prefill_side(self) -> Wire | None:
        return self.wire if self.role == "prefill" else self.peer

    @property
    def decode_side(self) -> Wire | None:
        return self.wire if self.role == "decode" else self.peer


def _laid_over(data: Mapping[str, Any], changes: Json) -> dict[str, Any]:
    made = dict(data)
    for key, value in changes.items():
        if value is None:
            made.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(made.get(key), Mapping):
            made[key] = _laid_over(made[key], value)
        else:
            made[key] = value
    return made
