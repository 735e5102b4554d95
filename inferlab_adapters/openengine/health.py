"""Health: what the engine, the server and a supervisor say, and the worst of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from inferlab_adapters.openengine.engine import Check, EngineFault, HealthState
from inferlab_adapters.openengine.errors import unexpected
from inferlab_adapters.openengine.requests import find_model
from inferlab_adapters.openengine.revisions import Revision
from inferlab_adapters.openengine.state import ServerState

CHECK_SECONDS = 10.0
PROBE_SECONDS = 60.0
"""How long the engine may take to tell its health, and to infer one token."""

_WORST_FIRST: tuple[HealthState, ...] = (
    "not_ready",
    "starting",
    "draining",
    "degraded",
    "ready",
)


class Health:
    """Makes the HealthResponse of one revision."""

    def __init__(self, state: ServerState, revision: Revision) -> None:
        self._state = state
        self._revision = revision

    async def report(self, probe: bool, model: str, role: int) -> Any:
        """HealthResponse: the worst of all checks is the server's state."""
        checks = [Check(name="grpc", state="ready"), *await self._checks(probe, model, role)]
        if self._state.draining:
            checks.append(Check(name="drain", state="draining", message=self._state.reason))
        states = {check.state for check in checks}
        message = self._revision.message("HealthResponse")()
        message.state = self._health(next(state for state in _WORST_FIRST if state in states))
        for check in checks:
            state = self._health(check.state)
            message.checks.add(name=check.name, state=state, message=check.message)
        return message

    def _health(self, state: HealthState) -> int:
        # v0.1.0 has no state for a server that takes nothing new.
        values = self._revision.enum("HealthState")
        known = f"HEALTH_STATE_{state.upper()}"
        return values.Value(known if known in values.keys() else "HEALTH_STATE_NOT_READY")  # noqa: SIM118

    async def _checks(self, probe: bool, model: str, role: int) -> list[Check]:
        state = self._state
        try:
            facts = await state.facts()
        except EngineFault as fault:
            away: HealthState = state.declared or "starting"
            away = "starting" if away in ("ready", "degraded") else away
            return [Check(name="engine", state=away, message=fault.message)]
        checks = list(await _asked(state, probe))
        if state.declared == "degraded":
            checks.append(Check(name="supervisor", state="degraded", message=state.reason))
        if model:
            try:
                find_model(model, facts)
                checks.append(Check(name="model", state="ready"))
            except EngineFault as fault:
                checks.append(Check(name="model", state="not_ready", message=fault.message))
        roles = dict(self._revision.enum("EngineRole").items())
        mine = roles[f"ENGINE_ROLE_{state.role.value.upper()}"]
        if role and role in roles.values():
            same = role == mine
            words = "" if same else f"this server's role is {state.role.value}"
            checks.append(Check(name="role", state="ready" if same else "not_ready", message=words))
        return checks


async def _asked(state: ServerState, probe: bool) -> Sequence[Check]:
    """The engine's own checks; one that does not answer is not ready."""
    try:
        async with asyncio.timeout(PROBE_SECONDS if probe else CHECK_SECONDS):
            checks = await state.engine.checks(probe)
    except TimeoutError:
        return (Check(name="engine", state="not_ready", message="the engine does not answer"),)
    except Exception as error:
        fault = error if isinstance(error, EngineFault) else unexpected(error)
        return (Check(name="engine", state="not_ready", message=fault.message),)
    return checks
