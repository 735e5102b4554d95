"""Whether OpenEngine servers are there, are who they should be, and generate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import grpc.aio
from grpc_health.v1 import (  # type: ignore[import-untyped, unused-ignore]
    health_pb2,
    health_pb2_grpc,
)

from inferlab_adapters.control import openengine_answers as answers
from inferlab_adapters.control.openengine_answers import NotSo
from inferlab_adapters.control.smoke_actions import ANSWER_SECONDS
from inferlab_adapters.control.smoke_openengine import Speaker
from inferlab_adapters.control.types import Json
from inferlab_adapters.openengine.conformance.wire import Call, Wire, channel, enum_name
from inferlab_adapters.openengine.revisions import REVISIONS

READY_SECONDS = 60.0
"""How long a server may take to know its engine, once that has answered HTTP."""

TOKENS = 8
"""How many tokens an answer may have."""

_POLL_SECONDS = 0.5
_READY = "HEALTH_STATE_READY"
_GRPC_HEALTH = "grpc.health.v1"
_DISCOVERY = {"seed": ("GetEngineInfo", "role"), "v0.1.0": ("GetServerInfo", "engine_role")}
"""By revision: the call that says who serves, and its field with the role."""


async def ask(speakers: Sequence[Speaker], *, model: str, prompt: str) -> tuple[Json, list[str]]:
    """Everything a smoke test asks: what was found, and what is wrong, a sentence each."""
    async with AsyncExitStack() as stack:
        servers = [
            _Server(one, await stack.enter_async_context(channel(one.address)), model, prompt)
            for one in speakers
        ]
        wrong = [why for why in await asyncio.gather(*(one.check() for one in servers)) if why]
        found: Json = {"replicas": {one.replica: one.found for one in servers}, "handoff": None}
        first = {one.role: one for one in reversed(servers)}
        prefill, decode = first.get("prefill"), first.get("decode")
        if prefill and decode and not wrong:
            try:
                found["handoff"] = await _handoff(prefill, decode)
            except NotSo as error:
                wrong.append(str(error))
        return found, wrong


async def _handoff(prefill: _Server, decode: _Server) -> Json:
    """One prompt, computed by one server and answered by another."""
    begun = time.monotonic()
    session = await prefill.prefill()
    tokens = await decode.generate(decode.wires["seed"], session)
    return {
        "prefill": prefill.replica,
        "decode": decode.replica,
        "seconds": round(time.monotonic() - begun, 3),
        "tokens": tokens,
    }


class _Server:
    """One server, asked in both revisions."""

    def __init__(
        self, speaker: Speaker, channel: grpc.aio.Channel, model: str, prompt: str
    ) -> None:
        self.replica = speaker.replica
        self.role = speaker.role
        self._instance = speaker.instance
        self._model = model
        self._prompt = prompt
        self._health = health_pb2_grpc.HealthStub(channel)
        self.wires = {
            name: Wire(channel, revision, speaker.address, timeout=ANSWER_SECONDS, seen=[])
            for name, revision in REVISIONS.items()
        }
        self.found: Json = {
            "address": speaker.address,
            "role": None,
            "instance_id": None,
            "health": {},
            "revisions": {},
            "generate": {},
            "seconds": None,
        }

    async def check(self) -> str:
        """Everything that one server can be asked alone; what is wrong, or nothing."""
        begun = time.monotonic()
        try:
            await self._wait_until_ready()
            for name, wire in self.wires.items():
                await self._discover(name, wire)
            if self.role == "aggregated":
                for name, wire in self.wires.items():
                    started = time.monotonic()
                    tokens = await self.generate(wire)
                    seconds = round(time.monotonic() - started, 3)
                    self.found["generate"][name] = {"tokens": tokens, "seconds": seconds}
        except NotSo as error:
            return str(error)
        finally:
            self.found["seconds"] = round(time.monotonic() - begun, 3)
        return ""

    async def generate(self, wire: Wire, session: Any = None) -> int:
        """Ask for an answer, of a prefill's session where one is given; its tokens."""
        call = await self._generate(wire, {} if session is None else {"kv": {"session": session}})
        try:
            return answers.tokens(call, limit=TOKENS)
        except NotSo as error:
            raise self._not(wire, f"Generate: {error}") from None

    async def prefill(self) -> Any:
        """Have a prompt computed; the session for a decode server."""
        wire = self.wires["seed"]
        call = await self._generate(wire, {})
        try:
            return answers.session(call)
        except NotSo as error:
            raise self._not(wire, f"Generate: {error}") from None

    async def _generate(self, wire: Wire, more: Json) -> Call:
        request = {
            "request_id": f"oe-smoke-{uuid4().hex}",
            "model": self._model,
            "prompt": self._prompt,
            "sampling": {"temperature": 0.0},
            "stopping": {"max_tokens": TOKENS},
            **more,
        }
        return self._answered(wire, await wire.stream("Generate", request))

    async def _wait_until_ready(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while why := await self._not_ready():
            if time.monotonic() > end:
                raise NotSo(f"{why}, {READY_SECONDS:g} s after its engine answered HTTP")
            await asyncio.sleep(_POLL_SECONDS)

    async def _not_ready(self) -> str:
        """Why it does not serve now; empty once it does."""
        for name, wire in self.wires.items():
            call = await wire.unary("Health")
            if not call.ok:
                return str(self._not(wire, answers.told(call)))
            state = enum_name(call.reply, "state")
            self.found["health"][name] = state
            if state != _READY:
                bad = "; ".join(
                    f"{check.name} {check.message}".strip()
                    for check in call.reply.checks
                    if enum_name(check, "state") != _READY
                )
                return str(self._not(wire, f"Health is {state} ({bad})"))
        return await self._not_serving()

    async def _not_serving(self) -> str:
        services = [service for wire in self.wires.values() for service in wire.revision.services]
        for service in ("", *services):
            request = health_pb2.HealthCheckRequest(service=service)
            asked = f"OpenEngine of {self.replica}: {_GRPC_HEALTH} Check of {service or 'all'}"
            try:
                reply = await self._health.Check(request, timeout=ANSWER_SECONDS)
            except grpc.aio.AioRpcError as error:
                return f"{asked} answered {error.code().name}: {error.details()}"
            state = enum_name(reply, "status")
            self.found["health"][_GRPC_HEALTH] = state
            if state != "SERVING":
                return f"{asked} is {state}"
        return ""

    async def _discover(self, name: str, wire: Wire) -> None:
        method, role_field = _DISCOVERY[name]
        info = self._answered(wire, await wire.unary(method)).reply
        self.found["role"] = role = enum_name(info, role_field).removeprefix("ENGINE_ROLE_").lower()
        self.found["instance_id"] = info.instance_id
        self.found["revisions"][name] = {
            "schema_revision": info.schema_revision,
            "minimum_client_revision": info.minimum_client_revision,
            "schema_release": info.schema_release,
        }
        known = wire.revision
        for what, seen, wanted in (
            ("role", role, self.role),
            ("instance_id", info.instance_id, self._instance),
            ("schema_revision", info.schema_revision, known.schema_revision),
            (
                "minimum_client_revision",
                info.minimum_client_revision,
                known.minimum_client_revision,
            ),
            ("schema_release", info.schema_release, known.schema_release),
        ):
            if seen != wanted:
                raise self._not(wire, f"{method} says {what} {seen!r}, not {wanted!r}")
        if self._model not in info.supported_models:
            models = ", ".join(info.supported_models) or "none"
            raise self._not(wire, f"{method} lists the models {models}, not {self._model}")
        call = self._answered(wire, await wire.unary("GetModelInfo", {"model": self._model}))
        if call.reply.served_model_name != self._model:
            told = f"GetModelInfo of {self._model} tells of {call.reply.served_model_name!r}"
            raise self._not(wire, told)

    def _answered(self, wire: Wire, call: Call) -> Call:
        if not call.ok:
            raise self._not(wire, answers.told(call))
        return call

    def _not(self, wire: Wire, what: str) -> NotSo:
        return NotSo(f"OpenEngine of {self.replica} ({wire.revision.name}): {what}")
