"""The LLM API options of TensorRT-LLM: the file, the patch, and what each may say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from oe_adapter_trtllm import ADAPTER
from oe_adapter_trtllm.options import OWNED, OWNED_KEYS

from tests.golden.tensorrt_llm.cases import ROUTER, named
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    ask,
    check_plan,
    output,
    plan_request,
    refused,
    render_request,
    role,
)
from tests.support.golden import pair, single, supplied

STABLE, CANDIDATE, NEWEST = VERSIONS = ADAPTER.recorded_versions()
PATCH = "extra_llm_api_options_patch"
FILE = ".inferlab/a.yaml"


def planned(request: Json, version: str = NEWEST) -> Json:
    plan = output(ask(ADAPTER, request, version))
    check_plan(request, plan, "tensorrt-llm")
    return plan


def answer(
    request: Json,
    files: Mapping[str, str] | None = None,
    version: str = NEWEST,
    placement: Placement | None = None,
) -> Json:
    plan = planned(request, version)
    render = render_request(request, plan, allocate(plan, placement))
    render["input"]["render_inputs"] = supplied(files or {})
    return ask(ADAPTER, render, version)


def yamls(request: Json, files: Mapping[str, str] | None = None, version: str = NEWEST) -> Json:
    """What every process is given, as data by process."""
    processes = output(answer(request, files, version))["processes"]
    return {
        process["process"]: yaml.safe_load(process["launch_files"][0]["text"])
        if process["launch_files"]
        else None
        for process in processes
    }


def patch_refusal(keys: Json, version: str = NEWEST, **settings: Any) -> str:
    """What plan says of a patch; a file with the same keys must be refused at render."""
    code, message = refused(ask(ADAPTER, single(**{PATCH: keys}, **settings), version))
    assert code == "invalid_settings"
    request = named("llama", single(extra_llm_api_options="a.yaml", **settings))
    code, again = refused(answer(request, {FILE: json.dumps(keys)}, version))
    assert code == "invalid_request"
    assert again.startswith("/input/render_inputs/0: ")
    assert f' in "{FILE}" ' in again
    assert again.count(" | ") == message.count(" | ")
    return message


# -- the path ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ("a.yaml", ".inferlab/a.yaml"),
        ("./a.yaml", ".inferlab/a.yaml"),
        ("b//a.yaml", ".inferlab/b/a.yaml"),
        ("../a.yaml", "a.yaml"),
        ("../b/../a.yaml", "a.yaml"),
        ("b/../../c/a.yaml", "c/a.yaml"),
        ("../.inferlab/a b.yaml", ".inferlab/a b.yaml"),
        ("~/a.yaml", ".inferlab/~/a.yaml"),
        ("..a", ".inferlab/..a"),
        ("-x", ".inferlab/-x"),
    ],
)
def test_a_path_is_planned_from_the_workspace_root(given: str, source: str) -> None:
    plan = planned(single(extra_llm_api_options=given))
    assert plan["render_inputs"] == [{"source_path": source}]
    assert plan["roles"][0]["effective_settings"]["extra_llm_api_options"] == given


@pytest.mark.parametrize(
    "given",
    ["/a.yaml", "//a", "../../a.yaml", "..", "../..", ".", "", "b/", "../", "b/..", "a\0", 1, {}],
)
def test_a_path_that_names_no_file_of_the_workspace_is_refused(given: Any) -> None:
    code, message = refused(ask(ADAPTER, single(extra_llm_api_options=given), NEWEST))
    assert code == "invalid_settings"
    assert message.startswith("/input/roles/0/settings/extra_llm_api_options: ")


def test_two_roles_may_share_a_file() -> None:
    shared = {"extra_llm_api_options": "a.yaml"}
    same = {"extra_llm_api_options": "./a.yaml"}
    request = pair(role("prefill", settings=shared), role("decode", settings=same))
    assert planned(request)["render_inputs"] == [{"source_path": FILE}]
    files = {FILE: "stream_interval: 3\n"}
    assert {data["stream_interval"] for data in yamls(request, files).values()} == {3}


def test_a_file_comes_from_render_alone_and_whole() -> None:
    request = single(extra_llm_api_options="a.yaml")
    assert "is missing: the plan asks for it" in refused(answer(request))[1]
    plan = planned(request)
    render = render_request(request, plan, allocate(plan))
    (given,) = supplied({FILE: "stream_interval: 1\n"})
    render["input"]["render_inputs"] = [given | {"sha256": hashlib.sha256(b"").hexdigest()}]
    assert "does not match the text" in refused(ask(ADAPTER, render, NEWEST))[1]
    render["input"]["render_inputs"] = [given, *supplied({".inferlab/b.yaml": ""})]
    assert "is no planned render input" in refused(ask(ADAPTER, render, NEWEST))[1]


def test_the_place_of_a_fault_is_the_place_of_the_file() -> None:
    request = pair(
        role("prefill", settings={"extra_llm_api_options": "a.yaml"}),
        role("decode", settings={"extra_llm_api_options": "b.yaml"}),
    )
    files = {".inferlab/b.yaml": "a: 1\na: 2\n", FILE: "pp_size: 2\n"}
    code, message = refused(answer(request, files))
    assert code == "invalid_request"
    assert message == (
        f'/input/render_inputs/1: pp_size in "{FILE}" is decided by '
        "outer.pipeline_parallel_size of the parallelism; remove it | "
        '/input/render_inputs/0: ".inferlab/b.yaml" line 2: a is given twice; keep one'
    )


SIGNS = "{}[]:#%@?'\"\n\t\x85\ufeffé"
WORDS = ["a", "kv_cache_config", "dtype", "tp_size", "&x ", "*x", "<<: *x", "!!int ", "!!set "]
WORDS += [": ", ", ", "- ", "\n  ", "---", "|\n", "\\ud800", "null", ".nan", "1:30", "0x", "1e9"]


@hypothesis_settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*SIGNS, *WORDS]), max_size=24).map("".join) | st.text())
def test_no_text_of_a_file_is_an_accident(text: str) -> None:
    """Whatever a file holds, the answer is YAML of the same data or a refusal of the file."""
    assume(all(not "\ud800" <= char <= "\udfff" for char in text))
    response = answer(single(extra_llm_api_options="a.yaml"), {FILE: text})
    if response["status"] == "error":
        code, message = refused(response)
        assert code == "invalid_request"
        assert message.startswith("/input/render_inputs/0: ")
        return
    files = output(response)["processes"][0]["launch_files"]
    data = yaml.safe_load(files[0]["text"]) if files else {}
    assert data == (yaml.safe_load(text) or {})


# -- the merge ---------------------------------------------------------------------------------


def test_the_patch_wins_over_the_file_key_by_key() -> None:
    text = "a: {b: [1, 2], c: {d: 1, e: 2}}\nx: {y: 1}\nkeep: null\n"
    over = {"a": {"b": [3], "c": {"d": 9}, "new": True}, "x": 5}
    request = single(extra_llm_api_options="a.yaml", **{PATCH: over})
    assert yamls(request, {FILE: text}) == {
        "server": {
            "a": {"b": [3], "c": {"d": 9, "e": 2}, "new": True},
            "x": 5,
            "keep": None,
        }
    }


@pytest.mark.parametrize("text", ["", "# a comment\n", "{}\n"])
def test_where_there_is_nothing_to_say_there_is_no_file(text: str) -> None:
    request = single(extra_llm_api_options="a.yaml", **{PATCH: {}})
    (process,) = output(answer(request, {FILE: text}))["processes"]
    assert process["launch_files"] == []
    assert "--extra_llm_api_options" not in process["command"]["argv"]


def test_an_option_goes_where_its_section_is() -> None:
    """A section of the YAML hides the option on the command line in older versions."""
    settings = {"free_gpu_memory_fraction": 0.7, "kv_cache_dtype": "fp8"}
    (alone,) = output(answer(single(**settings)))["processes"]
    assert "--free_gpu_memory_fraction" in alone["command"]["argv"]
    assert alone["launch_files"] == []
    beside = single(**settings, **{PATCH: {"kv_cache_config": {"tokens_per_block": 64}}})
    (process,) = output(answer(beside))["processes"]
    assert not {"--free_gpu_memory_fraction", "--kv_cache_dtype"} & {*process["command"]["argv"]}
    assert yaml.safe_load(process["launch_files"][0]["text"]) == {
        "kv_cache_config": {
            "dtype": "fp8",
            "free_gpu_memory_fraction": 0.7,
            "tokens_per_block": 64,
        }
    }


@pytest.mark.parametrize(
    "tokens",
    [
        ["--kv_cache_free_gpu_memory_fraction", "0.7", "--max_seq_len", "9"],
        ["--free_gpu_memory_fraction=0.7", "--max_seq_len", "9"],
    ],
)
def test_also_from_the_extra_arguments(tokens: list[str]) -> None:
    request = pair(role("prefill", settings={"extra_args": tokens}))
    process = output(answer(request))["processes"][0]
    assert process["command"]["argv"][-2:] == ["--max_seq_len", "9"]
    assert not [token for token in process["command"]["argv"] if "fraction" in token]
    data = yaml.safe_load(process["launch_files"][0]["text"])
    assert data["kv_cache_config"]["free_gpu_memory_fraction"] == 0.7


# -- what keys may say -------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "key",
    [*OWNED_KEYS, "tp_size", "pp_size", "cp_size", "ep_size", "cluster_size", "config"],
)
def test_an_owned_key_is_refused_in_every_spelling(key: str, version: str) -> None:
    assert ": is decided by " in patch_refusal({key: 1}, version)
    assert ": is decided by " in patch_refusal({key.replace("_", "-"): 1}, version)


def test_every_owned_option_is_an_owned_key() -> None:
    assert OWNED.keys() < OWNED_KEYS.keys()


def test_a_key_below_the_top_may_be_called_like_an_owned_one() -> None:
    over = {"moe_config": {"backend": "CUTLASS"}, "scheduler_config": {"host": "x"}}
    assert yamls(single(**{PATCH: over}))["server"] == over


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({"enable_overlap_scheduler": False}, "say disable_overlap_scheduler"),
        ({"use_cuda_graph": True}, "say cuda_graph_config"),
        ({"kv_cache_dtype": "fp8"}, "say kv_cache_config.dtype"),
        ({"pytorch_backend_config": {"print_iter_log": True}}, "put print_iter_log at the top"),
        ({"build_config": 1}, "put its keys at the top level"),
    ],
)
def test_a_key_of_old_templates_is_refused(keys: Json, hint: str, version: str) -> None:
    assert hint in patch_refusal(keys, version)


@pytest.mark.parametrize(
    ("keys", "settings", "both"),
    [
        ({"max_seq_len": 8}, {"max_seq_len": 9}, "max_seq_len: 9 there, 8 here"),
        (
            {"max_seq_len": 8},
            {"extra_args": ["--max_seq_len=9"]},
            "--max_seq_len: 9 there, 8 here",
        ),
        ({"trust_remote_code": True}, {"trust_remote_code": False}, "false there, true here"),
        ({"telemetry_config": {"disabled": True}}, {"telemetry": True}, "true there, true here"),
        (
            {"telemetry_config": {"disabled": True}},
            {"extra_args": ["--no-telemetry"]},
            "--no-telemetry: false there, true here",
        ),
        (
            {"kv_cache_config": {"dtype": "auto"}},
            {"kv_cache_dtype": "fp8"},
            'kv_cache_dtype: "fp8" there, "auto" here',
        ),
        (
            {"kv_cache_config": {"free_gpu_memory_fraction": 0.5}},
            {"extra_args": ["--kv_cache_free_gpu_memory_fraction", "0.6"]},
            "--kv_cache_free_gpu_memory_fraction: 0.6 there, 0.5 here",
        ),
        ({"revision": "main"}, {"hf_revision": "v2"}, 'hf_revision: "v2" there, "main" here'),
        (
            {"env_overrides": {"A": "1"}},
            {"extra_env": {"A": "1"}},
            'is also in extra_env: "1" there, "1" here',
        ),
    ],
)
def test_nothing_stands_in_two_places(keys: Json, settings: Json, both: str) -> None:
    message = patch_refusal(keys, **settings)
    assert both in message
    assert message.endswith("; keep one")


def test_an_option_that_no_catalogue_has_counts_too() -> None:
    request = single(**{PATCH: {"brand_new": 1}}, extra_args=["--brand_new", "2"])
    assert "is also set by --brand_new" in refused(ask(ADAPTER, request, "1.9"))[1]
    request = single(**{PATCH: {"brand_new": 1}}, brand_new=2)
    assert "is also set by brand_new: 2 there, 1 here" in refused(ask(ADAPTER, request, "1.9"))[1]


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "TRTLLM_USE_UCX_KVCACHE", "PMIX_RANK", "TRITON_CACHE_DIR"]
)
def test_the_environment_of_the_workers_is_checked_like_ours(name: str) -> None:
    message = patch_refusal({"env_overrides": {name: "1", "NCCL_DEBUG": "INFO"}})
    assert f"/{PATCH}/env_overrides/{name}: is decided by " in message
    assert "NCCL_DEBUG" not in message


@pytest.mark.parametrize("value", [1, "x", [], True])
@pytest.mark.parametrize("key", ["kv_cache_config", "cache_transceiver_config"])
def test_a_section_that_we_write_into_is_a_mapping(key: str, value: Any) -> None:
    request = pair(role("decode", settings={}), role("prefill", settings={PATCH: {key: value}}))
    code, message = refused(ask(ADAPTER, request, NEWEST))
    assert code == "invalid_settings"
    assert message.startswith(f"/input/roles/1/settings/{PATCH}/{key}: must be a mapping, got ")


@pytest.mark.parametrize("text", ["kv_cache_config: null\n", "cache_transceiver_config: ~\n"])
def test_null_is_no_section(text: str) -> None:
    request = pair(role("prefill", settings={"extra_llm_api_options": "a.yaml"}))
    assert "must be a mapping, got null" in refused(answer(request, {FILE: text}))[1]


# -- prefill and decode ------------------------------------------------------------------------

RULES: list[tuple[str, Json, str]] = [
    ("prefill", {"cache_transceiver_config": {"backend": "UCX"}}, 'must be "NIXL", got "UCX"'),
    ("decode", {"cache_transceiver_config": {"backend": "nixl"}}, 'must be "NIXL", got "nixl"'),
    ("decode", {"cache_transceiver_config": {"backend": "DEFAULT"}}, 'must be "NIXL"'),
    ("prefill", {"kv_cache_config": {"enable_block_reuse": True}}, "must be false, got true"),
    ("decode", {"kv_cache_config": {"enable_block_reuse": True}}, "must be false, got true"),
    ("decode", {"kv_cache_config": {"enable_block_reuse": 0}}, "must be false, got 0"),
    ("prefill", {"disable_overlap_scheduler": False}, "must be true, got false"),
]


@pytest.mark.parametrize("router", ["builtin", ROUTER])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("kind", "keys", "message"), RULES)
def test_a_value_against_the_transfer_is_refused(
    kind: str, keys: Json, message: str, version: str, router: str
) -> None:
    """In the patch by plan; in the file by render, also where the patch says it right."""
    other = role("decode" if kind == "prefill" else "prefill")
    bad = pair(role(kind, settings={PATCH: keys}), other, routing_backend=router)
    code, said = refused(ask(ADAPTER, bad, version))
    assert code == "invalid_settings"
    assert message in said
    settings = {
        "extra_llm_api_options": "a.yaml",
        PATCH: {
            "cache_transceiver_config": {"backend": "NIXL"},
            "kv_cache_config": {"enable_block_reuse": False},
            "disable_overlap_scheduler": True,
        },
    }
    late = named("llama", pair(role(kind, settings=settings), other, routing_backend=router))
    code, said = refused(answer(late, {FILE: json.dumps(keys)}, version))
    assert code == "invalid_request"
    assert message in said


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        ({"cache_transceiver_config": {"transceiver_runtime": "PYTHON"}}, {}),
        ({"kv_cache_config": {"tokens_per_block": 64}}, {}),
        ({"kv_cache_config": {"dtype": "fp8"}}, {}),
        ({}, {"kv_cache_dtype": "nvfp4"}),
    ],
)
def test_a_pair_must_read_each_other(keys: Json, settings: Json) -> None:
    ours = {PATCH: keys, **settings}
    code, message = refused(ask(ADAPTER, pair(role("prefill", settings=ours)), NEWEST))
    assert code == "invalid_settings"
    assert message.endswith("; set the same in both roles")
    late = pair(role("prefill", settings={"extra_llm_api_options": "a.yaml", **settings}))
    code, message = refused(answer(late, {FILE: json.dumps(keys)}))
    assert code == "invalid_request"
    assert message.endswith("; set the same in both roles")
    both = pair(role("prefill", settings=ours), role("decode", settings=ours))
    assert len(yamls(both)) == 2


def test_defaults_that_are_spelt_out_on_one_side_agree() -> None:
    ours = {PATCH: {"kv_cache_config": {"tokens_per_block": 32, "dtype": "auto"}}}
    assert len(yamls(pair(role("prefill", settings=ours)))) == 2


# -- shapes, names, ranks, hosts ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({}, (1, 1, 1, 1, 1, 1, 1)),
        ({"attention": {"data": 4}}, (4, 1, 1, 4, 4, 1, 4)),
        ({"attention": {"tensor": 4}}, (4, 1, 4, 1, 4, 1, 4)),
        ({"outer": {"tensor": 8}, "experts": {"expert": 2}}, (8, 1, 8, 1, 4, 2, 8)),
        ({"outer": {"tensor": 8}, "experts": {"tensor": 2}}, (8, 1, 8, 1, 2, 4, 8)),
        ({"outer": {"tensor": 4, "pipeline": 2}}, (4, 2, 4, 1, 4, 1, 8)),
        ({"outer": {"tensor": 4}, "attention": {"data": 4, "tensor": 1}}, (4, 1, 1, 4, 4, 1, 4)),
    ],
)
def test_a_shape_is_completed(shape: Json, expected: tuple[int, ...]) -> None:
    plan = planned(plan_request(role(**shape)))
    sizes = plan["roles"][0]["effective_parallelism"]
    assert expected == (
        sizes["outer"]["tensor_parallel_size"],
        sizes["outer"]["pipeline_parallel_size"],
        sizes["attention"]["tensor_parallel_size"],
        sizes["attention"]["data_parallel_size"],
        sizes["experts"]["tensor_parallel_size"],
        sizes["experts"]["expert_parallel_size"],
        plan["replicas"][0]["device_count"],
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"outer": {"tensor": 8}, "attention": {"data": 2}}, "must be 1 or 8, got 2"),
        ({"outer": {"tensor": 1}, "attention": {"data": 2}}, "must be 1, got 2"),
        ({"attention": {"tensor": 2, "data": 4}}, "must be 1 or 8, got 4"),
        ({"outer": {"tensor": 8}, "attention": {"tensor": 4}}, "must be 8, got 4"),
        ({"outer": {"tensor": 8}, "attention": {"data": 8, "tensor": 8}}, "must be 1, got 8"),
        ({"outer": {"tensor": 6}, "experts": {"expert": 4}}, "must be 1, 2, 3 or 6, got 4"),
        ({"outer": {"tensor": 6}, "experts": {"tensor": 4}}, "must be 6, got 4"),
        (
            {"outer": {"tensor": 8}, "experts": {"expert": 4, "tensor": 4}},
            "must be 2, got 4",
        ),
        ({"attention": {"context": 2}}, "must be 1, got 2"),
        ({"experts": {"data": 2}}, "must be 1, got 2"),
        ({"experts": {"dense_tensor": 2}}, "must be 1, got 2"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(shape: Json, message: str) -> None:
    code, said = refused(ask(ADAPTER, plan_request(role(**shape)), NEWEST))
    assert code == "invalid_settings"
    assert message in said


def test_an_experts_tensor_size_alone_is_honoured() -> None:
    request = plan_request(role(outer={"tensor": 8}, experts={"tensor": 2}))
    argv = output(answer(request))["processes"][0]["command"]["argv"]
    assert argv[argv.index("--moe_expert_parallel_size") + 1] == "4"


def test_ranks_of_one_device_enter_one_mpi_job() -> None:
    request = plan_request(role(outer={"tensor": 4}, settings={PATCH: {"stream_interval": 2}}))
    processes = output(answer(request, placement=Placement(ranks={"serve": 4})))["processes"]
    commands = {
        tuple(token for token in process["command"]["argv"] if "/cache/" not in token)
        for process in processes
    }
    (argv,) = commands
    assert argv[:3] == ("trtllm-llmapi-launch", "python3", "-m")
    assert argv[argv.index("--gpus_per_node") + 1] == "1"
    assert argv[argv.index("--host") + 1] == "10.0.0.1"


@pytest.mark.parametrize(
    "locator", ["/a b", "/a\tb", "/a\nb", "/models/*", "/m?", "/m[1]", "/m\\x", "/a\u00a0b"]
)
def test_a_word_that_the_launcher_would_take_apart_is_refused(locator: str) -> None:
    request = plan_request(role(outer={"tensor": 2}))
    placement = Placement(ranks={"serve": 2}, model_locator=locator)
    code, message = refused(answer(request, placement=placement))
    assert code == "invalid_request"
    assert message.startswith("/input/allocations/0: trtllm-llmapi-launch would take ")
    assert output(answer(request, placement=Placement(model_locator=locator)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_of_several_devices_are_refused(ranks: int) -> None:
    request = plan_request(role(outer={"tensor": 16}))
    code, message = refused(answer(request, placement=Placement(ranks={"serve": ranks})))
    assert code == "invalid_request"
    assert message.startswith("/input/allocations/0/rank_count: ")


def test_caches_that_a_process_a_device_would_fight_over_are_not_shared() -> None:
    def names(size: int) -> set[str]:
        request = plan_request(role(outer={"tensor": size}))
        return set(output(answer(request))["processes"][0]["command"]["env"])

    assert names(1) - names(2) == {"FLASHINFER_WORKSPACE_BASE"}


def test_profiles_stand_below_the_cache() -> None:
    (process,) = output(answer(plan_request(role(), profiling=True)))["processes"]
    assert process["command"]["env"]["TLLM_TORCH_PROFILER_DIR"] == "/cache/server/profiles"
