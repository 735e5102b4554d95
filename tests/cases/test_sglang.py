"""Launch faults that people met in public, as requests to the SGLang adapter.

Every test carries the number of its row in the list of launch faults; a row stands for a kind
of fault, so other members of the kind are asked for too. What the tests say about SGLang's
options holds for the recorded catalogues 0.5.10, 0.5.21 and 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, reduce
from operator import getitem
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.cases.asking import (
    INV,
    REQ,
    TOGETHER,
    Engine,
    Reading,
    Sizes,
    after,
    on_first,
    servers_of,
    wire_sizes,
)
from tests.golden.sglang.cases import CASES
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    argv_of,
    env_of,
    output,
    plan_request,
    refused,
    render_request,
    role,
)
from tests.support.golden import pair, single

SGLANG = Engine(ADAPTERS["sglang"], "0.5.23")
VERSIONS = ("0.5.10", "0.5.21", "0.5.23")
UNLISTED = ("0.4.0", "0.99.0", "unavailable")
ROUTER = "sglang-router"
KVS = ("nixl", "mooncake")
START = ["python3", "-m", "sglang.launch_server", "--model-path"]


@cache
def golden() -> list[tuple[str, Json, list[Json], Json]]:
    """Every golden deployment: (name, plan, allocations, rendered)."""
    return [
        (case.name, *SGLANG.serve(case.request, case.placement, case.version)) for case in CASES
    ]


def servers() -> Iterator[tuple[str, Json, list[str]]]:
    """Every SGLang process of every golden deployment: (name, allocation, argv)."""
    return servers_of(golden())


def tensor(size: int, kind: str = "serve") -> Json:
    return role(kind, outer={"tensor": size})


# -- A. the flag is wrong for the version ------------------------------------------------------


def test_row_8_an_option_is_checked_against_the_version_that_is_there() -> None:
    """Row 8: an example used a switch that the nightly no longer had, and cost a job."""
    gone = "--disable-piecewise-cuda-graph"
    assert [SGLANG.table(v).read(gone) is not None for v in VERSIONS] == [True, False, False]
    request = single(extra_args=[gone])
    assert SGLANG.argv(request, version="0.5.10")[-1] == gone
    for version in VERSIONS[1:]:
        message = SGLANG.settings_refusal({"extra_args": [gone]}, version)
        assert f'"{gone}" was removed in a release after SGLang 0.5.19; say cuda_' in message
        setting = {gone[2:].replace("-", "_"): True}
        assert "was removed in a release after" in SGLANG.settings_refusal(setting, version)


def test_row_8_an_option_that_came_later_is_refused_before() -> None:
    """Row 8: the same the other way round, with a command of a newer release."""
    for settings in ({"extra_args": ["--enable-http2"]}, {"enable_http2": True}):
        assert "is no option of version 0.5.10" in SGLANG.settings_refusal(settings, "0.5.10")
    assert SGLANG.argv(single(enable_http2=True))[-1] == "--enable-http2"


@pytest.mark.parametrize("version", VERSIONS)
def test_row_8_a_near_name_is_proposed(version: str) -> None:
    """Row 8: an option that never was is refused with the one that was meant."""
    typo = SGLANG.settings_refusal({"extra_args": ["--max-runing-requests", "8"]}, version)
    assert 'did you mean "--max-running-requests"?' in typo
    typo = SGLANG.settings_refusal({"max_runing_requests": 8}, version)
    assert 'did you mean "max_running_requests"?' in typo


@pytest.mark.parametrize("version", ["0.99.0", "unavailable"])
def test_row_8_an_unlisted_version_keeps_what_nobody_knows(version: str) -> None:
    """Row 8: of a version without a recorded list nobody can say; pass it on and say so."""
    for tokens in (["--disable-piecewise-cuda-graph"], ["--brand-new"], ["--brand-new=1"]):
        request = single(extra_args=tokens)
        assert SGLANG.argv(request, version=version)[-1] == tokens[-1]
        (note,) = SGLANG.notes(request, version)
        assert tokens[0].partition("=")[0] in note
    request = single(brand_new=1)
    assert after(SGLANG.argv(request, version=version), "--brand-new") == "1"
    assert len(SGLANG.notes(request, version)) == 1


# -- B. sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [2, 4, 8])
def test_row_12_attention_data_parallel_divides_the_tensor_group(data: int) -> None:
    """Row 12: data parallel with attention DP was multiplied, and asked for too many GPUs."""
    request = plan_request(role(outer={"tensor": 8}, attention={"data": data}))
    for version in VERSIONS:
        plan, _, rendered = SGLANG.serve(request, version=version)
        assert [replica["device_count"] for replica in plan["replicas"]] == [8]
        attention = plan["roles"][0]["effective_parallelism"]["attention"]
        assert attention["tensor_parallel_size"] == 8 // data
        tokens = argv_of(rendered, "server")
        table = SGLANG.table(version)
        assert after(tokens, table["tp_size"].names[0]) == "8"
        if "attn_dp_size" in table:
            assert after(tokens, "--attn-dp-size") == str(data)
            assert not {"--dp-size", "--data-parallel-size", "--enable-dp-attention"} & set(tokens)
        else:
            assert after(tokens, table["dp_size"].names[0]) == str(data)
            assert tokens.count("--enable-dp-attention") == 1


def test_row_12_each_version_is_spoken_to_in_its_spelling() -> None:
    """Row 12: the older spelling is deprecated in 0.5.23, the newer one unknown before it."""
    known = {version: "attn_dp_size" in SGLANG.table(version) for version in VERSIONS}
    assert known == {"0.5.10": False, "0.5.21": False, "0.5.23": True}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("shape", "field", "message"),
    [
        (
            {"outer": {"tensor": 4}, "attention": {"data": 3}},
            "attention/data",
            "must be 1, 2 or 4, got 3",
        ),
        (
            {"outer": {"tensor": 2}, "attention": {"data": 4}},
            "attention/data",
            "must be 1 or 2, got 4",
        ),
        (
            {"outer": {"tensor": 8}, "attention": {"data": 2, "tensor": 8}},
            "attention/tensor",
            "must be 4, got 8",
        ),
        (
            {"outer": {"tensor": 8}, "attention": {"context": 3}},
            "attention/context",
            "must be 1, 2, 4 or 8, got 3",
        ),
        (
            {"outer": {"tensor": 8}, "attention": {"data": 4, "context": 4}},
            "attention/context",
            "must be 1 or 2, got 4",
        ),
        (
            {"outer": {"tensor": 8}, "experts": {"expert": 3}},
            "experts/expert",
            "must be 1, 2, 4 or 8, got 3",
        ),
        (
            {"outer": {"tensor": 8}, "experts": {"expert": 16}},
            "experts/expert",
            "must be 1, 2, 4 or 8, got 16",
        ),
        (
            {"outer": {"tensor": 8}, "experts": {"expert": 4, "tensor": 8}},
            "experts/tensor",
            "must be 2, got 8",
        ),
        ({"outer": {"tensor": 8}, "experts": {"data": 2}}, "experts/data", "must be 1, got 2"),
        (
            {"outer": {"tensor": 8}, "attention": {"context": 4}, "experts": {"data": 2}},
            "experts/data",
            "must be 1 or 4, got 2",
        ),
        (
            {
                "outer": {"tensor": 8, "pipeline": 2},
                "attention": {"context": 2},
                "experts": {"data": 2},
            },
            "experts/data",
            "must be 1, got 2",
        ),
        (
            {
                "outer": {"tensor": 8},
                "attention": {"context": 2},
                "experts": {"data": 2, "expert": 2},
            },
            "experts/expert",
            "must be 1 or 4, got 2",
        ),
        (
            {"outer": {"tensor": 8}, "experts": {"dense_tensor": 2}},
            "experts/dense_tensor",
            "must be 1 or 8, got 2",
        ),
    ],
)
def test_row_12_a_size_that_does_not_fit_is_refused_with_those_that_do(
    shape: Json, field: str, message: str, version: str
) -> None:
    """Row 12: sizes that SGLang's own checks refuse, or that it forgets to check."""
    code, said = SGLANG.plan_refusal(plan_request(role(**shape)), version)
    assert code == INV
    assert f"/input/roles/0/parallelism/{field}_parallel_size: {message}" in said


