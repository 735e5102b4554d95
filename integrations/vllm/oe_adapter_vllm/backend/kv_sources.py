"""Where vLLM publishes its KV events.

Seen on a running server of vLLM 0.32.0: ``GET /kv_event_sources`` has one entry a data parallel
rank, with the ports that it really uses; it is empty where no events are published.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from inferlab_adapters.openengine.engine import Endpoint, KvEventSource
from oe_adapter_vllm.backend.http import Http
from oe_adapter_vllm.backend.kv_params import WILDCARDS

_ADDRESS = re.compile(r"tcp://(?P<host>.+):(?P<port>\d+)")


class _Config(msgspec.Struct):
    publisher: str = ""
    endpoint: str = ""
    replay_endpoint: str | None = None
    buffer_steps: int | None = None
    hwm: int | None = None
    max_queue_size: int | None = None
    topic: str = ""


@dataclass(frozen=True, slots=True)
class EventRank:
    """The publisher of one data parallel rank; ``replay`` is empty where it replays nothing."""

    rank: int
    endpoint: Endpoint
    replay: str
    topic: str
    config: _Config


async def ranks_of(http: Http) -> list[EventRank]:
    """The publishers whose addresses can be reached, by rank."""
    content = await http.get("/kv_event_sources")
    configs = msgspec.json.decode(content, type=dict[str, _Config])
    host = urlsplit(http.url).hostname or ""
    found = []
    for rank, config in sorted(configs.items(), key=lambda item: int(item[0])):
        endpoint = _reachable(config.endpoint, host)
        if config.publisher != "zmq" or endpoint is None:
            continue
        replay = _reachable(config.replay_endpoint or "", host)
        found.append(
            EventRank(int(rank), endpoint, uri(replay) if replay else "", config.topic, config)
        )
    return found


def _reachable(address: str, host: str) -> Endpoint | None:
    """What a client connects to; a wildcard is the host where vLLM's HTTP is."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    named = host if found["host"] in WILDCARDS else found["host"].strip("[]")
    return Endpoint(host=named, port=int(found["port"]), protocol="tcp") if named else None


def uri(endpoint: Endpoint) -> str:
    """What ZeroMQ connects to."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"tcp://{host}:{endpoint.port}"


async def sources(http: Http) -> list[KvEventSource]:
    """Where vLLM publishes its KV events; empty if nowhere."""
    return [
        KvEventSource(
            transport="zmq",
            endpoint=rank.endpoint,
            topic=rank.topic,
            replay_endpoint=rank.replay,
            data_parallel_rank=rank.rank,
            encoding="msgpack",
            buffer_steps=rank.config.buffer_steps,
            hwm=rank.config.hwm,
            max_queue_size=rank.config.max_queue_size,
        )
        for rank in await ranks_of(http)
    ]
