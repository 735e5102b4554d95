"""Release v0.1.0: the services Inference and Control; priority and rank come as metadata."""

from __future__ import annotations

from typing import Any

from inferlab_adapters.openengine import metadata
from inferlab_adapters.openengine.discovery import capacity, put
from inferlab_adapters.openengine.errors import invalid
from inferlab_adapters.openengine.face import Face, Unary
from inferlab_adapters.openengine.lora import Loras
from inferlab_adapters.openengine.revisions import V0_1_0
from inferlab_adapters.openengine.state import ServerState


class ReleaseFace(Face):
    """``openengine.v1.Inference`` and ``openengine.v1.Control``."""

    def __init__(self, state: ServerState, loras: Loras) -> None:
        super().__init__(state, loras, V0_1_0, _routing)

    @property
    def unary(self) -> dict[str, Unary]:
        return {**super().unary, "GetServerInfo": self._server_info}

    async def _server_info(self, request: Any) -> Any:
        reply = V0_1_0.message("ServerInfo")()
        facts = await self.state.facts()
        self.discovery.fill_identity(reply, facts, "engine_role")
        reply.capacity.SetInParent()
        put(reply.capacity, **capacity(facts))
        return reply


def _routing(message: Any, context: Any) -> metadata.Routing:
    found = metadata.routing(context.invocation_metadata() or ())
    rank = found.dp_rank
    if rank is not None and message.kv.HasField("session"):
        bound = message.kv.session.dp_rank
        if rank != bound:
            what = f"{rank} is not the session's rank {bound}; leave it out"
            raise invalid(f"{found.rank_field}: {what}")
    return found