def test_row_12_render_refuses_what_plan_refuses() -> None:
    """Row 12: a plan changed behind our back is no way around it."""
    request = plan_request(tensor(4))
    plan = output(SGLANG.ask(request))
    plan["roles"][0]["effective_parallelism"]["attention"]["data_parallel_size"] = 3
    code, message = refused(SGLANG.ask(render_request(request, plan, allocate(plan))))
    assert code == INV
    assert "must be 1, 2 or 4, got 3" in message


PLAIN_DATA_PARALLEL: list[Json] = [
    {"extra_args": ["--dp", "2"]},
    {"extra_args": ["--dp=2"]},
    {"extra_args": ["--dp-size", "2"]},
    {"extra_args": ["--data-parallel-size=2"]},
    {"extra_args": ["--data-p", "2"]},
    {"extra_args": ["--enable-dp-attention"]},
    {"extra_args": ["--enable-dp-att"]},
    {"dp_size": 2},
    {"data_parallel_size": 2},
    {"dp": 2},
    {"enable_dp_attention": True},
]


@pytest.mark.parametrize("version", [*VERSIONS, *UNLISTED])
@pytest.mark.parametrize("settings", PLAIN_DATA_PARALLEL, ids=str)
def test_row_13_plain_data_parallel_is_not_to_be_had(settings: Json, version: str) -> None:
    """Row 13: whole replicas of one server bound one port from many processes."""
    message = SGLANG.settings_refusal(settings, version)
    assert "attention.data_parallel_size" in message or "is no option of version" in message


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("data", [1, 4])
def test_row_13_nodes_and_data_parallel_mean_attention_data_parallel(
    data: int, version: str
) -> None:
    """Row 13: over nodes, every data parallel rank is a part of the one tensor group."""
    request = plan_request(role(outer={"tensor": 16}, attention={"data": data}))
    placement = Placement(ranks={"serve": 2})
    _, allocations, rendered = SGLANG.serve(request, placement, version)
    master = allocations[0]["ports"]["master"]
    where = f"{master['host']}:{master['port']}"
    table = SGLANG.table(version)
    for number, process in enumerate(rendered["processes"]):
        tokens = process["command"]["argv"]
        assert after(tokens, "--nnodes") == "2"
        assert after(tokens, "--node-rank") == str(number)
        assert after(tokens, "--dist-init-addr") == where
        assert after(tokens, table["tp_size"].names[0]) == "16"
        if "attn_dp_size" in table:
            assert "--dp-size" not in tokens
        else:
            plain = table["dp_size"].names[0] in tokens
            assert plain == ("--enable-dp-attention" in tokens) == (data > 1)


