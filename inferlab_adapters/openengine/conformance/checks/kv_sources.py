"""The connector, and where KV events can be had."""

from __future__ import annotations

from inferlab_adapters.addresses import host_problem
from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import must_answer, serves
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto


@check("K1")
async def one_connector(s: Subject) -> None:
    call = await s.wire.unary("GetKvConnectorInfo")
    if not s.info.HasField("kv_connector"):
        if call.ok and call.reply.enabled:
            raise Broken("a connector is enabled that discovery does not report")
        return
    if must_answer(call) != s.info.kv_connector:
        raise Broken(f"discovery says {s.info.kv_connector}, its own call {call.reply}")


@check("K2")
async def sources_can_be_reached(s: Subject) -> None:
    for source in await _sources(s):
        problem = host_problem(source.endpoint_addr.host)
        if problem is not None:
            raise Broken(f"an event source: {problem[0]}")
        if not 0 < source.endpoint_addr.port < 1 << 16:
            raise Broken(f"an event source has the port {source.endpoint_addr.port}")


@check("K3")
async def sources_by_rank(s: Subject) -> None:
    sources = await _sources(s)
    for source in sources:
        if not source.HasField("data_parallel_rank"):
            raise Broken("an event source does not say its rank")
    rank = sources[0].data_parallel_rank
    chosen = await _sources(s, rank)
    others = [one.data_parallel_rank for one in chosen if one.data_parallel_rank != rank]
    if others:
        raise Broken(f"rank {rank} was asked for, came {others[0]} too")
    if len(chosen) != sum(one.data_parallel_rank == rank for one in sources):
        raise Broken(f"rank {rank} has other sources when asked for alone")


async def _sources(s: Subject, *ranks: int) -> list[Proto]:
    call = await s.wire.unary("GetKvEventSources", {"data_parallel_ranks": list(ranks)})
    serves(call, "event sources")
    found = list(must_answer(call).sources)
    if not found and not ranks:
        raise Skip("the server reports no event source")
    return found
