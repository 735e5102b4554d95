"""The seed revision: one service, with drain, tasks and runtime events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from inferlab_adapters.openengine import tasks
from inferlab_adapters.openengine.discovery import fill_connector
from inferlab_adapters.openengine.drain import Progress, Unfinished, drain
from inferlab_adapters.openengine.engine import EngineFault
from inferlab_adapters.openengine.errors import fill_error, unexpected
from inferlab_adapters.openengine.face import Face, Streaming, Unary
from inferlab_adapters.openengine.lora import Loras
from inferlab_adapters.openengine.metadata import Routing
from inferlab_adapters.openengine.request_options import optional
from inferlab_adapters.openengine.revisions import SEED
from inferlab_adapters.openengine.state import ServerState


class SeedFace(Face):
    """``openengine.v1.OpenEngine``."""

    def __init__(self, state: ServerState, loras: Loras) -> None:
        super().__init__(state, loras, SEED, _routing)

    @property
    def unary(self) -> dict[str, Unary]:
        return {
            **super().unary,
            "GetEngineInfo": self._engine_info,
            "GetKvConnectorInfo": self._connector_info,
            "Embed": self._embed,
            "Classify": self._classify,
            "Score": self._score,
        }

    @property
    def streaming(self) -> dict[str, Streaming]:
        return {
            **super().streaming,
            "Drain": self._drain,
            "SubscribeRuntimeEvents": _runtime_events,
        }

    async def _engine_info(self, request: Any) -> Any:
        reply = SEED.message("EngineInfo")()
        self.discovery.fill_identity(reply, await self.state.facts(), "role")
        return reply

    async def _connector_info(self, request: Any) -> Any:
        reply = SEED.message("KvConnectorInfo")()
        fill_connector(reply, (await self.state.facts()).connector)
        return reply

    async def _embed(self, request: Any) -> Any:
        tasks.embed(request, await self.state.facts())

    async def _classify(self, request: Any) -> Any:
        tasks.classify(request, await self.state.facts())

    async def _score(self, request: Any) -> Any:
        tasks.score(request, await self.state.facts())

    async def _drain(self, request: Any) -> AsyncIterator[Any]:
        progress = drain(
            self.state,
            stop_accepting=request.stop_accepting_new_requests,
            deadline_ms=optional(request, "deadline_ms"),
            abort=request.abort_after_deadline,
        )
        begun = False
        try:
            async for step in progress:
                begun = True
                reply = _counts(step)
                reply.state = SEED.enum("DrainState").Value(f"DRAIN_STATE_{step.state.upper()}")
                yield reply
        except EngineFault as fault:
            reply = _counts(fault.left) if isinstance(fault, Unfinished) else _response()
            fill_error(reply.error, fault, SEED)
            yield reply
        except Exception as error:
            if not begun:
                raise
            reply = _response()
            fill_error(reply.error, unexpected(error), SEED)
            yield reply
        finally:
            await progress.aclose()


def _routing(message: Any, context: Any) -> Routing:
    return Routing(optional(message, "priority"), optional(message.kv, "data_parallel_rank"))


def _response() -> Any:
    return SEED.message("DrainResponse")()


def _counts(step: Progress) -> Any:
    reply = _response()
    reply.in_flight_requests = step.requests
    if step.sessions is not None:
        reply.open_kv_sessions = step.sessions
    return reply


async def _runtime_events(request: Any) -> AsyncIterator[Any]:
    raise EngineFault("unimplemented", "this server has no runtime events; use GetLoad")
    yield