def test_row_13_the_ports_that_follow_from_one_are_reserved() -> None:
    """Row 13: with attention data parallel SGLang counts ports up from the rendezvous."""
    request = plan_request(role(count=2, outer={"tensor": 4}, attention={"data": 2}))
    _, allocations, rendered = SGLANG.serve(request, TOGETHER)
    runs = []
    for allocation, process in zip(allocations, rendered["processes"], strict=True):
        first = allocation["ports"]["master"]["port"]
        run = [allocation["ports"][f"master_{offset}"]["port"] for offset in range(1, 14)]
        assert run == list(range(first + 1, first + 14))
        tokens = process["command"]["argv"]
        assert after(tokens, "--dist-init-addr").endswith(f":{first}")
        runs += [first, *run, allocation["endpoint"]["port"]]
    assert len(set(runs)) == len(runs)


@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_row_13_a_run_of_ports_is_needed_at_every_rank(ranks: int) -> None:
    """Row 13: a run with a hole would meet another service's port."""
    request = plan_request(role(outer={"tensor": 6}, attention={"data": 2}))
    spoil = on_first("ports/master_2/port", 9999)
    message = SGLANG.render_refusal(request, spoil, Placement(ranks={"serve": ranks}))
    assert message.startswith("/input/allocations/0/ports/master_2: must be 10.0.0.1 port 8003")
    assert "14 consecutive ports" in message


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([0, 1, 2, 3], "needs 8 devices, allocation has 4"),
        (list(range(16)), "needs 8 devices, allocation has 16"),
    ],
)
@pytest.mark.parametrize("data", [1, 2, 8])
def test_row_16_the_devices_are_those_of_the_tensor_group(
    devices: list[int], message: str, data: int
) -> None:
    """Row 16: a group of eight was started on four, or on as many as data parallel times it."""
    request = plan_request(role(outer={"tensor": 8}, attention={"data": data}))
    assert message in SGLANG.render_refusal(request, on_first("devices", devices))


@pytest.mark.parametrize(
    ("shape", "ranks"),
    [
        ({"tensor": 8, "pipeline": 3}, 2),
        ({"tensor": 3, "pipeline": 2}, 3),
        ({"tensor": 4, "pipeline": 6}, 4),
        ({"tensor": 6, "pipeline": 4}, 6),
    ],
)
def test_row_16_stages_and_nodes_must_fit_into_each_other(shape: Json, ranks: int) -> None:
    """Row 16: SGLang gives a node whole stages or a stage whole nodes, and forgets the rest."""
    request = plan_request(role(outer=shape))
    plan = output(SGLANG.ask(request))
    allocations = allocate(plan, Placement(ranks={"serve": ranks}))
    code, message = refused(SGLANG.ask(render_request(request, plan, allocations)))
    assert code == REQ
    assert message.startswith("/input/allocations/0/rank_count: ")


@pytest.mark.parametrize(
    ("shape", "ranks"),
    [
        ({"tensor": 8, "pipeline": 4}, 2),
        ({"tensor": 8, "pipeline": 2}, 4),
        ({"tensor": 8, "pipeline": 2}, 2),
        ({"tensor": 2, "pipeline": 3}, 6),
        ({"tensor": 3}, 3),
    ],
)
def test_row_16_stages_on_nodes_that_fit(shape: Json, ranks: int) -> None:
    """Row 16: and where they fit, every node is told the same and its own rank."""
    request, placement = plan_request(role(outer=shape)), Placement(ranks={"serve": ranks})
    _, _, rendered = SGLANG.serve(request, placement)
    numbers = [
        after(process["command"]["argv"], "--node-rank") for process in rendered["processes"]
    ]
    assert numbers == [str(number) for number in range(ranks)]


def what_sglang_reads(tokens: list[str]) -> Reading:
    """The nine sizes that SGLang 0.5.23 makes of a command line, by its own algebra."""

    def size(flag: str) -> int:
        return int(after(tokens, flag)) if flag in tokens else 1

    group, pipeline = size("--tp-size"), size("--pp-size")
    data, context = size("--attn-dp-size"), size("--attn-cp-size")
    expert, expert_data = size("--ep-size"), size("--moe-dp-size")
    assert group % (data * context) == group % (expert * expert_data) == 0
    sizes = {
        ("outer", "tensor"): group,
        ("outer", "pipeline"): pipeline,
        ("attention", "tensor"): group // (data * context),
        ("attention", "data"): data,
        ("attention", "context"): context,
        ("experts", "tensor"): group // (expert * expert_data),
        ("experts", "data"): expert_data,
        ("experts", "expert"): expert,
        ("experts", "dense_tensor"): (
            size("--moe-dense-tp-size") if "--moe-dense-tp-size" in tokens else group
        ),
    }
    return Reading(sizes, devices=group * pipeline)


def visible_or_refused(sizes: Sizes, *others: Json, **fields: Any) -> bool:
    return SGLANG.visible_or_refused(what_sglang_reads, sizes, *others, **fields)


ALONE = {
    ("outer", "tensor"),
    ("outer", "pipeline"),
    ("attention", "tensor"),
    ("attention", "data"),
    ("attention", "context"),
}
"""Sizes that SGLang can have above 1 while the request names no other: the group follows."""


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("key", wire_sizes(), ids=".".join)
def test_row_17_a_single_size_is_visible_or_refused(key: tuple[str, str], size: int) -> None:
    """Row 17: a declared size was accepted, dropped on the way, and devices idled."""
    assert visible_or_refused({key: size}) == (size == 1 or key in ALONE)


