"""What all calls of one server share: the engine, its facts and state, requests, sessions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from inferlab_adapters.openengine.engine import (
    Engine,
    EngineFacts,
    EngineFault,
    HealthState,
    Role,
)
from inferlab_adapters.openengine.registry import Registry
from inferlab_adapters.openengine.sessions import IssuedSessions, SessionSeal

_log = logging.getLogger(__name__)


class ServerState:
    """The one thing that every RPC looks at.

    ``declared``: the state that a supervisor told; without one, it follows from whether the
    engine's facts can be read. ``draining``: no new request is taken, for good. ``readings``: how
    often the facts were read, each time of an engine that may be another one.
    """

    def __init__(self, engine: Engine, instance_id: str, session_key: bytes | None) -> None:
        self.engine = engine
        self.role: Role = engine.role
        self.instance_id = instance_id
        self.registry = Registry()
        self.seal = SessionSeal(session_key)
        self.issued = IssuedSessions()
        self.draining = False
        self.declared: HealthState | None = None
        self.reason = ""
        self.changed: Callable[[], None] = lambda: None
        self.readings = 0
        self._facts: EngineFacts | None = None
        self._reading = asyncio.Lock()

    @property
    def current(self) -> HealthState:
        """The state without asking the engine anything."""
        if self.declared in ("not_ready", "starting"):
            return self.declared
        if self.draining:
            return "draining"
        return self.declared or ("starting" if self._facts is None else "ready")

    def declare(self, state: HealthState, reason: str) -> None:
        """A supervisor knows more than the engine says."""
        if state == "draining":
            # What the engine is like stays as it is.
            self.draining = True
        else:
            if state in ("starting", "not_ready"):
                # Another engine may come up.
                self._facts = None
            self.declared = state
        self.reason = reason
        self.changed()

    def drain(self) -> None:
        """Take no new requests from now on."""
        self.draining = True
        self.changed()

    def check_up(self) -> None:
        """Raise ``not_ready`` where the engine is known to be away."""
        if self.declared in ("not_ready", "starting"):
            words = "is starting" if self.declared == "starting" else "is not ready"
            reason = f": {self.reason}" if self.reason else ""
            raise EngineFault("not_ready", f"the engine {words}{reason}", retryable=True)

    def check_taking(self) -> None:
        """Raise ``draining`` where no new request is taken."""
        if self.draining:
            what = "this server is draining; ask another one"
            raise EngineFault("draining", what, retryable=True)

    async def facts(self) -> EngineFacts:
        """What the engine is, asked until it is known. Raises ``not_ready``."""
        self.check_up()
        if self._facts is not None:
            return self._facts
        async with self._reading:
            if self._facts is None:
                self._facts = await self.engine.facts()
                self.readings += 1
                self.changed()
            return self._facts

    async def open_sessions(self) -> int | None:
        """How many KV sessions wait for their decode; ``None`` if unknown."""
        try:
            return await self.engine.open_sessions()
        except EngineFault:
            return None
