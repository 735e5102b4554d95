"""Every golden SGLang command goes through the real parser and the engine's own checks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.control_plane import Json
from tests.support.engines import parsed
from tests.support.golden import rendered_processes

pytestmark = pytest.mark.engine

# An older release's spelling is that release's parser's business.
GOLDEN = {name: process for name, process in rendered_processes("sglang") if "0.5.10" not in name}
FORMS: dict[str, tuple[list[str], str | None, Any]] = {
    "long": (["--tp-size", "2"], "tp_size", 2),
    "equals": (["--tp-size=2"], "tp_size", 2),
    "second name": (["--tensor-parallel-size", "2"], "tp_size", 2),
    "prefix": (["--tp", "2"], "tp_size", 2),
    "prefix of data parallel": (["--dp", "2"], "dp_size", 2),
    "alias": (["--ep", "1"], "ep_size", 1),
    "ambiguous prefix": (["--pp", "2"], None, None),
    "underscores": (["--tp_size", "2"], None, None),
    "switch": (["--trust-remote-code"], "trust_remote_code", True),
    "switch with value": (["--trust-remote-code=true"], None, None),
    "unknown": (["--no-such-option", "1"], None, None),
    "removed": (["--disable-piecewise-cuda-graph"], None, None),
    "list": (["--cuda-graph-bs-decode", "1", "2"], "cuda_graph_bs_decode", None),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Json]:
    start = ["python3", "-m", "sglang.launch_server", "--model-path", "m"]
    asked = {name: process["command"]["argv"] for name, process in GOLDEN.items()}
    return parsed("sglang", asked | {name: [*start, *form[0]] for name, form in FORMS.items()})


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_command_is_accepted(name: str, answers: dict[str, Json]) -> None:
    if "unavailable" in name:
        assert "--brand-new-option" in answers[name]["error"]
        return
    assert "error" not in answers[name], answers[name]
    values, process = answers[name]["values"], GOLDEN[name]
    if process["role"] != "router":
        assert values["served_model_name"] == "llama-8b"
        assert values["node_rank"] == process["rank"]
        assert values["nnodes"] == process["rank_count"]


@pytest.mark.parametrize("name", FORMS)
def test_the_option_table_reads_as_the_parser_does(name: str, answers: dict[str, Json]) -> None:
    from oe_adapter_sglang import ADAPTER

    tokens, dest, value = FORMS[name]
    real = answers[name]
    use = next(iter(ADAPTER.option_table("0.5.23").scan(tokens)))
    if dest is None:
        assert "error" in real
        assert name == "switch with value" or use.reading is None
        return
    assert use.reading is not None
    assert use.reading.option.dest == dest
    assert "error" not in real, real
    if value is not None:
        assert real["values"][dest] == value