@pytest.mark.parametrize("key", wire_sizes(), ids=".".join)
def test_row_17_within_a_group_every_size_has_its_place(key: tuple[str, str]) -> None:
    """Row 17: the experts' sizes too, once there is a group that they can divide."""
    sizes = {("outer", "tensor"): 8, ("attention", "context"): 2, key: 2}
    if key[0] == "experts" and key[1] in ("tensor", "dense_tensor"):
        # Both follow: expert tensor from the expert sizes, dense layers from the whole group.
        assert not visible_or_refused(sizes)
        assert visible_or_refused({**sizes, key: 8})
    elif key == ("attention", "tensor"):
        assert not visible_or_refused(sizes)
        assert visible_or_refused({**sizes, key: 4})
    else:
        assert visible_or_refused(sizes)


@pytest.mark.parametrize("size", [1, 8])
def test_row_17_a_dense_size_of_1_counts_as_asked(size: int) -> None:
    """Row 17: an explicit 1 is another thing than none, which means the whole group."""
    tokens = SGLANG.argv(plan_request(role(outer={"tensor": 8}, experts={"dense_tensor": size})))
    assert ("--moe-dense-tp-size" in tokens) == (size == 1)
    assert what_sglang_reads(tokens).sizes["experts", "dense_tensor"] == size


@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize("other", ["prefill", "decode"])
@pytest.mark.parametrize("key", wire_sizes(), ids=".".join)
def test_row_17_also_with_prefill_and_decode(key: tuple[str, str], other: str, kv: str) -> None:
    """Row 17: the same on either side of a KV transfer."""
    accepted = visible_or_refused({key: 2}, role(other), kv_transfer=kv)
    assert accepted or key not in {("outer", "tensor"), ("attention", "tensor")}


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(wire_sizes()), st.sampled_from([1, 2, 4, 8]), min_size=2),
)
def test_row_17_no_combination_loses_a_size(sizes: dict[tuple[str, str], int]) -> None:
    """Row 17: sizes named together."""
    visible_or_refused(sizes)


TWO_READERS = [
    ["--tp", "4"],
    ["--tp=4"],
    ["--tp-size", "4"],
    ["--tensor-parallel-size=4"],
    ["--tensor-parallel", "4"],
    ["--te", "4"],
    ["--log-level", "debug", "--tp", "4"],
    ["--pp-size=2"],
    ["--pp-s", "2"],
    ["--pipeline-parallel-size", "2"],
    ["--ep", "2"],
    ["--ep=2"],
    ["--ep-size", "2"],
    ["--expert-parallel", "2"],
    ["--moe-dp", "2"],
    ["--moe-dense-tp-size", "1"],
    ["--moe-dense", "1"],
    ["--nnodes", "2"],
    ["--nn", "2"],
    ["--node", "1"],
    ["--dist-init-addr", "10.0.0.9:1"],
    ["--dist-init=10.0.0.9:1"],
    ["--nccl-init-addr", "10.0.0.9:1"],
    ["--nccl-p", "1"],
    ["--base-gpu-id", "4"],
    ["--gpu-id", "2"],
    ["--hos", "0.0.0.0"],
    ["--port=1"],
    ["--por", "1"],
    ["--served-model", "other"],
    ["--model", "other"],
    ["--model=other"],
    ["--model-path", "other"],
    ["--model-pa", "other"],
    ["--config", "sglang.yaml"],
    ["--conf=sglang.yaml"],
    ["--disaggregation-mode", "prefill"],
    ["--disaggregation-m", "prefill"],
    ["--disaggregation-transfer-backend=nixl"],
    ["--disaggregation-t", "nixl"],
    ["--disaggregation-bootstrap-port", "1"],
    ["--disaggregation-b", "1"],
    ["--use-ray"],
    ["--", "--tp", "4"],
]


@pytest.mark.parametrize("version", [*VERSIONS, *UNLISTED])
@pytest.mark.parametrize("tokens", TWO_READERS, ids=" ".join)
def test_row_19_an_owned_option_is_seen_in_every_spelling(tokens: list[str], version: str) -> None:
    """Row 19: two readers of one command line disagreed, and an unsafe launch went through."""
    message = SGLANG.settings_refusal({"extra_args": tokens}, version)
    assert message.startswith("/input/roles/0/settings/extra_args/")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "tokens",
    [["--pp", "2"], ["--tp_size", "4"], ["--tp_size=4"], ["-tp", "4"], ["--tp-size.x", "4"]],
)
def test_row_19_what_looks_like_an_owned_option_is_none(tokens: list[str], version: str) -> None:
    """Row 19: spellings that SGLang's parser would die of: ambiguous, folded, short, dotted."""
    message = SGLANG.settings_refusal({"extra_args": tokens}, version)
    assert "is no option of version" in message


OTHER_NAMES = [
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "expert_parallel_size",
    "attention_context_parallel_size",
    "moe_data_parallel_size",
    "nccl_init_addr",
    "model",
    "served_model",
    "tp",
    "ep",
    "tensor_parallel",
]
"""Names of owned options that are not the catalogue's, and beginnings of such."""


