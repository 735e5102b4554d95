"""Every golden vLLM command goes through the real parsers, and means there what we meant."""

from __future__ import annotations

from typing import Any

import pytest

from inferlab_adapters.openengine.launch import unwrapped
from tests.support.control_plane import Json
from tests.support.engines import parsed
from tests.support.golden import rendered_processes

pytestmark = pytest.mark.engine

GOLDEN = dict(rendered_processes("vllm"))
FORMS: dict[str, tuple[list[str], str | None, Any]] = {
    "long": (["--max-num-seqs", "4"], "max_num_seqs", 4),
    "equals": (["--max-num-seqs=4"], "max_num_seqs", 4),
    "underscores": (["--max_num_seqs", "4"], "max_num_seqs", 4),
    "prefix": (["--max-num-se", "4"], "max_num_seqs", 4),
    "ambiguous prefix": (["--max-num", "4"], None, None),
    "short": (["-tp", "4"], "tensor_parallel_size", 4),
    "short equals": (["-tp=4"], "tensor_parallel_size", 4),
    "short prefix": (["-t", "4"], "tensor_parallel_size", 4),
    "glued to two letters": (["-tp4"], None, None),
    "glued to one letter": (["-n2"], "nnodes", 2),
    "negative": (["--no-enable-prefix-caching"], "enable_prefix_caching", False),
    "negative prefix": (["--no-enable-prefix-c"], "enable_prefix_caching", False),
    "negative with value": (["--no-enable-prefix-caching=true"], None, None),
    "optimization level": (["-O3"], "optimization_level", "3"),
    "dotted": (["-cc.mode", "3"], "compilation_config", None),
    "negative number": (["--seed", "-1"], "seed", -1),
    "negative fraction": (["--gpu-memory-utilization", "-0.5"], None, None),
    "list": (["--cudagraph-capture-sizes", "1", "2"], "cudagraph_capture_sizes", [1, 2]),
    "unknown": (["--no-such-option", "1"], None, None),
    "removed": (["--disable-log-requests"], None, None),
    "ended": (["--", "x"], None, None),
    "stray": (["stray"], None, None),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Json]:
    asked = {name: process["command"]["argv"] for name, process in GOLDEN.items()}
    forms = {name: ["vllm", "serve", "m", *tokens] for name, (tokens, _, _) in FORMS.items()}
    return parsed("vllm", asked | forms)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_command_is_accepted(name: str, answers: dict[str, Json]) -> None:
    if "unavailable" in name:
        assert "--brand-new-option" in answers[name]["error"]
        return
    assert "error" not in answers[name], answers[name]
    values, argv = answers[name]["values"], unwrapped(GOLDEN[name]["command"]["argv"])
    if argv[0] == "vllm":
        assert values["model_tag"] == argv[2]
        assert values["served_model_name"] == [argv[argv.index("--served-model-name") + 1]]
        assert values["headless"] == (GOLDEN[name]["rank"] > 0)


@pytest.mark.parametrize("name", FORMS)
def test_the_option_table_reads_as_the_parser_does(name: str, answers: dict[str, Json]) -> None:
    from oe_adapter_vllm import ADAPTER

    tokens, dest, value = FORMS[name]
    real = answers[name]
    use = next(iter(ADAPTER.option_table("0.32.0").scan(tokens)))
    if dest is None:
        assert "error" in real
        assert name in ("negative with value", "negative fraction") or use.reading is None
        return
    assert use.reading is not None
    assert use.reading.option.dest == dest
    assert "error" not in real, real
    if value is not None:
        assert real["values"][dest] == value
