"""Load: what is reported, and that it is measured."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import answer, must_answer
from inferlab_adapters.openengine.conformance.checks.running import Running, becomes
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip, TooFast
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Proto

_REQUESTS = 2
EXACT = 2.0**53


@check("L1", needs="decode")
async def load_is_real(s: Subject) -> None:
    idle = must_answer(await s.wire.unary("GetLoad"))
    if idle.HasField("used_kv_blocks") and idle.HasField("total_kv_blocks"):
        used, total = idle.used_kv_blocks, idle.total_kv_blocks
        if used > total:
            raise Broken(f"{used} KV blocks are used of {total}")
    if not idle.HasField("running_requests"):
        raise Skip("running_requests is not reported")
    running: list[Running] = []
    highest = 0

    async def counted() -> bool:
        nonlocal highest
        busy = answer(await s.wire.unary("GetLoad"))
        highest = max(highest, busy.running_requests + busy.queued_requests)
        return highest >= _REQUESTS or any(request.ended for request in running)

    try:
        for _ in range(_REQUESTS):
            running.append(await Running.start(s))
        known = await becomes(s, counted)
    finally:
        for request in running:
            await request.stop()
    if highest < _REQUESTS:
        if known:
            raise TooFast
        raise Broken(f"{_REQUESTS} requests run, and the load counts {highest}")


@check("L2")
async def ranks(s: Subject) -> None:
    must_answer(await s.wire.unary("GetLoad"))
    reply = must_answer(await s.wire.unary("GetLoad", {"include_per_rank": True}))
    if not reply.ranks:
        raise Skip("the server reports no load of ranks")
    for rank in reply.ranks:
        if not rank.HasField("data_parallel_rank"):
            raise Broken("the load of a rank does not say which rank")


@check("L3")
async def instance(s: Subject) -> None:
    reply = answer(await s.wire.unary("GetLoad"))
    if reply.instance_id != s.info.instance_id:
        raise Broken(f"load is of {reply.instance_id!r}, discovery says {s.info.instance_id!r}")


@check("L4")
async def attributes(s: Subject) -> None:
    reply = answer(await s.wire.unary("GetLoad"))
    if not reply.attributes.fields:
        raise Skip("the load has no attributes")
    for name, value in reply.attributes.fields.items():
        if large_number(value):
            raise Broken(f"attribute {name} is a number beyond 2**53, not a string")
        if value.WhichOneof("kind") == "string_value" and _short_number(value.string_value):
            raise Broken(f"attribute {name} is the string {value.string_value!r}, not a number")


def _short_number(text: str) -> bool:
    try:
        return abs(float(text)) <= EXACT
    except ValueError:
        return False


def large_number(value: Proto) -> bool:
    """Whether a Struct value holds a number that a double may have changed."""
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return bool(abs(value.number_value) > EXACT)
    if kind == "list_value":
        return any(large_number(one) for one in value.list_value.values)
    if kind == "struct_value":
        return any(large_number(one) for one in value.struct_value.fields.values())
    return False