@pytest.mark.parametrize("version", [*VERSIONS, *UNLISTED])
@pytest.mark.parametrize("name", OTHER_NAMES)
def test_row_19_a_setting_is_no_way_around_either(name: str, version: str) -> None:
    """Row 19: a setting is written as an option, so that its other names are the option too."""
    assert "is decided by" in SGLANG.settings_refusal({name: 2}, version)


@pytest.mark.parametrize("version", [*VERSIONS, *UNLISTED])
@pytest.mark.parametrize("name", ["pp", "mod", "dist", "disaggregation", "tp_"])
def test_row_19_what_begins_several_options_is_refused_too(name: str, version: str) -> None:
    """Row 19: an ambiguous beginning is no option, but may be one in a version without a list."""
    flag = f"--{name.replace('_', '-')}"
    for settings in ({name: 2}, {"extra_args": [flag, "2"]}, {"extra_args": [f"{flag}=2"]}):
        SGLANG.settings_refusal(settings, version)


@pytest.mark.parametrize("version", [*VERSIONS, "0.99.0", "unavailable"])
@pytest.mark.parametrize(
    "settings",
    [
        {"max_running_requests": 8, "extra_args": ["--max-running-r", "16"]},
        {"extra_args": ["--max-running-requests", "8", "--max-running-requests=16"]},
        {"extra_args": ["--log-level", "info", "--log-level=debug"]},
        {"trust_remote_code": False, "extra_args": ["--trust-remote"]},
        {"speculative_draft_model_path": "/a", "extra_args": ["--speculative-draft-model", "/b"]},
        {"extra_args": ["--speculative-draft-model", "/a", "--speculative-draft-model-path=/b"]},
    ],
)
def test_row_19_an_option_given_twice_is_seen_in_every_spelling(
    settings: Json, version: str
) -> None:
    """Row 19: of two spellings of one option the parser keeps one, and nobody knows which."""
    assert " a second time: " in SGLANG.settings_refusal(settings, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_row_19_whatever_we_write_nobody_else_may_write(version: str) -> None:
    """Row 19: every option that a golden command line has from us, in each recorded spelling."""
    ours = set()
    for _, plan, _, rendered in golden():
        named = {key for item in plan["roles"] for key in item["effective_settings"]}
        for process in rendered["processes"]:
            if process["role"] == "router":
                continue
            for token in process["command"]["argv"]:
                reading = SGLANG.table(version).read(token) if token.startswith("--") else None
                if reading and reading.option.name not in named:
                    ours.add(reading.option.name)
    ours -= {"max_running_requests", "log_level"}
    assert len(ours) >= 15
    for name in ours:
        option = SGLANG.table(version)[name]
        takes_value = option.kind not in ("switch", "negatable")
        assert "is decided by" in SGLANG.settings_refusal(
            {name: 2 if takes_value else True}, version
        )
        for flag in option.names:
            spellings = [[flag, "2"], [f"{flag}=2"]] if takes_value else [[flag]]
            for tokens in spellings:
                message = SGLANG.settings_refusal({"extra_args": tokens}, version)
                assert "is decided by" in message, tokens


@pytest.mark.parametrize("kv", KVS)
@pytest.mark.parametrize(("prefill", "decode"), [(1, 4), (4, 1), (2, 8)])
def test_row_20_unequal_sides_stay_as_asked_with_one_warning(
    prefill: int, decode: int, kv: str
) -> None:
    """Row 20: unequal tensor parallel fails for some models only, so it is no reason to refuse."""
    request = pair(tensor(prefill, "prefill"), tensor(decode, "decode"), kv=kv)
    plan, _, rendered = SGLANG.serve(request)
    assert [replica["device_count"] for replica in plan["replicas"]] == [prefill, decode]
    for process, size in (("prefill", prefill), ("decode", decode)):
        assert what_sglang_reads(argv_of(rendered, process)).sizes["outer", "tensor"] == size
    (note,) = SGLANG.notes(request)
    assert note.startswith("/input/roles/1: ")
    assert f"is {decode} in decode and {prefill} in prefill" in note


@pytest.mark.parametrize("kv", KVS)
def test_row_20_equal_sides_need_no_warning(kv: str) -> None:
    """Row 20: it is the tensor size of attention that counts, not that of the whole group."""
    assert SGLANG.notes(pair(tensor(4, "prefill"), tensor(4, "decode"), kv=kv)) == []
    spread = role("decode", outer={"tensor": 8}, attention={"data": 4})
    assert SGLANG.notes(pair(tensor(2, "prefill"), spread, kv=kv)) == []
    spread = role("decode", outer={"tensor": 4}, attention={"data": 4})
    assert len(SGLANG.notes(pair(tensor(4, "prefill"), spread, kv=kv))) == 1


# -- C. ranks and the order of tokens ----------------------------------------------------------


def test_rows_22_26_the_entry_point_comes_first_and_the_model_with_it() -> None:
    """Rows 22 and 26: options before the model, or another entry point than the server's."""
    several = 0
    for label, allocation, tokens in servers():
        assert tokens[: len(START)] == START, label
        assert tokens[len(START)] == allocation["model_locator"], label
        several += allocation["rank_count"] > 1
    assert several >= 8


def test_row_23_the_served_name_eats_nothing() -> None:
    """Row 23: the served name is followed by another option."""
    for label, allocation, tokens in servers():
        at = tokens.index("--served-model-name")
        assert tokens[at + 1] == "llama-8b", label
        assert tokens[at + 2].startswith("--"), label
        assert tokens.index(allocation["model_locator"]) < at, label


def test_row_25_every_rank_binds_its_own_endpoint() -> None:
    """Row 25: a follower of SGLang answers its own health check, at the address it was given."""
    request = plan_request(tensor(16))
    _, allocations, rendered = SGLANG.serve(request, Placement(ranks={"serve": 2}))
    for allocation, process in zip(allocations, rendered["processes"], strict=True):
        tokens = process["command"]["argv"]
        assert after(tokens, "--host") == allocation["endpoint"]["host"]
        assert after(tokens, "--port") == str(allocation["endpoint"]["port"])
    for index in range(2):

        def without(allocations: list[Json], index: int = index) -> None:
            del allocations[index]["endpoint"]

        message = SGLANG.render_refusal(request, without, Placement(ranks={"serve": 2}))
        assert message.startswith(f"/input/allocations/{index}/endpoint: is missing")


def test_row_25_ranks_need_a_place_to_meet() -> None:
    """Row 25: without the rendezvous of rank 0 every node would wait for itself."""

    def without(allocations: list[Json]) -> None:
        del allocations[0]["ports"]["master"]

    message = SGLANG.render_refusal(
        plan_request(tensor(16)), without, Placement(ranks={"serve": 2})
    )
    assert message == "/input/allocations/0/ports/master: is missing: the plan asks for it"


def test_row_25_a_lone_process_is_no_node() -> None:
    """Row 25: and one process alone says nothing of nodes, nor meets anybody."""
    tokens = SGLANG.argv(plan_request(tensor(8)))
    assert not {"--nnodes", "--node-rank", "--dist-init-addr"} & set(tokens)


@pytest.mark.parametrize("router", ["builtin", ROUTER])
@pytest.mark.parametrize("kv", KVS)
def test_row_27_all_ranks_of_a_prefill_meet_at_the_port_of_rank_0(kv: str, router: str) -> None:
    """Row 27: every node of a prefill chose a bootstrap port of its own."""
    request = pair(tensor(4, "prefill"), kv=kv, routing_backend=router)
    plan = output(SGLANG.ask(request))
    allocations = allocate(plan, Placement(ranks={"prefill": 2}))
    first = allocations[0]["ports"]["bootstrap"]["port"]
    allocations[1]["ports"]["bootstrap"]["port"] = first + 3
    rendered = output(SGLANG.ask(render_request(request, plan, allocations)))
    for process in ("prefill-rank-000", "prefill-rank-001"):
        tokens = argv_of(rendered, process)
        assert after(tokens, "--disaggregation-bootstrap-port") == str(first)
    assert "--disaggregation-bootstrap-port" not in argv_of(rendered, "decode")
    if router == ROUTER:
        tokens = argv_of(rendered, "router")
        assert tokens[tokens.index("--prefill") + 2] == str(first)


# -- D. ports and hosts ------------------------------------------------------------------------


@pytest.mark.parametrize("kv", KVS)
def test_row_29_each_server_announces_its_own_address(kv: str) -> None:
    """Row 29: by itself SGLang announces the address of a route, which peers may not reach."""
    request = pair(tensor(2, "prefill"), role("decode", count=2), kv=kv)
    placement = Placement(ranks={"prefill": 2})
    _, allocations, rendered = SGLANG.serve(request, placement)
    for allocation in allocations:
        env = env_of(rendered, allocation["process"])
        assert env["SGLANG_HOST_IP"] == allocation["endpoint"]["host"]
    _, allocations, rendered = SGLANG.serve(request, Placement(hosts=lambda n: f"gpu-{n}.cluster"))
    for allocation in allocations:
        assert "SGLANG_HOST_IP" not in env_of(rendered, allocation["process"]), "no name is an IP"


@pytest.mark.parametrize("name", ["SGLANG_HOST_IP", "HOST_IP", "MASTER_ADDR", "SGLANG_GRPC_PORT"])
def test_rows_29_31_addresses_come_from_the_allocation_alone(name: str) -> None:
    """Rows 29 and 31: an address by environment is one that the control plane does not know."""
    message = SGLANG.settings_refusal({"extra_env": {name: "8000"}})
    assert message.startswith(f"/input/roles/0/settings/extra_env/{name}: is decided by ")


@pytest.mark.parametrize(
    "option", ["grpc_port", "nccl_port", "gated_launch_port", "engine_info_bootstrap_port"]
)
def test_row_31_no_option_opens_a_port_that_nobody_planned(option: str) -> None:
    """Row 31: neither does an option."""
    message = SGLANG.settings_refusal({option: 9000})
    assert message.startswith(f"/input/roles/0/settings/{option}: is decided by the ports ")


@pytest.mark.parametrize("kv", KVS)
def test_row_31_the_bootstrap_server_takes_its_port_on_all_addresses(kv: str) -> None:
    """Row 31: two prefills of a machine need two bootstrap ports, whatever their hosts are."""

    def second_address(allocations: list[Json]) -> None:
        taken = allocations[0]["ports"]["bootstrap"]["port"]
        allocations[1]["ports"]["bootstrap"] = {"host": "10.9.9.9", "port": taken}

    request = pair(role("prefill", count=2), kv=kv)
    message = SGLANG.render_refusal(request, second_address, TOGETHER)
    assert 'port bootstrap of "prefill-000"' in message
    assert 'port bootstrap of "prefill-001"' in message


@pytest.mark.parametrize("kv", KVS)
def test_row_32_two_prefills_on_a_host_keep_their_own_bootstrap_ports(kv: str) -> None:
    """Row 32: a router could not tell the bootstrap ports of one machine apart."""
    request = pair(role("prefill", count=2), kv=kv, routing_backend=ROUTER)
    plan = output(SGLANG.ask(request))
    allocations = allocate(plan, TOGETHER)
    for number, allocation in enumerate(allocations[:2]):
        allocation["ports"]["bootstrap"]["port"] = 8998 + number
    # The order of the allocations is not that of the replicas.
    shuffled = [allocations[1], allocations[3], allocations[0], allocations[2]]
    rendered = output(SGLANG.ask(render_request(request, plan, shuffled)))
    tokens = argv_of(rendered, "router")
    first, second, decode = (
        f"http://10.0.0.1:{allocation['endpoint']['port']}" for allocation in allocations[:3]
    )
    at = tokens.index("--prefill")
    assert tokens[at : at + 6] == ["--prefill", first, "8998", "--prefill", second, "8999"]
    assert tokens[at + 6 : at + 8] == ["--decode", decode]
    for number in range(2):
        mine = argv_of(rendered, f"prefill-00{number}")
        assert after(mine, "--disaggregation-bootstrap-port") == str(8998 + number)


@pytest.mark.parametrize("kv", KVS)
def test_row_33_prefill_takes_two_tokens_and_decode_one(kv: str) -> None:
    """Row 33: --prefill is a URL and a port, --decode is a URL alone."""
    tokens = SGLANG.argv(pair(kv=kv, routing_backend=ROUTER), "router")
    at = tokens.index("--prefill")
    assert tokens[at + 1].startswith("http://")
    assert tokens[at + 2].isdigit()
    assert tokens[at + 3] == "--decode"
    assert tokens[at + 4].startswith("http://")
    assert tokens[at + 5].startswith("--")


def test_row_33_the_registry_is_asked_for_what_the_router_was_told() -> None:
    """Row 33: the router is ready only when all its servers are, bootstrap port and all."""
    plan = output(SGLANG.ask(pair(routing_backend=ROUTER)))
    ready = plan["replicas"][-1]["primary_readiness"]
    assert ready["kind"] == "http_target_registry"
    assert (ready["readiness_path"], ready["registry_path"]) == ("/readiness", "/workers")
    assert ready["prefill_bootstrap_port"] == "bootstrap"
    assert "bootstrap" in plan["replicas"][0]["ports"]


def test_row_33_metrics_of_the_router_stay_on_its_own_host() -> None:
    """Row 33: by itself the router opens its metrics on every interface, at one fixed port."""
    for name, _, allocations, rendered in golden():
        if allocations[-1]["role"] == "router":
            tokens, metrics = argv_of(rendered, "router"), allocations[-1]["ports"]["prometheus"]
            assert after(tokens, "--prometheus-host") == metrics["host"] != "0.0.0.0", name
            assert after(tokens, "--prometheus-port") == str(metrics["port"]), name


@pytest.mark.parametrize("kv", KVS)
def test_row_35_ipv6_is_bare_to_bind_and_bracketed_in_urls(kv: str) -> None:
    """Row 35: a URL of a bare IPv6 address has its port read as one more group."""
    request = pair(
        tensor(2, "prefill"),
        role("decode", outer={"tensor": 2}, attention={"data": 2}),
        kv=kv,
        routing_backend=ROUTER,
    )
    placement = Placement(ranks={"prefill": 2}, hosts=lambda index: f"fd00::{index + 1}")
    _, allocations, rendered = SGLANG.serve(request, placement)
    for process in ("prefill-rank-000", "prefill-rank-001"):
        tokens = argv_of(rendered, process)
        assert after(tokens, "--dist-init-addr") == "[fd00::1]:8002"
    assert after(argv_of(rendered, "prefill-rank-001"), "--host") == "fd00::2"
    assert env_of(rendered, "prefill-rank-001")["SGLANG_HOST_IP"] == "fd00::2"
    assert after(argv_of(rendered, "decode"), "--dist-init-addr") == "[fd00::3]:8001"
    router = argv_of(rendered, "router")
    assert after(router, "--host") == "[fd00::4]"
    assert after(router, "--prometheus-host") == "fd00::4"
    bootstrap = allocations[0]["ports"]["bootstrap"]["port"]
    at = router.index("--prefill")
    assert router[at : at + 3] == ["--prefill", "http://[fd00::1]:8000", str(bootstrap)]
    assert after(router, "--decode") == "http://[fd00::3]:8000"


# -- E. JSON, booleans, lists ------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_row_40_a_switch_without_an_off_form_is_off_by_not_being_there(version: str) -> None:
    """Row 40: most switches of SGLang have no negative form; false says what absence says."""
    for name in ("trust_remote_code", "disable_radix_cache", "enable_metrics"):
        flag = f"--{name.replace('_', '-')}"
        assert SGLANG.table(version)[name].kind == "switch"
        assert flag in SGLANG.argv(single(**{name: True}), version=version)
        tokens = SGLANG.argv(single(**{name: False}), version=version)
        assert tokens == SGLANG.argv(single(), version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_row_40_an_off_form_is_written_where_there_is_one(version: str) -> None:
    """Row 40: and where SGLang has one, false must not vanish."""
    table = SGLANG.table(version)
    negatable = [option for option in table.options.values() if option.kind == "negatable"]
    assert negatable
    for option in negatable:
        tokens = SGLANG.argv(single(**{option.name: False}), version=version)
        assert option.negative[0] in tokens
        assert option.names[0] not in tokens


@pytest.mark.parametrize("version", UNLISTED)
def test_row_40_an_unlisted_switch_cannot_be_switched_off(version: str) -> None:
    """Row 40: nobody knows whether an unlisted switch has a negative form, so false is refused."""
    message = SGLANG.settings_refusal({"enable_brand_new": False}, version)
    assert "cannot be switched off" in message
    assert SGLANG.argv(single(enable_brand_new=True), version=version)[-1] == "--enable-brand-new"


@pytest.mark.parametrize("name", ["base:lora", ":", "a:b:c"])
def test_row_43_a_served_name_with_a_colon_is_refused(name: str) -> None:
    """Row 43: SGLang reads what follows a colon as the name of an adapter."""
    request = plan_request(role(), model={"id": "m", "served_name": name})
    code, message = SGLANG.plan_refusal(request)
    assert code == INV
    assert message.startswith("/input/model/served_name: ")


# -- F. environment and devices ----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("option", ["base_gpu_id", "gpu_id_step"])
def test_row_48_devices_are_not_chosen_by_option(option: str, version: str) -> None:
    """Row 48: SGLang counts devices up from an option of its own; the allocation has them."""
    for settings in ({option: 2}, {"extra_args": [f"--{option.replace('_', '-')}=2"]}):
        assert "is decided by the devices" in SGLANG.settings_refusal(settings, version)


HTTP_TAKEN_AWAY: list[Json] = [
    {"grpc_mode": True},
    {"extra_args": ["--grpc-mode"]},
    {"extra_args": ["--grpc-m"]},
    {"encoder_only": True},
    {"use_ray": True},
    {"ssl_keyfile": "/key"},
    {"ssl_certfile": "/certificate"},
    {"extra_args": ["--ssl-keyfile=/key"]},
    {"api_key": "secret"},
    {"admin_api_key": "secret"},
    {"extra_args": ["--api-key", "secret"]},
]


@pytest.mark.parametrize("version", [*VERSIONS, *UNLISTED])
@pytest.mark.parametrize("settings", HTTP_TAKEN_AWAY, ids=str)
def test_row_50_nothing_takes_the_http_server_away(settings: Json, version: str) -> None:
    """Row 50: an option put another server in the place of the one that everybody waits for."""
    assert "is decided by" in SGLANG.settings_refusal(settings, version)


@pytest.mark.parametrize(
    "settings",
    [
        {"smg_grpc_mode": True},
        {"grpc_port": 50051},
        {"extra_args": ["--grpc-port=50051"]},
        {"extra_args": ["--smg-grpc"]},
        {"smg_http_sidecar_port": 9},
        {"extra_args": ["--grpc-http-sidecar-port", "9"]},
    ],
    ids=str,
)
def test_row_50_no_second_server_beside_it(settings: Json) -> None:
    """Row 50: nor one beside it, at a port that nobody planned."""
    for version in VERSIONS[1:]:
        assert "is decided by" in SGLANG.settings_refusal(settings, version)


# -- G. What changes a declared size, and what the router needs ----------------------------------


@pytest.mark.parametrize("backend", ["deepep", "mooncake", "flashinfer", "pplx"])
def test_row_17_an_all_to_all_backend_does_not_choose_expert_parallel(backend: str) -> None:
    """Row 17: SGLang sets expert parallel to the tensor size for most of these backends."""
    settings = {"moe_a2a_backend": backend}
    plain = plan_request(role(outer={"tensor": 4}, settings=settings))
    code, message = SGLANG.plan_refusal(plain)
    assert code == INV
    assert message.startswith("/input/roles/0/settings/moe_a2a_backend: ")
    assert "makes expert parallel 4, this role has 1" in message
    fits = role(outer={"tensor": 4}, experts={"expert": 4}, settings=settings)
    _, _, rendered = SGLANG.serve(plan_request(fits))
    assert after(argv_of(rendered, "server"), "--moe-a2a-backend") == backend


@pytest.mark.parametrize("backend", ["none", "ascend_tp"])
def test_row_17_a_backend_that_changes_nothing_goes_with_any_shape(backend: str) -> None:
    request = plan_request(role(outer={"tensor": 4}, settings={"moe_a2a_backend": backend}))
    _, _, rendered = SGLANG.serve(request)
    assert after(argv_of(rendered, "server"), "--moe-a2a-backend") == backend


def test_row_17_an_option_held_against_the_shape_must_be_a_setting() -> None:
    message = SGLANG.settings_refusal({"extra_args": ["--moe-a2a-b=deepep"]})
    assert message.startswith("/input/roles/0/settings/extra_args/0: ")
    assert message.endswith("put moe_a2a_backend into the settings")


@pytest.mark.parametrize("path", ["endpoint/host", "ports/prometheus/host"])
def test_row_35_the_router_binds_addresses_only(path: str) -> None:
    """Row 35: on a name sglang-router ends, or opens its metrics on every interface."""

    def spoil(allocations: list[Json]) -> None:
        *folders, last = path.split("/")
        reduce(getitem, folders, allocations[-1])[last] = "node1"

    request = pair(routing_backend=ROUTER)
    message = SGLANG.render_refusal(request, spoil)
    assert f"/{path}: " in message
    assert '"node1" is a name' in message
