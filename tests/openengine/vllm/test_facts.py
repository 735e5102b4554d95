"""What is known of a vLLM server, its load, and its adapters."""

from __future__ import annotations

from typing import Any

import pytest
from oe_adapter_vllm.backend.arguments import EngineArguments

from inferlab_adapters.openengine.engine import Engine, Load, Lora, RankLoad, Role
from tests.openengine.vllm.asked import asking, backend, fault, told
from tests.openengine.vllm.fake_server import DONE, METRICS, MODELS, chunk, error, run, usage

ARGV = (
    *("vllm", "serve", "m", "--served-model-name", "tiny", "tiny-alias", "-tp", "2"),
    *("--pipeline_parallel_size=3", "--scheduling-policy", "priority", "--enable-lora"),
    *("--max-num-batched-tokens", "4096", "--max-loras", "4"),
    *("--reasoning-parser", "r", "--tool-call-parser", "t"),
)


def test_facts_of_an_engine_whose_command_line_is_known() -> None:
    async def test() -> None:
        async with backend(options={"argv": ARGV}) as (engine, _):
            facts = await engine.facts()
            assert (facts.engine_name, facts.engine_version) == ("vllm", "0.32.0")
            (model,) = facts.models
            assert (model.model_id, model.names) == ("/models/tiny", ("tiny", "tiny-alias"))
            assert (model.max_context_length, model.vocabulary) == (256, 512)
            assert (model.reasoning_parser, model.tool_call_parser) == ("r", "t")
            sizes = facts.parallelism
            assert (sizes.tensor, sizes.pipeline, sizes.data) == (2, 3, 1)
            assert (facts.kv_block_size, facts.total_kv_blocks) == (128, 1024)
            assert (facts.max_running_requests, facts.max_batched_tokens) == (128, 4096)
            assert (facts.max_loras, facts.connector) == (4, None)
            abilities = model.abilities
            assert abilities.output_logprobs.selections == ("top_n", "token_ids")
            assert abilities.output_logprobs.max_top_n == 19
            # They would end a vLLM with LoRA.
            assert not abilities.prompt_logprobs.supported
            assert abilities.max_num_sequences == 128
            assert abilities.priority
            assert abilities.lora

    run(test)


def test_facts_of_an_engine_that_was_there_before() -> None:
    async def test() -> None:
        lacks: dict[str, Any] = {"priority": False, "runtime_lora": False, "models": MODELS[:2]}
        lacks["metrics"] = METRICS.replace("# TYPE vllm:lora_requests_info gauge\n", "")
        async with backend(most_logprobs=-1, **lacks) as (engine, _):
            facts = await engine.facts()
            abilities = facts.models[0].abilities
            assert not abilities.priority
            assert not abilities.lora
            assert "all" in abilities.output_logprobs.selections
            assert abilities.prompt_logprobs.selections == ("top_n", "all")
            assert (facts.parallelism.tensor, facts.parallelism.data) == (None, None)
            refused = await fault(engine.accept(asking(priority=1)))
            assert refused.code == "unsupported_feature"
            refused = await fault(engine.accept(asking(lora_name="l")))
            assert refused.code == "unsupported_feature"
            lora = Lora(lora_id=1, name="l", path="/l")
            assert (await fault(engine.load_lora(lora))).code == "failed_precondition"
        nixl = METRICS + "# TYPE vllm:nixl_xfer_time_seconds histogram\n"
        async with backend(Role.DECODE, metrics=nixl) as (engine, _):
            facts = await engine.facts()
            assert facts.connector is not None
            assert facts.connector.transfer_backend == "nixl"
            assert facts.models[0].abilities.max_num_sequences == 1

    run(test)


def test_an_engine_that_cannot_generate_by_tokens_says_what_it_needs() -> None:
    async def test() -> None:
        async with backend(scale_out=False) as (engine, _):
            refused = await fault(engine.facts())
            assert refused.code == "failed_precondition"
            assert "--enable-scale-out" in refused.message

    run(test)


