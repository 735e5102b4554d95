"""What the vLLM backend generates on a real server, one function a check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inferlab_adapters.openengine.engine import (
    FinishedEvent,
    Guide,
    Returned,
    Role,
    Sampling,
    Stopping,
    Usage,
)
from tests.smoke.openengine_vllm_support import (
    CONSUMER,
    GREEDY,
    VOCABULARY,
    Servers,
    asking,
    check,
    refused,
    told,
)


@check
async def facts(servers: Servers) -> None:
    async with servers.engine() as engine, servers.engine(attached=True) as other:
        told, attached = await engine.facts(), await other.facts()
        assert replace(told, parallelism=attached.parallelism, max_loras=None) == replace(
            attached, max_loras=None
        ), (told, attached)
        assert told.connector is not None
        assert told.connector.transfer_backend == "nixl"
        (model,) = told.models
        assert model.names == ("tiny", "tiny-alias")
        assert (model.vocabulary, model.max_context_length) == (VOCABULARY, 256)
        assert (told.engine_version, told.kv_block_size, told.max_running_requests) == (
            "0.32.0",
            32,
            128,
        )
        assert told.total_kv_blocks
        assert told.parallelism.tensor == told.parallelism.data == 1
        abilities = model.abilities
        assert abilities.output_logprobs.max_top_n == 19
        assert abilities.output_logprobs.selections == ("top_n", "token_ids")
        # Prompt logprobs beside other requests end a vLLM with LoRA.
        assert not abilities.prompt_logprobs.supported
        assert abilities.priority
        assert abilities.lora
        assert not abilities.dp_rank_choice
        assert len(abilities.guides) == 6
        assert abilities.max_num_sequences == 128
        checks = await engine.checks(True)
        assert [(c.name, c.state) for c in checks] == [
            ("model", "ready"),
            ("inference_probe", "ready"),
        ]
    async with servers.engine(Role.DECODE, CONSUMER) as engine:
        (model,) = (await engine.facts()).models
        assert "all" in model.abilities.output_logprobs.selections
        assert model.abilities.max_num_sequences == 1
        assert not model.abilities.lora
        assert model.abilities.prompt_logprobs.selections == ("top_n", "all")


@check
async def text_and_tokens(servers: Servers) -> None:
    async with servers.engine() as engine:
        by_ids = await told(engine, asking(count=6))
        assert by_ids.ids() == [288, 282, 199, 134, 393, 335]
        assert by_ids.text() == " o b\b\N{REPLACEMENT CHARACTER}ener th"
        assert by_ids.ends() == [FinishedEvent(0, "length")]
        assert by_ids.usage == Usage(4, 6, 0)
        by_text = await told(engine, asking("Hello", 3))
        assert by_text.usage.prompt_tokens == 3
        again = await told(engine, asking([42, 298, 284], 3))
        assert again.ids() == by_text.ids()


@check
async def stops(servers: Servers) -> None:
    async with servers.engine() as engine:
        for keep in (False, True):
            token = Stopping(max_tokens=8, stop_token_ids=(199,), include_stop_in_output=keep)
            by_token = await told(engine, asking(stopping=token))
            assert by_token.text() == (" o b\b" if keep else " o b")
            assert by_token.ids() == ([288, 282, 199] if keep else [288, 282])
            (end,) = by_token.ends()
            assert end.stop is not None
            assert (end.stop.kind, end.stop.token_id) == ("token", 199)
            assert by_token.usage.completion_tokens == len(by_token.ids())
            for details in (False, True):
                text = Stopping(max_tokens=8, stop_texts=("ne", "zzzzz"))
                text = replace(text, include_stop_in_output=keep)
                returned = Returned(output_logprobs=details)
                by_text = await told(engine, asking(stopping=text, returned=returned))
                seen = " o b\b\N{REPLACEMENT CHARACTER}e"
                assert by_text.text() == (seen + "ne" if keep else seen), by_text.events
                (end,) = by_text.ends()
                assert end.stop is not None
                assert (end.stop.kind, end.stop.text) == ("text", "ne")
        guide = Guide(mode="choice", choices=("yes", "no"))
        by_eos = await told(engine, asking(guide=guide, stopping=Stopping(max_tokens=8)))
        (end,) = by_eos.ends()
        assert end.stop is not None
        assert (end.stop.kind, end.stop.token_id) == ("eos", 1)
        assert by_eos.text() == "no"


@check
async def several_outputs(servers: Servers) -> None:
    async with servers.engine() as engine:
        sampling = Sampling(temperature=1.0, seed=2**63 + 5, num_sequences=3)
        first = await told(engine, asking(count=5, sampling=sampling))
        assert sorted(end.output for end in first.ends()) == [0, 1, 2]
        assert first.events[-1] in first.ends()
        assert first.usage == Usage(4, 15, 0)
        second = await told(engine, asking(count=5, sampling=sampling))
        assert [first.ids(i) for i in range(3)] == [second.ids(i) for i in range(3)]
        assert len({tuple(first.ids(i)) for i in range(3)}) == 3
        why = await refused(engine, asking(sampling=replace(GREEDY, num_sequences=2)))
        assert why.code == "invalid_argument"


@check
async def prefix_cache(servers: Servers) -> None:
    async with servers.engine() as engine:

        async def cached(**fields: Any) -> int | None:
            return (await told(engine, asking([77] * 100, 1, **fields))).usage.cached_prompt_tokens

        assert await cached(bypass_prefix_cache=True) == 0
        assert await cached() == 96
        assert await cached(bypass_prefix_cache=True) == 0
        salts = [await cached(cache_salt=salt) for salt in ("A", "A", "B")]
        assert salts == [0, 96, 0]


@check
async def refusals(servers: Servers) -> None:
    async with servers.engine() as engine:
        for request in (
            asking([VOCABULARY]),
            asking([5, -1]),
            asking([]),
            asking(""),
            asking([1] * 256),
            asking(stopping=Stopping(max_tokens=0)),
            asking(stopping=Stopping(max_tokens=4, stop_token_ids=(VOCABULARY,))),
            asking(stopping=Stopping(max_tokens=4, stop_texts=("",))),
            asking(stopping=Stopping(max_tokens=4, min_tokens=5)),
            asking(sampling=Sampling(temperature=float("nan"))),
            asking(sampling=Sampling(top_p=1.5)),
            asking(sampling=Sampling(min_p=2.0)),
            asking(cache_salt="a@b"),
            asking(dp_rank=3),
        ):
            why = await refused(engine, request)
            assert why.code == "invalid_argument", (request, why.code, why.message)
        assert (await refused(engine, asking(lora_name="nobody"))).code == "model_not_found"
        long = await told(engine, asking(stopping=Stopping(min_tokens=20, ignore_eos=True)))
        assert long.usage == Usage(4, 252, 0)
