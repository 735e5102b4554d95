"""One engine and one server live together: started, watched and ended by the same process."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from inferlab_adapters.openengine.child import Child
from inferlab_adapters.openengine.engine import Engine, EngineFault, HealthState

_log = logging.getLogger(__name__)

_PASSED_ON = (
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2),
)
_STOPS = frozenset({signal.SIGTERM, signal.SIGINT})
_HARMLESS = frozenset({signal.SIGUSR1, signal.SIGUSR2})

_LOADING_PAUSE = 0.5
"""Seconds between two looks at an engine that is not up."""
_WATCH_PAUSE = 1.0
"""Seconds between two looks at one that is."""
_LOOK_LIMIT = 10.0
"""Seconds after which a look counts as failed."""
_LAST_WORDS = 2.0
"""Seconds for streams to take their terminal error once the engine is gone."""


class Gateway(Protocol):
    """What the supervisor needs of the gRPC server."""

    def set_state(self, state: HealthState, reason: str = "") -> None:
        """Answer Health, and new requests, accordingly."""
        ...

    async def stop(self, grace: float) -> None:
        """Accept nothing more; after ``grace`` seconds every stream has got its end."""
        ...


class Supervisor:
    """Runs beside a server that listens already, until the engine or the user ends it."""

    def __init__(
        self,
        engine: Engine,
        gateway: Gateway,
        *,
        argv: Sequence[str],
        grace: float,
        linger: float,
        told: Callable[[HealthState], None] = lambda state: None,
    ) -> None:
        """``argv`` empty: the engine is another's. ``told`` hears of every change of state."""
        self._engine = engine
        self._gateway = gateway
        self._argv = tuple(argv)
        self._grace = grace
        self._linger = linger
        self._told = told
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._by: int | None = None
        self._state: HealthState = "starting"
        self._reason = ""

    def catch_signals(self) -> None:
        """From here on signals are passed on. One that is ignored, as by nohup, stays so."""
        loop = asyncio.get_running_loop()
        for number in _PASSED_ON:
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            if self._argv or number not in _HARMLESS:
                loop.add_signal_handler(number, self._arrived, number)

    async def run(self) -> int:
        """Start the engine, live with it, end both; returns the exit code."""
        watch: asyncio.Task[None] | None = None
        try:
            # Somebody may have changed their mind since the signals were caught.
            if self._argv and not self._stopping.is_set():
                self._child = Child(self._argv)
                _log.info("engine started", extra={"pid": self._child.pid})
            watch = asyncio.create_task(self._watch())
            if self._child is None:
                return await self._attached()
            return await self._with(self._child)
        finally:
            if watch is not None:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch
            if self._child is not None and self._child.alive:
                self._child.signal(signal.SIGKILL)
                await self._child.ended()

    async def _attached(self) -> int:
        await self._stopping.wait()
        await self._gateway.stop(self._grace)
        # Without an engine of its own this is how a server ends that was asked to.
        return 128 + (self._by or 0) if self._argv else 0

    async def _with(self, child: Child) -> int:
        ended = asyncio.create_task(child.ended())
        asked = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            _, late = await asyncio.wait({ended}, timeout=self._grace)
            if late:
                _log.warning(
                    "engine did not end in time and is killed", extra={"grace_s": self._grace}
                )
                child.signal(signal.SIGKILL)
            code = await ended
            _log.info("engine ended", extra={"exit_code": code})
        else:
            code = await ended
            _log.error("engine ended by itself", extra={"exit_code": code})
            self._now("not_ready", f"the engine ended with exit code {code}")
            if self._linger:
                await asyncio.wait({asked}, timeout=self._linger)
        asked.cancel()
        await self._gateway.stop(_LAST_WORDS)
        return code

    async def _watch(self) -> None:
        """Follow the engine's state until it ends or is ended."""
        while not self._settled():
            state, reason = await self._look()
            # Much can happen during a look.
            if not self._settled():
                self._now(state, reason)
            await asyncio.sleep(_WATCH_PAUSE if state == "ready" else _LOADING_PAUSE)

    async def _look(self) -> tuple[HealthState, str]:
        lost: HealthState = "starting" if self._state == "starting" else "not_ready"
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                await self._engine.facts()
                checks = await self._engine.checks(False)
        except EngineFault as fault:
            # Waiting does not mend an engine that was started in a way that cannot serve.
            hopeless = fault.code in ("failed_precondition", "unimplemented")
            return "not_ready" if hopeless else lost, fault.message
        except TimeoutError:
            return lost, "the engine does not answer"
        except Exception:
            _log.exception("the engine's state cannot be read")
            return lost, "the engine's state cannot be read"
        for bad in ("not_ready", "starting", "degraded"):
            for check in checks:
                if check.state == bad:
                    found: HealthState = "degraded" if bad == "degraded" else lost
                    return found, f"{check.name}: {check.message}"
        return "ready", ""

    def _settled(self) -> bool:
        """Whether the engine's state is no longer a question."""
        return self._stopping.is_set() or (self._child is not None and not self._child.alive)

    def _now(self, state: HealthState, reason: str) -> None:
        if (state, reason) == (self._state, self._reason):
            return
        level = logging.WARNING if state in ("not_ready", "degraded") else logging.INFO
        fields = {"state": state, "reason": reason} if reason else {"state": state}
        _log.log(level, "engine state", extra=fields)
        if self._state == "not_ready" and state in ("ready", "degraded"):
            # It may have come back with another model: what was known of it is forgotten.
            self._gateway.set_state("starting", reason)
        self._state, self._reason = state, reason
        self._gateway.set_state(state, reason)
        self._told(state)

    def _arrived(self, number: int) -> None:
        child = self._child
        passed_on = child is not None and child.alive
        _log.info("signal", extra={"signal": signal.Signals(number).name, "passed_on": passed_on})
        if child is not None:
            child.signal(number)
        if number in _STOPS or (not passed_on and number not in _HARMLESS):
            self._by = self._by or number
            if not self._stopping.is_set():
                self._stopping.set()
                self._now("draining", f"stopped by {signal.Signals(number).name}")
