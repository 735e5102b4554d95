"""Why every token is there: traced for every golden deployment of every adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from inferlab_adapters import origins
from inferlab_adapters.adapter import Context
from inferlab_adapters.origins import ProcessTrace, Traced
from inferlab_adapters.wire import respond
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import Json
from tests.support.golden import folders, read

RENDERS = [
    pytest.param(framework, name, id=f"{framework}-{name}")
    for framework in sorted(ADAPTERS)
    for name in sorted(folders(framework))
    if name.endswith("-render")
]

# What follows from the field it names by arithmetic, or from several fields.
COMPUTED = {
    "--role",
    "--data-parallel-size-local",
    "--data-parallel-start-rank",
    "--gpus_per_node",
    "--kv-transfer-config",
    "--disaggregation-mode",
    "--dist-init-addr",
    "--master-addr",
    "UCX_TLS",
    "MC_FORCE_TCP",
    "VLLM_SERVER_DEV_MODE",
    "SGLANG_TORCH_PROFILER_DIR",
    "TLLM_TORCH_PROFILER_DIR",
}


def traced(framework: str, name: str) -> tuple[Json, Json, list[ProcessTrace]]:
    """A golden render, asked once more by somebody who listens: (request, output, traces)."""
    folder = folders(framework)[name]
    request, pinned = read(folder / "request.json"), read(folder / "response.json")
    version = pinned["result"]["output"]["integration"]["framework_version"]
    traces: list[ProcessTrace] = []
    context = Context(version, trace=traces.append)
    response = json.loads(respond(json.dumps(request).encode(), ADAPTERS[framework], context))
    assert response == pinned
    return request, pinned["result"]["output"], traces


def at(document: Any, where: str) -> Any:
    """What a JSON pointer points at; fails where there is nothing."""
    for part in where.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def every(trace: ProcessTrace) -> Iterator[Traced]:
    yield from trace.argv
    yield from trace.env
    for file in trace.files:
        yield from file.lines


@pytest.mark.parametrize(("framework", "name"), RENDERS)
def test_every_token_has_its_origin(framework: str, name: str) -> None:
    request, output, traces = traced(framework, name)
    assert [trace.process for trace in traces] == [p["process"] for p in output["processes"]]
    owners = set(ADAPTERS[framework].option_table("unavailable").owners())
    for process, trace in zip(output["processes"], traces, strict=True):
        command = process["command"]
        assert [token.text for token in trace.argv] == command["argv"]
        assert [token.text for token in trace.env] == [
            f"{k}={v}" for k, v in command["env"].items()
        ]
        texts = [file["text"].splitlines() for file in process["launch_files"]]
        assert [[line.text for line in file.lines] for file in trace.files] == texts
        for token in every(trace):
            assert token.origin.why, token
            # What only the core's general words describe is something that an explain.py forgot.
            assert token.origin.why not in {*owners, "set by the adapter", "belongs to the program"}
            assert (token.origin.source == "adapter") == (token.origin.pointer == ""), token
            if token.origin.pointer:
                at(request, token.origin.pointer)


@pytest.mark.parametrize(("framework", "name"), RENDERS)
def test_a_value_is_the_one_at_its_origin(framework: str, name: str) -> None:
    request, _, traces = traced(framework, name)
    checked = 0
    for trace in traces:
        option = ""
        for token in [*trace.argv, *trace.env]:
            names = token.text.startswith("-") and "/extra_args/" not in token.origin.pointer
            option = token.text.partition("=")[0] if names or "=" in token.text else option
            if names or not token.origin.pointer or option in COMPUTED:
                continue
            value = at(request, token.origin.pointer)
            if isinstance(value, str | int) and not isinstance(value, bool):
                text = token.text if isinstance(value, str) else token.text.rpartition("=")[2]
                assert str(value).rstrip("/") in text, token
                checked += 1
    assert checked > 3 * len(traces)


@pytest.mark.parametrize("framework", sorted(ADAPTERS))
def test_no_explanation_is_stale(framework: str) -> None:
    explanation = ADAPTERS[framework].explanation()
    seen: set[str] = set()
    table = ADAPTERS[framework].option_table("unavailable")
    for parameter in RENDERS:
        if parameter.values[0] != framework:
            continue
        _, output, _ = traced(framework, str(parameter.values[1]))
        for process in output["processes"]:
            seen |= {*process["command"]["argv"], *process["command"]["env"]}
    written = {token.lstrip("-").replace("-", "_") for token in seen}
    aliases = {name: set(table[name].all_names) for name in explanation.OPTIONS if name in table}
    for name in explanation.OPTIONS:
        assert written & {name, *aliases.get(name, ())}, name
    for name in (*explanation.ENVIRONMENT, *explanation.ROUTER, *explanation.PROGRAM):
        assert name in seen, name


def test_an_adapter_without_explanation_says_what_the_core_knows() -> None:
    adapter = ADAPTERS["vllm"]
    request = read(folders("vllm")["single-context-parallel-render"] / "request.json")
    plain = origins.Unexplained()

    class Silent(type(adapter)):  # type: ignore[misc]
        def explanation(self) -> origins.Unexplained:
            return plain

    silent = Silent.__new__(Silent)
    silent.__dict__.update(adapter.__dict__)
    traces: list[ProcessTrace] = []
    respond(json.dumps(request).encode(), silent, Context("0.32.0", trace=traces.append))
    by_text = {token.text: token.origin.why for token in traces[0].argv}
    assert "tensor" in by_text["--tensor-parallel-size"]


def test_nothing_is_loaded_for_it_until_somebody_asks() -> None:
    import subprocess
    import sys

    program = (
        "import json, sys\n"
        "from inferlab_adapters.adapter import Context\n"
        "from inferlab_adapters.wire import respond\n"
        "from oe_adapter_vllm import ADAPTER\n"
        "respond(sys.stdin.buffer.read(), ADAPTER, Context('0.32.0'))\n"
        "print([m for m in sys.modules if 'origins' in m or 'explain' in m or m == 'yaml'])\n"
    )
    request = (folders("vllm")["single-context-parallel-render"] / "request.json").read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", program], input=request, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.strip() == b"[]"
    assert import_module("oe_adapter_vllm.explain")