def test_an_engine_that_answers_late_is_busy_before_it_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("oe_adapter_vllm.engine._HEALTH_SECONDS", 0.2)

    async def state(engine: Engine) -> str:
        (check,) = await engine.checks(False)
        assert (check.message == "") == (check.state == "ready")
        return check.state

    async def test() -> None:
        async with backend(hung=True) as (engine, server):
            # It never answered.
            assert await state(engine) == "not_ready"
            server.hung = False
            assert await state(engine) == "ready"
            known = await engine.facts()
            server.hung = True
            assert [await state(engine), await state(engine)] == ["degraded", "degraded"]
            assert await engine.facts() is known
            with monkeypatch.context() as later:
                later.setattr("oe_adapter_vllm.engine._BUSY_SECONDS", 0.1)
                assert await state(engine) == "not_ready"
            server.hung, server.healthy = False, False
            assert await state(engine) == "not_ready"
            server.healthy = True
            assert await state(engine) == "ready"
            # What refuses is no busy engine.
            server.healthy = False
            assert await state(engine) == "not_ready"

    run(test)


def test_load_by_rank_and_in_all() -> None:
    second = METRICS.replace('engine="0"', 'engine="1"')

    async def test() -> None:
        async with backend(metrics=METRICS + second) as (engine, _):
            load = await engine.load(True)
            assert load == Load(
                running=6,
                queued=2,
                used_kv_blocks=4,
                total_kv_blocks=2048,
                ranks=tuple(
                    RankLoad(rank=rank, running=3, queued=1, used_kv_blocks=2, total_kv_blocks=1024)
                    for rank in (0, 1)
                ),
                attributes={"vllm.prompt_tokens": 1512.0},
            )
            assert (await engine.load(False)).ranks == ()
            facts = await engine.facts()
            assert facts.models[0].abilities.dp_rank_choice
            assert facts.max_running_requests == 256
        async with backend(metrics="") as (engine, _):
            assert await engine.load(True) == Load()

    run(test)


def test_adapters_that_vllm_was_started_with() -> None:
    async def test() -> None:
        many = [
            *MODELS,
            *({"id": f"own-{n}", "root": f"/l/{n}", "parent": "tiny"} for n in range(4)),
        ]
        async with backend(
            runtime_lora=False, models=many, options={"argv": ["vllm", "serve", "m"]}
        ) as (engine, server):
            facts = await engine.facts()
            assert facts.models[0].abilities.lora
            # Five were there at the start, which is more than vLLM batches at once.
            assert facts.max_loras == 5
            assert list((await engine.list_loras()).items())[:2] == [
                ("sideways", "/models/lora"),
                ("own-0", "/l/0"),
            ]
            server.answers.append([chunk(0, (7,), "x", end="length"), usage(3, 1), DONE])
            await told(engine, asking(lora_name="own-0"))
            assert server.bodies("generate")[-1]["model"] == "own-0"
            lora = Lora(lora_id=1, name="l", path="/l")
            for asked in (engine.load_lora(lora), engine.unload_lora(lora)):
                refused = await fault(asked)
                assert refused.code == "failed_precondition"
                assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" in refused.message

    run(test)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((400, error("The lora adapter 'l' has already been loaded.")), "already_exists"),
        ((404, error("Loading lora l failed: No adapter found", 404)), "invalid_argument"),
        ((500, error("boom", 500)), "internal"),
    ],
)
def test_an_adapter_that_cannot_be_loaded(answer: Any, code: str) -> None:
    async def test() -> None:
        async with backend(options={"argv": ARGV}) as (engine, server):
            lora = Lora(lora_id=1, name="l", path="/l")
            await engine.load_lora(lora)
            await engine.unload_lora(lora)
            assert server.bodies("/v1/load_lora_adapter") == [{"lora_name": "l", "lora_path": "/l"}]
            assert server.bodies("/v1/unload_lora_adapter") == [{"lora_name": "l"}]
            server.answers.append(answer)
            assert (await fault(engine.load_lora(lora))).code == code

    run(test)


def test_command_lines() -> None:
    words = [
        "serve",
        "m",
        "--kv-transfer-config",
        '{"a": 1, "b": 2}',
        "--kv-transfer-config.b",
        "3",
    ]
    read = EngineArguments([*words, "-dp=2", "--enable-lora", "--seed", "-1", "--max_loras", "x"])
    assert read.mapping("kv_transfer_config") == {"a": 1, "b": "3"}
    assert read.number("data_parallel_size") == 2
    assert read.has("enable_lora")
    assert read.text("seed") == "-1"
    assert read.number("max_loras", 1) is None
    assert read.number("tensor_parallel_size", 1) == 1
    assert EngineArguments(None).number("tensor_parallel_size", 1) is None
    assert EngineArguments(["--kv-transfer-config", "["]).mapping("kv_transfer_config") == {}
