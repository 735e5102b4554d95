"""What else the vLLM backend does on real servers: aborts, LoRA, KV events, prefill and decode."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from oe_adapter_vllm.engine import create

from inferlab_adapters.openengine.engine import (
    BlocksStored,
    Event,
    KvBatch,
    KvSession,
    Lora,
    PrefillDone,
    Returned,
    Role,
    Sampling,
)
from inferlab_adapters.openengine.structs import settled
from tests.openengine.vllm.tiny_lora import write_adapter
from tests.smoke.openengine_vllm_support import (
    CONSUMER,
    PRODUCER,
    Servers,
    asking,
    check,
    fault,
    refused,
    told,
)


@check
async def aborts(servers: Servers) -> None:
    prompted = Returned(prompt_logprobs=True)
    for port, returned in ((PRODUCER, Returned()), (CONSUMER, prompted)):
        async with servers.engine(port=port) as engine:
            # So many that they take longer than the second in which a refusal may come.
            many = Sampling(temperature=1.0, num_sequences=100)
            request = asking(count=250, sampling=many, returned=returned)
            generation = await engine.accept(request)

            async def read(generation: Any = generation) -> list[Event]:
                return [event async for event in generation]

            reading = asyncio.ensure_future(read())
            await asyncio.sleep(0.1)
            assert not reading.done()
            await generation.close()
            await generation.close()
            assert await fault(reading) == "cancelled"
    async with servers.engine() as engine:
        for _ in range(50):
            load = await engine.load(True)
            if load.running == 0:
                break
            await asyncio.sleep(0.1)
        assert (load.running, load.queued, load.ranks[0].running) == (0, 0, 0)
        assert load.total_kv_blocks
        assert load.used_kv_blocks == 0
        # The same id may come again at once.
        request = asking(count=3)
        both = await asyncio.gather(told(engine, request), told(engine, request))
        assert both[0].ids() == both[1].ids()


@check
async def priorities(servers: Servers) -> None:
    async with servers.engine() as engine:
        for priority in (5, -5, 0):
            assert (await told(engine, asking(count=2, priority=priority))).usage[1] == 2


@check
async def lora_adapters(servers: Servers) -> None:
    async with servers.engine() as engine:
        lora = Lora(lora_id=7, name="sideways", path=str(write_adapter(servers.folder / "lora")))
        base = await told(engine, asking([9] * 40, 8))
        own = {"own": str(servers.folder / "own")}
        assert await engine.list_loras() == own
        await engine.load_lora(lora)
        assert await engine.list_loras() == {**own, "sideways": lora.path}
        changed = await told(engine, asking([9] * 40, 8, lora_name="sideways"))
        assert changed.ids() != base.ids()
        # Another adapter of the same weights.
        same = await told(engine, asking([9] * 40, 8, lora_name="own"))
        assert same.ids() == changed.ids()
        scored = Returned(output_logprobs=True)
        again = await told(engine, asking([9] * 40, 8, lora_name="sideways", returned=scored))
        assert (again.ids(), again.text()) == (changed.ids(), changed.text())
        assert await fault(engine.load_lora(lora)) == "already_exists"
        nowhere = Lora(lora_id=8, name="no", path="/nonexistent")
        assert await fault(engine.load_lora(nowhere)) == "invalid_argument"
        await engine.unload_lora(lora)
        request = asking([9] * 40, 8, lora_name="sideways")
        assert (await refused(engine, request)).code == "model_not_found"
        assert await fault(engine.unload_lora(lora)) == "not_found"
    async with servers.engine(port=CONSUMER) as engine:
        assert await fault(engine.load_lora(lora)) == "failed_precondition"


@check
async def kv_events(servers: Servers) -> None:
    async with servers.engine() as engine:
        (source,) = await engine.kv_event_sources()
        assert (source.endpoint.host, source.endpoint.port) == ("127.0.0.1", 5557)
        assert source.replay_endpoint == "tcp://127.0.0.1:5558"

        async def first(number: int, start: int = 0, snapshot: bool = False) -> list[KvBatch]:
            batches = []
            stream = engine.kv_events((), start=start, snapshot=snapshot)
            async for batch in stream:
                batches.append(batch)
                if len(batches) == number:
                    break
            await stream.aclose()  # type: ignore[attr-defined]
            return batches

        await told(engine, asking([101] * 70, 1, bypass_prefix_cache=True))
        await asyncio.sleep(0.5)
        (replayed,) = await first(1)
        assert (replayed.sequence, replayed.rank) == (0, 0)
        assert replayed.timestamp_ns > 10**18
        (whole,) = await first(1, snapshot=True)
        stored = [event for event in whole.events if isinstance(event, BlocksStored)]
        ours = [event for event in stored if set(event.token_ids) == {101}]
        assert len(ours) == 1
        assert len(ours[0].hashes) == 2
        assert len(ours[0].token_ids) == 64
        assert len(ours[0].hashes[0].value) == 8
        assert ours[0].medium == "gpu"
        last = whole.sequence
        live = asyncio.ensure_future(first(2, start=last))
        await asyncio.sleep(1)
        await told(engine, asking([102] * 70, 1, cache_salt="salt"))
        old, new = await live
        assert [old.sequence, new.sequence] == [last, last + 1]
        (event,) = new.events
        assert isinstance(event, BlocksStored)
        assert event.extra_keys[0] == ("salt",)
        assert await fault(anext(engine.kv_events((3,), start=0, snapshot=False))) == "not_found"
    async with servers.engine(port=CONSUMER) as engine:
        assert await engine.kv_event_sources() == []
        assert await fault(anext(engine.kv_events((), start=0, snapshot=False))) == "unimplemented"


async def prefilled(servers: Servers, prompt: Sequence[int], **fields: Any) -> KvSession:
    async with servers.engine(Role.PREFILL) as engine:
        seen = await told(engine, asking(prompt, prefill_only=True, **fields))
        (done,) = seen.events
        assert isinstance(done, PrefillDone)
        assert seen.usage[:2] == (len(prompt), 0)
        # What a client hands on went through a Struct.
        return replace(done.session, attributes=settled(dict(done.session.attributes)))


@check
async def prefill_and_decode(servers: Servers) -> None:
    async with (
        servers.engine() as whole,
        servers.engine(Role.DECODE, CONSUMER) as decode,
    ):
        for length in (1, 31, 32, 150):
            prompt = [(7 * i + length) % 90 + 3 for i in range(length)]
            session = await prefilled(servers, prompt)
            assert session.transfer_backend == "nixl"
            assert session.session_id
            assert (session.endpoints[0].host, session.endpoints[0].port) == ("127.0.0.1", 6001)
            returned = Returned(output_logprobs=length == 31)
            seen = await told(decode, asking(prompt, 8, session=session, returned=returned))
            alone = await told(whole, asking(prompt, 8))
            assert (seen.ids(), seen.text()) == (alone.ids(), alone.text())
            assert seen.usage[:2] == (length, 8)


@check
async def odd_sessions(servers: Servers) -> None:
    prompt = [11] * 40
    session = await prefilled(servers, prompt)
    vllm = dict(session.attributes["vllm"])

    def changed(**fields: Any) -> KvSession:
        parameters = {k: v for k, v in {**vllm, **fields}.items() if v is not ...}
        return replace(session, attributes={**session.attributes, "vllm": parameters})

    odd = [
        replace(session, attributes={}),
        replace(session, attributes={"vllm": {"do_remote_prefill": True}}),
        replace(session, transfer_backend="mooncake"),
        replace(session, endpoints=()),
        replace(session, attributes={**session.attributes, "vllm_ends_at": 1}),
        changed(do_remote_prefill=False),
        changed(do_remote_decode=True),
        changed(remote_block_ids=...),
        changed(remote_block_ids=[[]]),
        changed(remote_block_ids=[1]),
        changed(remote_block_ids=[["1x"]]),
        changed(remote_engine_id=...),
        changed(remote_request_id=5),
        changed(remote_host="0.0.0.0"),
        changed(remote_host="127.0.0.2"),
        changed(remote_port=0),
        changed(remote_port="5600x"),
        changed(tp_size="two"),
        changed(transfer_mode="push"),
        changed(surprise=1),
    ]
    async with servers.engine(Role.DECODE, CONSUMER) as decode:
        for one in odd:
            seen = await refused(decode, asking(prompt, session=one))
            assert seen.code in ("invalid_argument", "kv_transfer_failed", "kv_session_not_found")
        assert (await refused(decode, asking([11] * 200, session=session))).code == (
            "invalid_argument"
        )
        assert (await refused(decode, asking(prompt, lora_name="x", session=session))).code
        # A peer that is gone: vLLM gives up after some seconds and lives on.
        gone = changed(remote_port=5999, remote_engine_id="nobody")
        gone = replace(gone, endpoints=(replace(session.endpoints[0], port=5999),))
        assert await fault(told(decode, asking(prompt, session=gone))) == "kv_transfer_failed"
        assert len((await told(decode, asking(prompt, 4, session=session))).ids()) == 4
        for role, port, code in (
            (Role.PREFILL, PRODUCER, "unimplemented"),
            (Role.DECODE, CONSUMER, "kv_session_not_found"),
        ):
            async with servers.engine(role, port) as engine:
                assert await fault(engine.abort_session(session)) == code


@check
async def many_at_once(servers: Servers) -> None:
    async with servers.engine() as engine:
        one = (await told(engine, asking(count=20))).ids()
        seen = await asyncio.gather(*(told(engine, asking(count=20)) for _ in range(100)))
        assert all(len(each.ids()) == 20 and each.usage[1] == 20 for each in seen)
        assert sum(each.ids() == one for each in seen) > 50


@check
async def nobody_there(servers: Servers) -> None:
    engine = create("http://127.0.0.1:9", Role.AGGREGATED, {})
    try:
        (found,) = await engine.checks(True)
        assert found.state == "not_ready"
        assert (await refused(engine, asking())).code == "not_ready"
    finally:
        await engine.close()
