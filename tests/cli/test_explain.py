"""``oe explain``: the reasons of tests/unit/test_origins.py in the words of who asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.invoke import oe

ROOT = Path(__file__).parents[2]
PAIR = ROOT / "examples" / "deployments" / "vllm-prefill-decode.yaml"


def reasons(*arguments: object, stdin: str = "") -> dict[str, dict[str, Any]]:
    """The explained items of the only process, by their text."""
    done = oe("explain", *arguments, "--json", stdin=stdin)
    assert done.code == 0, done.err
    (process,) = json.loads(done.out)
    items = [*process["argv"], *process["env"], *(i for f in process["files"] for i in f["lines"])]
    return {item["text"]: item for item in items}


def test_places_are_those_of_the_file() -> None:
    items = reasons(PAIR, "--process", "decode")

    def place(text: str) -> tuple[str, str]:
        return items[text]["from"], items[text]["where"]

    assert place("qwen3") == ("request", "/model/served_name")
    assert place("8192") == ("setting", "/settings/max_model_len")
    assert place("0.85") == ("setting", "/roles/decode/settings/gpu_memory_utilization")
    assert place("--tensor-parallel-size") == ("parallelism", "/roles/decode/parallelism/tensor")
    assert place("Qwen/Qwen3-8B") == ("allocation", "model_locator of decode")
    assert place("--kv-transfer-config") == ("request", "/kv_transfer")
    assert place("vllm") == ("adapter", "")


def test_what_nobody_asked_for_is_a_default_or_a_rule() -> None:
    text = (
        "framework: vllm\nmodel: {id: m, path: /m}\n"
        "roles: {serve: {parallelism: {attention: {tensor: 2}}}}"
    )
    tensor = reasons("-", stdin=text)["--tensor-parallel-size"]
    assert (tensor["from"], tensor["where"]) == ("parallelism", "")
    assert "not asked for" in tensor["why"]
    profiled = "framework: vllm\nmodel: {id: m, path: /m}\nprofiling: true"
    config = reasons("-", stdin=profiled)["--profiler-config"]
    assert config["from"] == "default"
    assert "the adapter's default" in config["why"]


def test_extra_arguments_and_variables_one_by_one() -> None:
    text = (
        "framework: vllm\nmodel: {id: m, path: /m}\n"
        "settings: {extra_args: [--seed, '1'], extra_env: {MY: x}}"
    )
    items = reasons("-", stdin=text)
    assert items["--seed"]["where"] == "/settings/extra_args/0"
    assert items["1"]["where"] == "/settings/extra_args/1"
    assert items["MY=x"]["where"] == "/settings/extra_env/MY"


def test_lines_of_files(tmp_path: Path) -> None:
    (tmp_path / ".inferlab").mkdir()
    (tmp_path / ".inferlab" / "o.yaml").write_text("enable_chunked_prefill: true\n")
    deployment = tmp_path / "d.yaml"
    deployment.write_text(
        "framework: tensorrt-llm\nmodel: {id: m, path: /m}\nsettings:\n"
        "  extra_llm_api_options: o.yaml\n"
        "  extra_llm_api_options_patch: {kv_cache_config: {tokens_per_block: 64}}\n"
    )
    items = reasons(deployment)
    assert ".inferlab/o.yaml" in items["enable_chunked_prefill: true"]["why"]
    line = items["  tokens_per_block: 64"]
    patch = "/settings/extra_llm_api_options_patch/kv_cache_config/tokens_per_block"
    assert (line["from"], line["where"]) == ("setting", patch)


def test_the_table_joins_an_option_with_its_value() -> None:
    done = oe("explain", PAIR, "--process", "decode")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == "decode: argv:"
    assert (
        "--max-num-seqs 256 setting /roles/decode/settings/max_num_seqs "
        "an option of the framework, by its name" in lines
    )
    assert "decode: env:" in lines


def test_every_process_unless_one_is_named() -> None:
    done = oe("explain", PAIR, "--json")
    names = [process["process"] for process in json.loads(done.out)]
    assert names == ["prefill-000", "prefill-001", "decode", "router"]
    refused = oe("explain", PAIR, "--process", "decoder")
    assert refused.code == 1
    assert 'did you mean "decode"?' in refused.err


def test_a_placed_request_is_explained_too() -> None:
    render = ROOT / "examples" / "render-single.json"
    items = reasons(render, "--framework", "vllm")
    assert items["--tensor-parallel-size"]["where"] == (
        "/input/roles/0/effective_parallelism/outer/tensor_parallel_size"
    )
    assert oe("explain", render, "--framework", "vllm", "--inventory", "x").code == 2
