"""What Generate refuses before it accepts, and what it hands to the engine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import grpc
import pytest

from inferlab_adapters.openengine.engine import (
    Guide,
    LogprobAbility,
    Parallelism,
    Returned,
    Sampling,
    Selection,
    Stopping,
)
from inferlab_adapters.openengine.revisions import SEED, V0_1_0, Revision
from tests.openengine.scripted import FACTS, ScriptedEngine, facts_with
from tests.openengine.serving import BOTH, run, serving

_NOTHING = LogprobAbility(supported=False)
_TOP_N = LogprobAbility(supported=True, selections=("top_n",), max_top_n=2)
_NO = {"prompt": None}

INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "empty id": ({"request_id": ""}, "request_id: is empty"),
    "long id": ({"request_id": "x" * 513}, "request_id: has 513 characters"),
    "control character": ({"request_id": "a\r\nb"}, "request_id:"),
    "empty model": ({"model": ""}, "model: is empty"),
    "no input": (_NO, "input: is missing"),
    "empty prompt": ({"prompt": ""}, "prompt: is empty"),
    "empty ids": ({**_NO, "token_ids": {}}, "token_ids.ids: is empty"),
    "foreign id": ({**_NO, "token_ids": {"ids": [1, 1000]}}, "token_ids.ids: 1000 is outside"),
    "long prompt": ({**_NO, "token_ids": {"ids": [1] * 4097}}, "token_ids.ids: has 4097"),
    "no outputs": ({"sampling": {"num_sequences": 0}}, "sampling.num_sequences: "),
    "many outputs": ({"sampling": {"num_sequences": 9}}, "sampling.num_sequences: "),
    "top_k": ({"sampling": {"top_k": -2}}, "sampling.top_k: "),
    "cold": ({"sampling": {"temperature": -0.1}}, "sampling.temperature: must be at least 0"),
    "top_p 0": ({"sampling": {"top_p": 0.0}}, "sampling.top_p: must be above 0"),
    "top_p 2": ({"sampling": {"top_p": 2.0}}, "sampling.top_p: must be above 0 and at most 1"),
    "min_p": ({"sampling": {"min_p": 1.5}}, "sampling.min_p: "),
    "frequency": ({"sampling": {"frequency_penalty": 2.5}}, "sampling.frequency_penalty: "),
    "presence": ({"sampling": {"presence_penalty": -2.5}}, "sampling.presence_penalty: "),
    "repetition": ({"sampling": {"repetition_penalty": 0.0}}, "sampling.repetition_penalty: "),
    "no tokens": ({"stopping": {"max_tokens": 0}}, "stopping.max_tokens: must be at least 1"),
    "many tokens": ({"stopping": {"max_tokens": 4097}}, "stopping.max_tokens: must be at most"),
    "min above": ({"stopping": {"max_tokens": 1, "min_tokens": 2}}, "stopping.min_tokens: "),
    "min alone": ({"stopping": {"min_tokens": 4097}}, "stopping.min_tokens: "),
    "no condition": ({"stopping": {"conditions": [{}]}}, "stopping.conditions[0]: has no"),
    "empty stop": (
        {"stopping": {"conditions": [{"stop_text": "a"}, {"stop_text": ""}]}},
        "stopping.conditions[1].stop_text: is empty",
    ),
    "foreign stop": (
        {"stopping": {"conditions": [{"stop_token_id": 1000}]}},
        "stopping.conditions[0].stop_token_id: 1000",
    ),
    "no selection": ({"response": {"output_candidates": {}}}, "response.output_candidates: "),
    "top_n": (
        {"response": {"return_output_logprobs": True, "output_candidates": {"top_n": 21}}},
        "response.output_candidates.top_n: must be at most 20",
    ),
    "no candidates": (
        {"response": {"prompt_candidates": {"token_ids": {}}}},
        "response.prompt_candidates.token_ids: is empty",
    ),
    "double candidate": (
        {"response": {"output_candidates": {"token_ids": {"ids": [3, 3]}}}},
        "response.output_candidates.token_ids: names a token twice",
    ),
    "foreign candidate": (
        {"response": {"output_candidates": {"token_ids": {"ids": [1000]}}}},
        "response.output_candidates.token_ids: 1000",
    ),
    "contradiction": (
        {"response": {"return_output_logprobs": False, "output_candidates": {"top_n": 1}}},
        "response.output_candidates: is given although",
    ),
    "start alone": ({"response": {"prompt_logprob_start": 1}}, "response.prompt_logprob_start: "),
    "start behind": (
        {
            **_NO,
            "token_ids": {"ids": [1, 2]},
            "response": {"return_prompt_logprobs": True, "prompt_logprob_start": 2},
        },
        "response.prompt_logprob_start: must be below",
    ),
    "no guide": ({"guided": {}}, "guided: has no guide"),
    "empty guide": ({"guided": {"regex": ""}}, "guided.regex: is empty"),
    "bad schema": ({"guided": {"json_schema": "{"}}, "guided.json_schema: is no JSON"),
    "deep schema": ({"guided": {"json_schema": "[" * 100_000}}, "guided.json_schema: is no JSON"),
    "odd schema": ({"guided": {"json_schema": "3"}}, "guided.json_schema: must be an object"),
    "bad regex": ({"guided": {"regex": "("}}, "guided.regex: "),
    "no choices": ({"guided": {"choice": {}}}, "guided.choice.choices: "),
    "empty choice": ({"guided": {"choice": {"choices": ["a", ""]}}}, "guided.choice.choices: "),
    "no salt": ({"kv": {"cache_salt": ""}}, "kv.cache_salt: is empty"),
    "unlisted guide": ({"guided": {"ebnf_grammar": "a"}}, "guided.ebnf_grammar: is not supported"),
    "media": ({"media": [{"url": "http://127.0.0.1/"}]}, "media: this model takes no media"),
}

UNADVERTISED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "text": ({"text_input": False}, {}, "prompt: "),
    "ids": ({"token_ids_input": False}, {**_NO, "token_ids": {"ids": [1]}}, "token_ids: "),
    "output logprobs": (
        {"output_logprobs": _NOTHING},
        {"response": {"return_output_logprobs": True}},
        "response.return_output_logprobs: ",
    ),
    "prompt candidates": (
        {"prompt_logprobs": _NOTHING},
        {"response": {"prompt_candidates": {"top_n": 1}}},
        "response.prompt_candidates: ",
    ),
    "selection": (
        {"output_logprobs": _TOP_N},
        {"response": {"output_candidates": {"all": {}}}},
        "response.output_candidates.all: is not supported",
    ),
    "stop in output": (
        {"stop_in_output": False},
        {"stopping": {"include_stop_in_output": True}},
        "stopping.include_stop_in_output: ",
    ),
    "salt": ({"cache_salt": False}, {"kv": {"cache_salt": "a"}}, "kv.cache_salt: "),
    "bypass": (
        {"prefix_cache_bypass": False},
        {"kv": {"bypass_prefix_cache": True}},
        "kv.bypass_prefix_cache: ",
    ),
    "lora": ({"lora": False}, {"lora_name": "a"}, "lora_name: "),
}


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
def test_invalid_requests_are_refused_by_the_field(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            for changes, message in INVALID.values():
                outcome = await served.generate(**changes)
                assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT, (changes, outcome)
                assert outcome.details.startswith(message), outcome.details
                assert "\n" not in outcome.details
                assert outcome.messages == ()
            assert served.engine.accepted == []
            assert (await served.generate()).ok

    run(test)


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "repetition_penalty"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite(name: str, value: float) -> None:
    async def test() -> None:
        async with serving() as served:
            outcome = await served.generate(sampling={name: value})
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert outcome.details.startswith(f"sampling.{name}: must be finite")

    run(test)


@pytest.mark.parametrize("case", UNADVERTISED)
def test_what_is_not_advertised_is_refused(case: str) -> None:
    async def test() -> None:
        abilities, changes, message = UNADVERTISED[case]
        async with serving(ScriptedEngine(facts=facts_with(**abilities))) as served:
            outcome = await served.generate(**changes)
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert outcome.details.startswith(message), outcome.details
            assert served.engine.accepted == []
        async with serving() as served:
            assert "lora_name" in changes or (await served.generate(**changes)).ok

    run(test)


def test_explicit_refusals_of_what_is_not_there_are_taken() -> None:
    async def test() -> None:
        facts = facts_with(
            stop_in_output=False, prefix_cache_bypass=False, output_logprobs=_NOTHING
        )
        async with serving(ScriptedEngine(facts=facts)) as served:
            outcome = await served.generate(
                stopping={"max_tokens": 1, "include_stop_in_output": False},
                kv={"bypass_prefix_cache": False},
                response={"return_output_logprobs": False},
            )
            assert outcome.ok

    run(test)


def test_unknown_models_and_adapters_are_not_found() -> None:
    async def test() -> None:
        async with serving() as served:
            outcome = await served.generate(model="scriptd")
            assert outcome.code is grpc.StatusCode.NOT_FOUND
            assert "did you mean" in outcome.details
            outcome = await served.generate(lora_name="nobody")
            assert outcome.code is grpc.StatusCode.NOT_FOUND
            assert outcome.details.startswith("lora_name: ")
            assert (await served.generate(model="scripted-alias")).ok
            assert served.engine.accepted[0].model == "scripted"

    run(test)


def test_priority_and_rank_of_the_seed_revision_are_fields() -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(facts=facts_with(priority=False))) as served:
            outcome = await served.generate(priority=0)
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert outcome.details.startswith("priority: ")
            outcome = await served.generate(kv={"data_parallel_rank": 1})
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert (await served.generate(kv={"data_parallel_rank": 0})).ok
        facts = replace(facts_with(dp_rank_choice=True), parallelism=Parallelism(data=2))
        async with serving(ScriptedEngine(facts=facts)) as served:
            assert (await served.generate(kv={"data_parallel_rank": 1}, priority=-3)).ok
            assert served.engine.accepted[0].dp_rank == 1
            assert served.engine.accepted[0].priority == -3
            outcome = await served.generate(kv={"data_parallel_rank": 2})
            assert outcome.details.startswith("kv.data_parallel_rank: must be from 0 to 1")

    run(test)


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
def test_every_option_reaches_the_engine(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            outcome = await served.generate(
                sampling={
                    "temperature": 0.0,
                    "top_p": 0.5,
                    "top_k": 0,
                    "min_p": 0.0,
                    "frequency_penalty": -2.0,
                    "presence_penalty": 0.0,
                    "repetition_penalty": 1.5,
                    "seed": 2**64 - 1,
                    "num_sequences": 2,
                },
                stopping={
                    "max_tokens": 5,
                    "min_tokens": 0,
                    "ignore_eos": True,
                    "include_stop_in_output": True,
                    "conditions": [{"stop_token_id": 0}, {"stop_text": "zz"}],
                },
                response={
                    "return_prompt_logprobs": True,
                    "prompt_candidates": {"top_n": 2},
                    "prompt_logprob_start": 3,
                    "output_candidates": {"token_ids": {"ids": [5, 4]}},
                },
                kv={"bypass_prefix_cache": True, "cache_salt": "s"},
                guided={"choice": {"choices": ["yes", "no"]}, "backend": "b"},
            )
            assert outcome.ok, outcome
            (request,) = served.engine.accepted
            assert request.sampling == Sampling(
                temperature=0.0,
                top_p=0.5,
                top_k=0,
                min_p=0.0,
                frequency_penalty=-2.0,
                presence_penalty=0.0,
                repetition_penalty=1.5,
                seed=2**64 - 1,
                num_sequences=2,
            )
            assert request.stopping == Stopping(
                max_tokens=5,
                min_tokens=0,
                stop_texts=("zz",),
                stop_token_ids=(0,),
                ignore_eos=True,
                include_stop_in_output=True,
            )
            assert request.returned == Returned(
                prompt_logprobs=True,
                prompt_candidates=Selection(mode="top_n", top_n=2),
                prompt_start=3,
                output_logprobs=True,
                output_candidates=Selection(mode="token_ids", token_ids=(5, 4)),
            )
            assert request.guide == Guide(mode="choice", choices=("yes", "no"), backend="b")
            assert request.bypass_prefix_cache
            assert request.cache_salt == "s"
            assert not request.prefill_only

    run(test)


def test_media_go_on_in_order_and_of_unknown_modality_as_images() -> None:
    async def test() -> None:
        async with serving(ScriptedEngine(facts=facts_with(multimodal=True))) as served:
            outcome = await served.generate(media=[{"modality": 1}])
            assert outcome.details.startswith("media[0]: has no source")
            media = [
                {"modality": 99, "raw_bytes": b"\0", "mime_type": "image/png", "uuid": "u"},
                {"modality": 3, "url": "http://127.0.0.1/a.wav"},
            ]
            assert (await served.generate(media=media)).ok
            first, second = served.engine.accepted[0].media
            assert (first.modality, first.source, first.data) == ("image", "raw_bytes", b"\0")
            assert (second.modality, second.source) == ("audio", "url")

    run(test)


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
def test_a_second_input_or_guide_is_seen_though_parsers_drop_the_first(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision) as served:
            base = served.request(guided={"regex": "a"})
            raw = served.client.message("GenerateRequest", base).SerializeToString()
            ids = served.client.message("GenerateRequest", {"token_ids": {"ids": [1]}})
            outcome = await served.client.outcome("Generate", raw + ids.SerializeToString())
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert outcome.details.startswith("input: ")
            other = served.client.message("GenerateRequest", {"guided": {"json_object": {}}})
            outcome = await served.client.outcome("Generate", raw + other.SerializeToString())
            assert outcome.code is grpc.StatusCode.INVALID_ARGUMENT
            assert outcome.details.startswith("guided: ")
            assert (await served.client.outcome("Generate", raw)).ok

    run(test)


@pytest.mark.parametrize("revision", BOTH, ids=lambda r: r.name)
def test_malformed_and_over_large_messages_leave_the_server_well(revision: Revision) -> None:
    async def test() -> None:
        async with serving(revision=revision, max_message_bytes=1 << 20) as served:
            for raw in (b"\xff\xff\xff", b"\x0a\x05ab", b"\x0a\x01\xff"):
                for method in ("Generate", "Health", "SubscribeKvEvents"):
                    outcome = await served.client.outcome(method, raw)
                    assert outcome.code is not grpc.StatusCode.OK or method != "Generate", raw
            outcome = await served.generate(prompt="x" * (2 << 20))
            assert outcome.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert served.engine.accepted == []
            assert (await served.generate()).ok

    run(test)


def test_facts_without_limits_let_everything_pass() -> None:
    async def test() -> None:
        model = replace(
            facts_with(max_num_sequences=None).models[0],
            vocabulary=None,
            max_context_length=None,
            max_output_tokens=None,
        )
        async with serving(ScriptedEngine(facts=replace(FACTS, models=(model,)))) as served:
            outcome = await served.generate(
                prompt=None,
                token_ids={"ids": [2**32 - 1]},
                sampling={"num_sequences": 9},
                stopping={"max_tokens": 1},
            )
            assert outcome.ok

    run(test)


def test_revisions_differ_only_where_they_should() -> None:
    seed = {f.name: f.number for f in SEED.message("GenerateResponse").DESCRIPTOR.fields}
    release = {f.name: f.number for f in V0_1_0.message("GenerateResponse").DESCRIPTOR.fields}
    assert seed == release
