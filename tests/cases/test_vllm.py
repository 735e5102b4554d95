"""Launch faults that people met in public, as requests to the vLLM adapter.

Every test carries the number of its row in the list of launch faults; a row stands for a kind
of fault, so other members of the kind are asked for too. What the tests say about vLLM's
options holds for the recorded catalogues 0.32.0 and 0.33.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from inferlab_adapters.adapter import Context
from inferlab_adapters.options import OptionTable
from inferlab_adapters.wire import respond
from tests.golden.vllm.cases import CASES, pair, single
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    argv_of,
    ask,
    env_of,
    output,
    plan_request,
    refused,
    render_request,
    role,
    serve,
)
from tests.support.schema import schema

VLLM = ADAPTERS["vllm"]
VERSIONS = ("0.32.0", "0.33.0")
INV, REQ = "invalid_settings", "invalid_request"
TOGETHER = Placement(together=True)


# -- asking ------------------------------------------------------------------------------------


@cache
def table(version: str) -> OptionTable:
    return VLLM.option_table(version)


def argv(request: Json, process: str = "server", version: str = "0.32.0") -> list[str]:
    """The command line that a request ends in."""
    return argv_of(serve(VLLM, request, framework_version=version)[2], process)


def after(tokens: list[str], flag: str) -> str:
    """The value of an option that must stand exactly once."""
    assert tokens.count(flag) == 1, f"{flag} in {tokens}"
    return tokens[tokens.index(flag) + 1]


def plan_refusal(request: Json, version: str = "0.32.0") -> tuple[str, str]:
    return refused(ask(VLLM, request, version))


def settings_refusal(settings: Mapping[str, Any], version: str = "0.32.0") -> str:
    """What plan says against settings of a lone server; render must say the same of them."""
    code, message = plan_refusal(single(**settings), version)
    assert code == INV
    request = single()
    plan = output(ask(VLLM, request, version))
    plan["roles"][0]["effective_settings"] |= settings
    code, again = refused(ask(VLLM, render_request(request, plan, allocate(plan)), version))
    assert (code, again.replace("/effective_settings", "/settings")) == (INV, message)
    return message


def render_refusal(
    request: Json, spoil: Callable[[list[Json]], None], placement: Placement | None = None
) -> str:
    """What render says against allocations changed by ``spoil``."""
    plan = output(ask(VLLM, request))
    allocations = allocate(plan, placement)
    assert ask(VLLM, render_request(request, plan, allocations))["status"] == "ok"
    spoil(allocations)
    code, message = refused(ask(VLLM, render_request(request, plan, allocations)))
    assert code == REQ
    return message


def notes(request: Json, version: str) -> list[str]:
    """What goes to standard error while a plan is made."""
    heard: list[str] = []
    output(ask(VLLM, request, version, heard.append))
    return heard


@cache
def golden() -> list[tuple[str, Json, list[Json], Json]]:
    """Every golden deployment: (name, plan, allocations, rendered)."""
    return [(case.name, *serve(VLLM, case.request, case.placement, case.version)) for case in CASES]


def servers() -> Iterator[tuple[str, Json, list[str]]]:
    """Every vLLM process of every golden deployment: (name, allocation, argv)."""
    for name, _, allocations, rendered in golden():
        for allocation, process in zip(allocations, rendered["processes"], strict=True):
            if allocation["role"] != "router":
                label = f"{name}:{allocation['process']}"
                yield label, allocation, process["command"]["argv"]


def on_first(path: str, value: Any) -> Callable[[list[Json]], None]:
    """Put a value at a path of the first allocation."""

    def spoil(allocations: list[Json]) -> None:
        *parents, last = path.split("/")
        node: Any = allocations[0]
        for part in parents:
            node = node[part]
        node[last] = value

    return spoil


# -- A. the flag is wrong for the version ------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"extra_args": ["--disable-log-requests"]},
        {"extra_args": ["--disable_log_requests"]},
        {"extra_args": ["--seed", "1", "--disable-log-requests=true"]},
        {"disable_log_requests": True},
    ],
)
def test_row_1_a_removed_switch_is_refused_with_its_history(settings: Json) -> None:
    """Row 1: a switch that vLLM dropped kills the server; its new name means the opposite."""
    assert table("0.32.0").read("--disable-log-requests") is None
    message = settings_refusal(settings)
    assert re.search(r"was removed in vLLM 0\.1\d; ", message)
    assert "request logging is off by default, drop it" in message
    assert "enable-log-requests" not in message, "the opposite must not be proposed"


def test_row_1_a_switch_that_came_back_is_passed_on_as_written() -> None:
    """Row 1: vLLM 0.33 takes the old spelling again, as the off form of its successor."""
    reading = table("0.33.0").read("--disable-log-requests")
    assert reading is not None
    assert (reading.option.name, reading.negated) == ("enable_log_requests", True)
    tokens = argv(single(extra_args=["--disable-log-requests"]), version="0.33.0")
    assert tokens[-1] == "--disable-log-requests"
    assert "--enable-log-requests" not in tokens
    message = settings_refusal({"disable_log_requests": True}, "0.33.0")
    assert "write enable_log_requests: false" in message


@pytest.mark.parametrize("gone", ["--disable-log-requests", "--enable-reasoning"])
def test_row_1_an_unlisted_version_keeps_a_removed_switch(gone: str) -> None:
    """Row 1: of a version without a recorded list nobody knows; keep the token and say so."""
    request = single(extra_args=[gone])
    assert argv(request, version="0.10.0")[-1] == gone
    (note,) = notes(request, "0.10.0")
    assert gone in note
    assert "removed in vLLM 0.1" in note


def test_row_1_an_unavailable_version_keeps_the_switch() -> None:
    """Row 1: with no vLLM to be seen the newest list counts, and that one knows the switch."""
    request = single(extra_args=["--disable-log-requests"])
    assert argv(request, version="unavailable")[-1] == "--disable-log-requests"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "flag", ["--num-scheduler-steps", "--use-v2-block-manager", "--task", "--swap-space"]
)
def test_row_1_other_options_of_old_templates_are_refused(flag: str, version: str) -> None:
    """Row 1: further options that vLLM no longer has, of which the parser would die."""
    assert table(version).read(flag) is None
    message = settings_refusal({"extra_args": [flag]}, version)
    assert f'"{flag}" was removed in vLLM 0.' in message
    assert f"/settings/{flag[2:].replace('-', '_')}: was removed in vLLM 0." in settings_refusal(
        {flag[2:].replace("-", "_"): 1}, version
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_row_2_the_reasoning_parser_needs_no_second_switch(version: str) -> None:
    """Row 2: a parser of reasoning was paired with a switch that no longer exists."""
    tokens = argv(single(reasoning_parser="deepseek_r1"), version=version)
    assert after(tokens, "--reasoning-parser") == "deepseek_r1"
    assert "--enable-reasoning" not in tokens
    for settings in ({"enable_reasoning": True}, {"extra_args": ["--enable-reasoning"]}):
        message = settings_refusal(settings, version)
        assert "was removed in vLLM 0." in message
        assert "; reasoning_parser alone is enough" in message


@pytest.mark.parametrize("router", ["builtin", "vllm-router"])
@pytest.mark.parametrize(
    ("kv", "connector"), [("nixl", "NixlConnector"), ("mooncake", "MooncakeConnector")]
)
def test_row_4_both_sides_spell_out_their_transfer(kv: str, connector: str, router: str) -> None:
    """Row 4: a shorthand for the connector is gone, and a side without a config loops."""
    request = pair(role("prefill", outer={"tensor": 4}), kv=kv, routing_backend=router)
    _, _, rendered = serve(VLLM, request, Placement(ranks={"prefill": 2}))
    sides = {
        process["process"]: json.loads(after(process["command"]["argv"], "--kv-transfer-config"))
        for process in rendered["processes"]
        if process["role"] != "router"
    }
    assert {name: config["kv_role"] for name, config in sides.items()} == {
        "prefill-rank-000": "kv_producer",
        "prefill-rank-001": "kv_producer",
        "decode": "kv_consumer",
    }
    assert {config["kv_connector"] for config in sides.values()} == {connector}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"connector": "nixl"},
        {"extra_args": ["--connector", "nixl"]},
        {"kv_connector": "NixlConnector"},
        {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}},
        {"extra_args": ["--kv-transfer-config", "{}"]},
        {"extra_args": ["--kv-transfer-config.kv_role", "kv_both"]},
    ],
)
def test_row_4_no_other_way_to_name_a_connector(settings: Json, version: str) -> None:
    """Row 4: neither the shorthand nor a config by hand gets past the request's kv_transfer."""
    settings_refusal(settings, version)


def test_row_8_an_option_is_checked_against_the_version_that_is_there() -> None:
    """Row 8: an example used a flag of another version and cost a job."""
    given_args = {"extra_args": ["--reasoning-effort-map", "{}"]}
    assert argv(single(**given_args), version="0.33.0")[-2:] == given_args["extra_args"]
    assert "no option of version 0.32.0" in settings_refusal(given_args)
    typo = settings_refusal({"extra_args": ["--max-num-sequences", "8"]})
    assert 'did you mean "--max-num-seqs"?' in typo
    assert argv(single(extra_args=["--brand-new"]), version="0.99.0")[-1] == "--brand-new"
    assert len(notes(single(extra_args=["--brand-new"]), "0.99.0")) == 1


@pytest.mark.parametrize("name", ["brand_new", "new_scheduler", "ragged", "out_of_core"])
def test_row_8_a_new_option_is_not_taken_for_a_short_one(name: str) -> None:
    """Row 8: a name is a name, also where its first letter is a short option."""
    assert f"/{name}: is no option of version 0.32.0" in settings_refusal({name: 1})
    request, flag = single(**{name: 1}), f"--{name.replace('_', '-')}"
    assert after(argv(request, version="0.99.0"), flag) == "1"
    assert len(notes(request, "0.99.0")) == 1


# -- B. sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "devices"),
    [
        ({"outer": {"tensor": 4}, "attention": {"data": 4}}, 16),
        ({"attention": {"data": 4}}, 4),
        ({"outer": {"tensor": 8, "pipeline": 8}, "attention": {"data": 8}}, 512),
        ({"outer": {"tensor": 2}, "attention": {"context": 2}}, 4),
        ({"outer": {"tensor": 4}, "attention": {"data": 2}, "experts": {"expert": 8}}, 8),
    ],
)
def test_row_9_data_parallel_multiplies_devices(shape: Json, devices: int) -> None:
    """Row 9: data parallel was taken for the number of GPUs, or a world outgrew its machines."""
    plan = output(ask(VLLM, plan_request(role(**shape))))
    assert [replica["device_count"] for replica in plan["replicas"]] == [devices]


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([0, 1], "needs 4 devices, allocation has 2"),
        ([], "needs 4 devices, allocation has 0"),
        ([0, 1, 2, 3, 4], "needs 4 devices, allocation has 5"),
        ([0, 1, 2, 2], "names a device twice"),
    ],
)
def test_row_9_an_allocation_of_another_size_is_refused(devices: list[int], message: str) -> None:
    """Row 9: a server must not start on fewer, more or doubled devices."""
    request = plan_request(role(outer={"tensor": 4}))
    assert message in render_refusal(request, on_first("devices", devices))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([0], "needs 4 devices, its 2 allocations have 3"),
        ([0, 1, 2], "needs 4 devices, its 2 allocations have 5"),
        ([2, 3, 4, 5], "needs 4 devices, its 2 allocations have 6"),
    ],
)
def test_row_9_ranks_add_up_to_the_planned_devices(devices: list[int], message: str) -> None:
    """Row 9: over several nodes it is the sum that counts."""
    request, placement = plan_request(role(outer={"tensor": 4})), Placement(ranks={"serve": 2})
    assert message in render_refusal(request, on_first("devices", devices), placement)


def test_row_9_ranks_share_the_devices_evenly() -> None:
    """Row 9: 3 + 1 adds up to 4 and is still no two nodes of one group."""

    def shift(allocations: list[Json]) -> None:
        allocations[0]["devices"], allocations[1]["devices"] = [0, 1, 2], [3]

    request, placement = plan_request(role(outer={"tensor": 4})), Placement(ranks={"serve": 2})
    assert "split 3+1" in render_refusal(request, shift, placement)


@pytest.mark.parametrize(
    ("shape", "ranks"), [({"tensor": 16}, 2), ({"tensor": 8, "pipeline": 4}, 4), ({"tensor": 2}, 2)]
)
def test_row_10_a_group_over_nodes_names_them(shape: Json, ranks: int) -> None:
    """Row 10: a group wider than a node was launched as if the node were everything."""
    request, placement = plan_request(role(outer=shape)), Placement(ranks={"serve": ranks})
    _, allocations, rendered = serve(VLLM, request, placement)
    master = allocations[0]["ports"]["master"]
    for number, process in enumerate(rendered["processes"]):
        tokens = process["command"]["argv"]
        assert after(tokens, "--nnodes") == str(ranks)
        assert after(tokens, "--node-rank") == str(number)
        assert (
            after(tokens, "--master-addr") == master["host"] == allocations[0]["endpoint"]["host"]
        )
        assert after(tokens, "--master-port") == str(master["port"])
        assert ("--headless" in tokens) == (number > 0)
        assert ("--port" in tokens) == (number == 0)
        assert process["command"]["env"]["VLLM_HOST_IP"] == allocations[number]["endpoint"]["host"]


def test_row_10_data_parallel_ranks_over_nodes_meet_at_rank_0() -> None:
    """Row 10: the same launch for data parallel, where every node holds whole ranks."""
    request = plan_request(role(outer={"tensor": 2}, attention={"data": 6}))
    _, allocations, rendered = serve(VLLM, request, Placement(ranks={"serve": 3}))
    master = allocations[0]["ports"]["master"]
    for number, process in enumerate(rendered["processes"]):
        tokens = process["command"]["argv"]
        assert after(tokens, "--data-parallel-size") == "6"
        assert after(tokens, "--data-parallel-size-local") == "2"
        assert after(tokens, "--data-parallel-address") == master["host"]
        assert after(tokens, "--data-parallel-rpc-port") == str(master["port"])
        assert ("--headless" in tokens) == (number > 0)
        if number:
            assert after(tokens, "--data-parallel-start-rank") == str(2 * number)
        else:
            assert "--data-parallel-start-rank" not in tokens, "it would turn on hybrid balancing"


@pytest.mark.parametrize(
    ("shape", "expert", "legal"),
    [
        ({"outer": {"tensor": 8}}, 4, "1 or 8"),
        ({"outer": {"tensor": 8}}, 16, "1 or 8"),
        ({"outer": {"tensor": 4}, "attention": {"data": 2}}, 4, "1 or 8"),
        ({"outer": {"tensor": 2, "pipeline": 2}}, 4, "1 or 2"),
        ({}, 2, "1"),
    ],
)
def test_row_15_experts_spread_over_all_ranks_or_none(shape: Json, expert: int, legal: str) -> None:
    """Row 15: expert parallel over a part of the ranks is asked for and cannot be had."""
    code, message = plan_refusal(plan_request(role(**shape, experts={"expert": expert})))
    assert code == INV
    where = "/input/roles/0/parallelism/experts/expert_parallel_size"
    assert message.startswith(f"{where}: must be {legal}, got {expert}")


def test_row_15_render_refuses_what_plan_refuses() -> None:
    """Row 15: a plan changed behind our back is no way around it."""
    request = plan_request(role(outer={"tensor": 8}))
    plan = output(ask(VLLM, request))
    plan["roles"][0]["effective_parallelism"]["experts"]["expert_parallel_size"] = 4
    code, message = refused(ask(VLLM, render_request(request, plan, allocate(plan))))
    assert code == INV
    assert "must be 1 or 8, got 4" in message


def wire_sizes() -> list[tuple[str, str]]:
    """Every size of the protocol's schema, as (group, name without its ending)."""
    found = []
    for group in ("outer", "attention", "experts"):
        sizes = schema()["$defs"][f"Parallelism{group.capitalize()}"]["properties"]
        found += [(group, name.removesuffix("_parallel_size")) for name in sizes]
    return found


def sizes_that_vllm_reads(tokens: list[str]) -> dict[tuple[str, str], int]:
    """The nine sizes that vLLM makes of a command line, by its own algebra."""

    def size(flag: str) -> int:
        return int(after(tokens, flag)) if flag in tokens else 1

    tensor, pipeline = size("--tensor-parallel-size"), size("--pipeline-parallel-size")
    data, context = size("--data-parallel-size"), size("--prefill-context-parallel-size")
    ranks = tensor * data * context
    expert = ranks if "--enable-expert-parallel" in tokens else 1
    return {
        ("outer", "tensor"): tensor,
        ("outer", "pipeline"): pipeline,
        ("attention", "tensor"): tensor,
        ("attention", "data"): data,
        ("attention", "context"): context,
        ("experts", "tensor"): ranks // expert,
        ("experts", "data"): 1,
        ("experts", "expert"): expert,
        ("experts", "dense_tensor"): 1,
    }


def declare(sizes: Mapping[tuple[str, str], int]) -> Json:
    """The parallelism arguments of a role."""
    groups: Json = {}
    for (group, name), size in sizes.items():
        groups.setdefault(group, {})[name] = size
    return groups


def visible_or_refused(sizes: Mapping[tuple[str, str], int], *others: Json, **fields: Any) -> bool:
    """Whether declared sizes were accepted; then each of them must be on the command line."""
    kind = "serve" if not others else ("prefill", "decode")[others[0]["kind"] == "prefill"]
    roles = sorted([role(kind, **declare(sizes)), *others], key=lambda r: r["kind"], reverse=True)
    request = plan_request(*roles, **fields)
    answer = ask(VLLM, request)
    if answer["status"] == "error":
        code, message = refused(answer)
        assert code == INV
        assert "must be" in message or "takes only" in message
        return False
    process = "server" if kind == "serve" else kind
    plan, _, rendered = serve(VLLM, request)
    read = sizes_that_vllm_reads(argv_of(rendered, process))
    assert {key: read[key] for key in sizes} == dict(sizes)
    devices = next(r["device_count"] for r in plan["replicas"] if r["role_id"] == kind)
    outer = read["outer", "tensor"] * read["outer", "pipeline"]
    assert devices == outer * read["attention", "data"] * read["attention", "context"]
    return True


ALONE = {
    ("outer", "tensor"),
    ("outer", "pipeline"),
    ("attention", "tensor"),
    ("attention", "data"),
    ("attention", "context"),
}
"""Sizes that vLLM can have above 1 while the request names no other."""


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("key", wire_sizes(), ids=".".join)
def test_row_17_a_single_size_is_visible_or_refused(key: tuple[str, str], size: int) -> None:
    """Row 17: a declared size was accepted, dropped on the way, and devices idled."""
    assert visible_or_refused({key: size}) == (size == 1 or key in ALONE)


@pytest.mark.parametrize("kv", ["nixl", "mooncake"])
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
    ["-tp", "4"],
    ["-tp=4"],
    ["-t", "4"],
    ["--tensor-parallel-size=4"],
    ["--tensor_parallel_size", "4"],
    ["--tensor-parallel", "4"],
    ["--seed", "-1", "-tp", "4"],
    ["-dp", "2"],
    ["-dp=2"],
    ["--data_parallel_size=2"],
    ["-dpl", "1"],
    ["-dpr", "0"],
    ["-dpa", "10.0.0.9"],
    ["-dpp", "5"],
    ["-dpn", "1"],
    ["-dph"],
    ["-pp", "2"],
    ["-pcp", "2"],
    ["-ep"],
    ["-e"],
    ["--no-enable-expert-parallel"],
    ["-n", "2"],
    ["-n2"],
    ["-r1"],
    ["--hos", "0.0.0.0"],
    ["--port=1"],
    ["--served-model", "other"],
    ["--model", "other"],
    ["--model=other"],
    ["--config", "vllm.yaml"],
    ["--config=vllm.yaml"],
    ["--headless"],
    ["--kv-transfer-config={}"],
    ["--kv_transfer_config.kv_role", "kv_both"],
    ["--kv-transfer.kv_role", "kv_both"],
    ["--kv-transfer.kv_role=kv_both"],
    ["--", "-tp", "4"],
]


@pytest.mark.parametrize("version", [*VERSIONS, "0.10.0", "0.99.0", "unavailable"])
@pytest.mark.parametrize("tokens", TWO_READERS, ids=" ".join)
def test_row_19_an_owned_option_is_seen_in_every_spelling(tokens: list[str], version: str) -> None:
    """Row 19: two readers of one command line disagreed, and an unsafe launch went through."""
    message = settings_refusal({"extra_args": tokens}, version)
    assert message.startswith("/input/roles/0/settings/extra_args/")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "tokens", [["-tp4"], ["--tp", "4"], ["--tensor-parallel-size.x", "4"], ["-dp.x=2"]]
)
def test_row_19_what_looks_like_an_owned_option_is_none(tokens: list[str], version: str) -> None:
    """Row 19: spellings that vLLM's parser would die of set nothing, and are refused as unknown."""
    assert "is no option of version" in settings_refusal({"extra_args": tokens}, version)


@pytest.mark.parametrize("version", [*VERSIONS, "unavailable"])
@pytest.mark.parametrize(
    "settings",
    [
        {"max_num_seqs": 8, "extra_args": ["--max-num-seq", "16"]},
        {"extra_args": ["--max-num-seqs", "8", "--max_num_seqs=16"]},
        {"extra_args": ["-O3", "--optimization-level", "2"]},
        {"extra_args": ["-cc.mode", "3", "--compilation-config.mode", "2"]},
        {"extra_args": ["-cc.mode", "3", "--compilation.mode", "2"]},
        {"compilation_config": {"mode": 3}, "extra_args": ["--compilation.mode", "2"]},
    ],
)
def test_row_19_an_option_given_twice_is_seen_in_every_spelling(
    settings: Json, version: str
) -> None:
    """Row 19: of two spellings of one option the parser keeps one, and nobody knows which."""
    assert " a second time: " in settings_refusal(settings, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_row_19_whatever_we_write_nobody_else_may_write(version: str) -> None:
    """Row 19: every option that a golden command line has from us, in each recorded spelling."""
    ours = set()
    for name, plan, _, rendered in golden():
        if not name.startswith(("two-node", "1p1d-nixl-two", "2p3d", "single-tp4", "single-con")):
            continue
        named = {key for item in plan["roles"] for key in item["effective_settings"]}
        for process in rendered["processes"]:
            if process["role"] == "router":
                continue
            for token in process["command"]["argv"]:
                reading = table(version).read(token) if token.startswith("--") else None
                if reading and reading.option.name not in {*named, "max_num_seqs"}:
                    ours.add(reading.option.name)
    assert len(ours) >= 16
    for name in ours:
        option = table(version)[name]
        takes_value = option.kind not in ("switch", "negatable")
        assert "is decided by" in settings_refusal({name: 2 if takes_value else True}, version)
        for flag in (*option.names, *option.negative):
            spellings = [[flag, "2"], [f"{flag}=2"]] if takes_value else [[flag]]
            if flag.startswith("--"):
                spellings += [
                    [tokens[0].replace("-", "_").replace("__", "--", 1), *tokens[1:]]
                    for tokens in spellings
                ]
            for tokens in spellings:
                assert "is decided by" in settings_refusal({"extra_args": tokens}, version), tokens


@pytest.mark.parametrize("kv", ["nixl", "mooncake"])
@pytest.mark.parametrize(("prefill", "decode"), [(1, 4), (4, 1), (2, 8)])
def test_row_20_unequal_sides_stay_as_asked(prefill: int, decode: int, kv: str) -> None:
    """Row 20: unequal tensor parallel fails for some models only, so it is no reason to refuse."""
    request = pair(
        role("prefill", outer={"tensor": prefill}), role("decode", outer={"tensor": decode}), kv=kv
    )
    plan, _, rendered = serve(VLLM, request)
    assert [replica["device_count"] for replica in plan["replicas"]] == [prefill, decode]
    for process, size in (("prefill", prefill), ("decode", decode)):
        read = sizes_that_vllm_reads(argv_of(rendered, process))
        assert read["outer", "tensor"] == size


# -- C. ranks and the order of tokens ----------------------------------------------------------


def test_row_22_the_model_follows_serve_at_once() -> None:
    """Row 22: a script put node options between the subcommand and the model."""
    several = 0
    for label, allocation, tokens in servers():
        assert tokens[tokens.index("serve") + 1] == allocation["model_locator"], label
        several += allocation["rank_count"] > 1
    assert several >= 8, "the rule is about nodes: there must be some"


def test_row_23_the_served_name_eats_nothing() -> None:
    """Row 23: the served name takes a list and swallowed the model, so a default was loaded."""
    for label, allocation, tokens in servers():
        at = tokens.index("--served-model-name")
        assert tokens[at + 1] == "llama-8b", label
        assert at + 2 == len(tokens) or tokens[at + 2].startswith("--"), label
        assert tokens.index(allocation["model_locator"]) < at, label


@pytest.mark.parametrize("version", VERSIONS)
def test_row_23_no_list_eats_anything(version: str) -> None:
    """Row 23: every option that takes a list ends at the next option, or at the end."""
    lists = {
        name: ([1, 2] if option.type == "int" else list(option.choices[:2]) or ["one", "two"])
        for name, option in table(version).options.items()
        if option.kind == "list" and not table(version).owner(option)
    }
    assert len(lists) > 5
    tokens = argv(single(**lists), version=version)
    assert tokens[2] == "/models/llama"
    for name, items in lists.items():
        option = table(version)[name]
        if option.repeats:
            assert tokens.count(option.names[0]) == len(items)
            continue
        start = tokens.index(option.names[0]) + 1
        assert tokens[start : start + len(items)] == [str(item) for item in items]
        assert tokens[start + len(items) : start + len(items) + 1] == [] or tokens[
            start + len(items)
        ].startswith("--")


@pytest.mark.parametrize(
    "tokens", [["stray"], ["--enforce-eager", "stray"], ["--seed", "1", "stray"]]
)
def test_row_23_a_stray_positional_is_refused(tokens: list[str]) -> None:
    """Row 23: a token that belongs to no option would be taken for the model."""
    assert '"stray"' in settings_refusal({"extra_args": tokens})


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([(0, 2), (0, 2)], 'rank 0 of replica 0 of role "serve" is also "server-rank-000"'),
        ([(1, 2), (1, 2)], 'rank 1 of replica 0 of role "serve" is also "server-rank-000"'),
        ([(0, 2), (2, 2)], 'rank 2 of replica 0 of role "serve" is out of range'),
        ([(1, 2), (2, 2)], 'rank 2 of replica 0 of role "serve" is out of range'),
        ([(0, 3), (1, 3)], 'says 3, but replica 0 of role "serve" has 2 allocations'),
        ([(0, 1), (1, 1)], 'says 1, but replica 0 of role "serve" has 2 allocations'),
        ([(0, 2), (1, 3)], 'says 3, but replica 0 of role "serve" has 2 allocations'),
        ([(0, 2)], 'says 2, but replica 0 of role "serve" has 1 allocation'),
        ([(1, 2)], 'says 2, but replica 0 of role "serve" has 1 allocation'),
    ],
)
def test_row_25_ranks_are_counted(ranks: list[tuple[int, int]], message: str) -> None:
    """Row 25: a follower whose rank could not be told became a second rank 0."""

    def spoil(allocations: list[Json]) -> None:
        del allocations[len(ranks) :]
        for allocation, (rank, count) in zip(allocations, ranks, strict=True):
            allocation |= {"rank": rank, "rank_count": count}

    request, placement = plan_request(role(outer={"tensor": 4})), Placement(ranks={"serve": 2})
    assert message in render_refusal(request, spoil, placement)


def test_row_25_replicas_are_counted_too() -> None:
    """Row 25: the same for a replica that is missing, or that nobody planned."""
    request = plan_request(role(count=2))

    def drop(allocations: list[Json]) -> None:
        del allocations[1]

    assert 'replica 1 of role "serve" has no allocation' in render_refusal(request, drop)
    assert "replica 2 is not planned" in render_refusal(request, on_first("replica", 2))
    twice = render_refusal(request, on_first("process", "server-001"))
    assert '"server-001" is used twice' in twice


def test_row_26_the_entry_point_is_the_serve_command() -> None:
    """Row 26: the old module entry point ignores headless, and the follower died of it."""
    for label, _, tokens in servers():
        assert tokens[:2] == ["vllm", "serve"], label
        assert not any("api_server" in token for token in tokens if token[0] != "-"), label


def test_row_27_all_ranks_of_a_prefill_meet_at_the_port_of_rank_0() -> None:
    """Row 27: every node of a prefill chose a bootstrap port of its own."""
    request = pair(role("prefill", outer={"tensor": 4}), kv="mooncake")
    _, allocations, rendered = serve(VLLM, request, Placement(ranks={"prefill": 2}))
    first = allocations[0]["ports"]["bootstrap"]["port"]
    allocations[1]["ports"]["bootstrap"]["port"] = first + 3
    plan = output(ask(VLLM, request))
    rendered = output(ask(VLLM, render_request(request, plan, allocations)))
    for process in ("prefill-rank-000", "prefill-rank-001"):
        assert env_of(rendered, process)["VLLM_MOONCAKE_BOOTSTRAP_PORT"] == str(first)
    assert "VLLM_MOONCAKE_BOOTSTRAP_PORT" not in env_of(rendered, "decode")


# -- D. ports and hosts ------------------------------------------------------------------------

WILDCARDS = ["0.0.0.0", "::", "*", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"]
NO_HOSTS = ["", "0", "0x0", "12345", "[fd00::1]", "http://gpu", "fe80::1%eth0", "-x"]
LOOPBACKS = ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LOCALHOST.", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("placement", [Placement(), TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("host", WILDCARDS)
def test_row_29_a_wildcard_is_never_advertised(host: str, placement: Placement) -> None:
    """Row 29: a side channel advertised an address that means "anywhere"."""
    message = render_refusal(pair(), on_first("ports/side_channel/host", host), placement)
    assert message.startswith("/input/allocations/0/ports/side_channel/host: ")
    assert "wildcard" in message


@pytest.mark.parametrize("place", ["ports/side_channel", "endpoint"])
@pytest.mark.parametrize("host", [*WILDCARDS, *NO_HOSTS])
def test_row_29_no_address_is_taken_that_means_none(host: str, place: str) -> None:
    """Row 29: neither is one that vLLM or the resolver reads as all interfaces, or not at all."""
    message = render_refusal(pair(), on_first(f"{place}/host", host))
    assert message.startswith(f"/input/allocations/0/{place}/host: ")


def test_row_29_vllm_reads_none_as_everywhere() -> None:
    """Row 29: the word None as a host makes vLLM listen on every interface."""
    message = render_refusal(single(), on_first("endpoint/host", "None"))
    assert message.startswith("/input/allocations/0/endpoint/host: ")


@pytest.mark.parametrize("host", LOOPBACKS)
def test_row_29_loopback_only_where_the_peer_is(host: str) -> None:
    """Row 29: decode on another machine cannot reach prefill's loopback, and recomputes."""
    message = render_refusal(pair(), on_first("ports/side_channel/host", host))
    assert message.startswith("/input/allocations/0/ports/side_channel/host: ")
    assert "cannot be reached from the other machines" in message
    _, _, rendered = serve(VLLM, pair(), Placement(together=True, hosts=lambda index: host))
    assert env_of(rendered, "prefill")["VLLM_NIXL_SIDE_CHANNEL_HOST"] == host


def test_row_29_each_side_advertises_its_own_address() -> None:
    """Row 29: the address is always set, so that no default is left to advertise."""
    for name, _, allocations, rendered in golden():
        for allocation in allocations:
            if "side_channel" in allocation["ports"]:
                env = env_of(rendered, allocation["process"])
                address = allocation["ports"]["side_channel"]
                assert env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == address["host"], name
                assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == str(address["port"]), name


CLASHES = {
    "both endpoints": ("nixl", 1, "endpoint", 0, "endpoint"),
    "side channel and own endpoint": ("nixl", 0, "side_channel", 0, "endpoint"),
    "both side channels": ("nixl", 1, "side_channel", 0, "side_channel"),
    "side channel and the peer's run": ("nixl", 1, "side_channel", 0, "side_channel_1"),
    "bootstrap and own endpoint": ("mooncake", 0, "bootstrap", 0, "endpoint"),
    "bootstrap and the peer's endpoint": ("mooncake", 0, "bootstrap", 1, "endpoint"),
    "router's metrics and an endpoint": ("nixl", 2, "prometheus", 0, "endpoint"),
    "router and its own metrics": ("nixl", 2, "prometheus", 2, "endpoint"),
}


@pytest.mark.parametrize("name", CLASHES)
def test_row_31_one_port_has_one_owner(name: str) -> None:
    """Row 31: two services of a machine were given one port."""
    kv, mine, my_port, theirs, their_port = CLASHES[name]
    owners: list[str] = []

    def address(allocations: list[Json], index: int, port: str) -> Json:
        process = allocations[index]["process"]
        owners.append(
            f'the endpoint of "{process}"' if port == "endpoint" else f'port {port} of "{process}"'
        )
        found: Json = (allocations[index] | allocations[index]["ports"])[port]
        return found

    def clash(allocations: list[Json]) -> None:
        taken = address(allocations, theirs, their_port)
        address(allocations, mine, my_port)["port"] = taken["port"]

    data = {"data": 2} if "run" in name else None
    request = pair(role("prefill", attention=data), kv=kv, routing_backend="vllm-router")
    message = render_refusal(request, clash, TOGETHER)
    assert len(owners) == 2
    assert all(owner in message for owner in owners), message


def test_row_31_a_second_name_of_a_host_hides_no_clash() -> None:
    """Row 31: host names differ in case and in a closing dot only by looks."""

    def respell(allocations: list[Json]) -> None:
        allocations[1]["endpoint"] = {**allocations[0]["endpoint"], "host": "GPU-1.cluster."}

    placement = Placement(together=True, hosts=lambda index: "gpu-1.cluster")
    message = render_refusal(pair(), respell, placement)
    assert 'the endpoint of "prefill"' in message
    assert 'the endpoint of "decode"' in message


def test_row_31_the_bootstrap_server_takes_its_port_on_all_addresses() -> None:
    """Row 31: vLLM's Mooncake bootstrap listens everywhere, so another address does not help."""

    def second_address(allocations: list[Json]) -> None:
        taken = allocations[0]["ports"]["bootstrap"]["port"]
        allocations[1]["ports"]["bootstrap"] = {"host": "10.9.9.9", "port": taken}

    request = pair(role("prefill", count=2), kv="mooncake")
    message = render_refusal(request, second_address, TOGETHER)
    assert 'port bootstrap of "prefill-000"' in message
    assert 'port bootstrap of "prefill-001"' in message


def test_row_31_rank_0_needs_two_ports() -> None:
    """Row 31: the meeting point of the ranks is no place for HTTP."""

    def clash(allocations: list[Json]) -> None:
        allocations[0]["ports"]["master"] = dict(allocations[0]["endpoint"])

    request, placement = plan_request(role(outer={"tensor": 4})), Placement(ranks={"serve": 2})
    message = render_refusal(request, clash, placement)
    assert 'the endpoint of "server-rank-000"' in message
    assert 'port master of "server-rank-000"' in message


def test_row_31_the_same_port_on_two_machines_is_fine() -> None:
    """Row 31: only one machine's ports are scarce."""
    _, allocations, _ = serve(VLLM, pair())
    assert len({a["endpoint"]["port"] for a in allocations}) == 1


@pytest.mark.parametrize(
    "name", ["VLLM_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_DP_MASTER_PORT"]
)
def test_row_31_ports_come_from_the_allocation_alone(name: str) -> None:
    """Row 31: a port by environment is one that the control plane does not know."""
    message = settings_refusal({"extra_env": {name: "8000"}})
    assert message.startswith(f"/input/roles/0/settings/extra_env/{name}: is decided by ")


def routed(kv: str, placement: Placement) -> tuple[list[Json], list[str]]:
    request = pair(
        role("prefill", count=2), role("decode", count=2), kv=kv, routing_backend="vllm-router"
    )
    _, allocations, rendered = serve(VLLM, request, placement)
    return allocations, argv_of(rendered, "router")


@pytest.mark.parametrize("placement", [Placement(), TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("kv", ["nixl", "mooncake"])
def test_rows_32_33_the_router_pairs_urls_with_bootstrap_ports(
    kv: str, placement: Placement
) -> None:
    """Rows 32 and 33: a router mixed up bootstrap ports, or read a URL as one."""
    allocations, tokens = routed(kv, placement)
    expected: list[str] = []
    for allocation in allocations[:4]:
        endpoint = allocation["endpoint"]
        url = f"http://{endpoint['host']}:{endpoint['port']}"
        expected += [f"--{allocation['role']}", url]
        if kv == "mooncake" and allocation["role"] == "prefill":
            expected.append(str(allocation["ports"]["bootstrap"]["port"]))
    start = tokens.index("--prefill")
    assert tokens[start : start + len(expected)] == expected
    assert tokens[start + len(expected)].startswith("--")


def test_row_35_ipv6_is_bare_to_bind_and_bracketed_in_urls() -> None:
    """Row 35: a URL of a bare IPv6 address has its port read as one more group."""
    request = pair(
        role("prefill", outer={"tensor": 2}),
        role("decode", attention={"data": 2}),
        routing_backend="vllm-router",
    )
    placement = Placement(
        ranks={"prefill": 2, "decode": 2}, hosts=lambda index: f"fd00::{index + 1}"
    )
    _, _, rendered = serve(VLLM, request, placement)
    prefill, decode = argv_of(rendered, "prefill-rank-001"), argv_of(rendered, "decode-rank-001")
    assert after(argv_of(rendered, "prefill-rank-000"), "--host") == "fd00::1"
    assert after(prefill, "--master-addr") == "fd00::1"
    assert after(decode, "--data-parallel-address") == "fd00::3"
    env = env_of(rendered, "decode-rank-001")
    assert env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == env["VLLM_HOST_IP"] == "fd00::4"
    router = argv_of(rendered, "router")
    assert after(router, "--host") == after(router, "--prometheus-host") == "fd00::5"
    assert after(router, "--prefill") == "http://[fd00::1]:8000"
    assert after(router, "--decode") == "http://[fd00::3]:8000"


def test_row_35_ipv6_is_refused_where_vllm_cannot() -> None:
    """Row 35: vLLM's Mooncake bootstrap server listens on IPv4 only."""
    request = pair(kv="mooncake")
    plan = output(ask(VLLM, request))
    allocations = allocate(plan, Placement(hosts=lambda index: f"fd00::{index + 1}"))
    code, message = refused(ask(VLLM, render_request(request, plan, allocations)))
    assert code == REQ
    assert message.startswith("/input/allocations/0/ports/bootstrap/host: is IPv6")


ROUTER_NEEDS = {"--host", "--port", "--vllm-pd-disaggregation", "--prefill", "--decode"}
ROUTER_HAS = ROUTER_NEEDS | {
    "--kv-connector",
    "--policy",
    "--worker-startup-timeout-secs",
    "--worker-startup-check-interval",
    "--prometheus-host",
    "--prometheus-port",
}
"""Of ``vllm-router --help``, vllm-project/router 0.1.17; the Python one has hardly any of them."""


@pytest.mark.parametrize("kv", ["nixl", "mooncake"])
def test_row_37_only_the_rust_router_is_spoken_to(kv: str) -> None:
    """Row 37: two programs are called vllm-router, with different options."""
    _, tokens = routed(kv, Placement())
    assert tokens[0] == "vllm-router"
    assert ROUTER_NEEDS <= {token for token in tokens if token.startswith("-")} <= ROUTER_HAS
    assert after(tokens, "--kv-connector") == kv


# -- E. JSON, booleans, lists ------------------------------------------------------------------

NASTY: list[Any] = [
    {"cudagraph_mode": "FULL DECODE", "ops": ["+silu"]},
    {"a b": 'it\'s "quoted"', "$HOME": "`ls`; rm -rf *", "tab\tand\nline": "\\", "é": "→"},
    {"on": True, "off": False, "n": -1, "x": 0.5, "deep": {"er": [[], {}, [1, "2"]]}},
    {"-x": "--y", "": ""},
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", NASTY)
def test_row_38_a_json_option_is_one_token(value: Json, version: str) -> None:
    """Row 38: JSON was quoted for a shell that was not there, or cut at a space."""
    options = {
        name: option
        for name, option in table(version).options.items()
        if option.kind == "json" and option.shape == "object" and not table(version).owner(option)
    }
    assert len(options) > 20
    tokens = argv(single(**dict.fromkeys(options, value)), version=version)
    for option in options.values():
        token = after(tokens, option.names[0])
        assert json.loads(token) == value
        assert token[0] == "{", "no quotes around it"


def test_row_38_a_value_that_may_also_be_json_is_one_token() -> None:
    """Row 38: the same where an option takes a word or JSON."""
    value = {"a b": [1, "two"]}
    tokens = argv(single(additional_config=value, allowed_origins=["http://a b"]))
    assert json.loads(after(tokens, "--additional-config")) == value
    assert json.loads(after(tokens, "--allowed-origins")) == ["http://a b"]


CLOSED = {
    "kv_connector",
    "kv_role",
    "kv_load_failure_policy",
    "kv_buffer_device",
    "kv_connector_extra_config",
}
"""What we ever say in a transfer config; vLLM's own model refuses unknown names."""


def test_row_39_the_transfer_config_is_closed() -> None:
    """Row 39: configs carried members that vLLM dropped or never knew."""
    seen = set()
    for label, allocation, tokens in servers():
        if "--kv-transfer-config" not in tokens:
            assert allocation["role"] == "serve", label
            continue
        config = json.loads(after(tokens, "--kv-transfer-config"))
        assert config.keys() <= CLOSED, label
        assert config["kv_role"] in {"kv_producer", "kv_consumer"}, label
        seen |= config.keys()
    assert seen == CLOSED


def test_row_39_numbers_stay_what_they_are() -> None:
    """Row 39: an integer came out with an exponent, which the engine's parser refuses."""
    extra = {"kv_lease_duration": 2_000_000_000, "num_threads": 8, "engine_ttl": 2e9}
    request = pair(role("prefill", settings={"kv_connector_extra_config": extra}))
    token = after(argv(request, "prefill"), "--kv-transfer-config")
    sent = json.loads(token)["kv_connector_extra_config"]
    assert {name: (type(value), value) for name, value in sent.items()} == {
        name: (type(value), value) for name, value in extra.items()
    }
    assert '"kv_lease_duration":2000000000' in token
    assert "2e" not in token.lower()


@pytest.mark.parametrize(
    "settings",
    [
        {"kv_rank": 0},
        {"kv_parallel_size": 2},
        {"kv_buffer_size": 2e9},
        {"kv_connector_extra_config": {"backends": ["UCX"]}},
        {"kv_connector_extra_config": {"mooncake_protocol": "tcp"}},
        {"kv_buffer_device": "tpu"},
        {"kv_load_failure_policy": "ignore"},
        {"extra_args": ["--kv-transfer-config.kv_rank", "0"]},
    ],
)
def test_row_39_nothing_else_gets_into_the_config(settings: Json) -> None:
    """Row 39: the members that people copied from old examples are refused."""
    code, message = plan_refusal(pair(role("prefill", settings=settings)))
    assert code == INV
    assert message.startswith("/input/roles/0/settings/")


@pytest.mark.parametrize("version", VERSIONS)
def test_row_40_a_boolean_has_three_states(version: str) -> None:
    """Row 40: false was dropped, so that the engine's default won; true became a value."""
    options = {
        name: option
        for name, option in table(version).options.items()
        if option.kind in ("switch", "negatable") and not table(version).owner(option)
    }
    assert {"enable_auto_tool_choice", "enable_prefix_caching"} <= options.keys()
    shape: Json = {"outer": {"tensor": 2}, "experts": {"expert": 2}}

    def flags(**settings: bool) -> set[str]:
        return set(argv(plan_request(role(**shape, settings=settings)), version=version))

    absent, on, off = (
        flags(),
        flags(**dict.fromkeys(options, True)),
        flags(**dict.fromkeys(options, False)),
    )
    for option in options.values():
        positive, negative = set(option.names), set(option.negative)
        assert not absent & (positive | negative)
        assert on & (positive | negative) == {option.names[0]}
        # A switch without an off form is off unless it is given: false and absent are one.
        assert len(off & negative) == (option.kind == "negatable")
        assert not off & positive
    assert not {"true", "false", "True", "False"} & (on | off)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"extra_args": ["--enable-prefix-caching", "true"]},
        {"extra_args": ["--enable-prefix-caching=false"]},
        {"extra_args": ["--disable-log-stats", "True"]},
        {"enable_prefix_caching": "true"},
        {"enable_prefix_caching": 1},
        {"enable_prefix_caching": "--no-enable-prefix-caching"},
        {"no_enable_prefix_caching": True},
    ],
)
def test_row_40_a_switch_takes_no_word(settings: Json, version: str) -> None:
    """Row 40: a word behind a switch is an error of the parser; better one of ours."""
    settings_refusal(settings, version)


def test_row_40_extra_arguments_cannot_undo_a_setting() -> None:
    """Row 40: the same switch on and off leaves it to chance which one counts."""
    message = settings_refusal(
        {"enable_prefix_caching": False, "extra_args": ["--enable-prefix-caching"]}
    )
    assert "sets enable_prefix_caching a second time" in message


@pytest.mark.parametrize(
    "model", ["/mnt/AI Models/m", "/m/it's", '/m/"q"', "/m/$HOME", "org/name", "/m/ü", "C:\\m"]
)
def test_row_43_a_model_path_is_one_token(model: str) -> None:
    """Row 43: a wrapper cut a path at its space."""
    _, _, rendered = serve(VLLM, single(), Placement(model_locator=model))
    assert argv_of(rendered, "server")[:3] == ["vllm", "serve", model]


@pytest.mark.parametrize("model", ["--help", "-x", "-", "--model=/m", "", "a\0b", None])
def test_row_43_a_model_that_is_no_path_is_refused(model: str | None) -> None:
    """Row 43: a path that a parser reads as an option is not a path."""
    message = render_refusal(single(), on_first("model_locator", model))
    assert message.startswith("/input/allocations/0/model_locator: ")


@pytest.mark.parametrize("name", ["my model", "it's", "ünï", "a,b", "{x}"])
def test_row_43_a_served_name_is_one_token(name: str) -> None:
    """Row 43: the same for the name under which the model is served."""
    request = plan_request(role(), model={"id": "m", "served_name": name})
    assert after(argv(request), "--served-model-name") == name


@pytest.mark.parametrize("name", ["--help", "-x", "", "None", "a\0b"])
def test_row_43_a_served_name_that_is_no_name_is_refused(name: str) -> None:
    """Row 43: names that the parser would take for something else."""
    request = plan_request(role(), model={"id": "m", "served_name": name})
    code, message = plan_refusal(request)
    assert code == REQ
    assert message.startswith("/input/model/served_name: ")


# -- F. environment and devices ----------------------------------------------------------------


@pytest.mark.parametrize("value", ["MIG-8f6d", "GPU-8f6d", "0,1", ""])
@pytest.mark.parametrize(
    "name",
    [
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "ASCEND_RT_VISIBLE_DEVICES",
    ],
)
def test_row_48_devices_are_not_chosen_by_environment(name: str, value: str) -> None:
    """Row 48: a UUID where vLLM wants numbers; and the choice is not ours to make."""
    message = settings_refusal({"extra_env": {name: value}})
    assert message.startswith(f"/input/roles/0/settings/extra_env/{name}: is decided by ")
    assert "control plane" in message


def test_row_48_no_process_chooses_its_devices() -> None:
    """Row 48: nothing that we render does either."""
    for name, _, _, rendered in golden():
        for process in rendered["processes"]:
            assert not [key for key in process["command"]["env"] if "VISIBLE" in key], name
    assert "is decided by the devices" in settings_refusal({"extra_args": ["--device-ids", "0"]})


@pytest.mark.parametrize("device", ["GPU-8f6d", "MIG-8f6d", "0", -1, 1.0, True, None])
def test_row_48_devices_are_numbers(device: Any) -> None:
    """Row 48: a device that is no index is refused at the edge, in one short line."""
    message = render_refusal(single(), on_first("devices", [device]))
    assert message.startswith("/input/allocations/0/devices/0: must be ")
    assert len(message) < 100


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"grpc": True},
        {"extra_args": ["--grpc"]},
        {"grpc_port": 50051},
        {"extra_args": ["--grpc-port=50051"]},
        {"headless": True},
        {"tokens_only": True},
        {"extra_args": ["--tokens-only"]},
        {"extra_args": ["--omni"]},
        {"uds": "/tmp/vllm.sock"},
        {"data_parallel_multi_port_external_lb": True},
        {"api_server_count": 0},
        {"extra_args": ["-asc", "0"]},
        {"extra_args": ["--api-server-count=-1"]},
        {"ssl_keyfile": "/key"},
    ],
)
def test_row_50_nothing_takes_the_http_server_away(settings: Json, version: str) -> None:
    """Row 50: an option put another server in the place of the one that everybody waits for."""
    settings_refusal(settings, version)


# -- G. the edge of the protocol ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "got"),
    [
        (6, "number 6"),
        (6.0, "number 6.0"),
        ("5", 'string "5"'),
        ("6.0", 'string "6.0"'),
        (" 6", 'string " 6"'),
        (True, "boolean true"),
        (["6"], 'array ["6"]'),
        (None, "null"),
    ],
)
def test_row_51_another_protocol_version_is_named_with_its_type(version: Any, got: str) -> None:
    """Row 51: a number where the version is a text, answered as if it were another version."""
    code, message = plan_refusal({**single(), "protocol_version": version})
    assert code == "unsupported_protocol_version"
    assert message == f'/protocol_version: must be the string "6", got {got}'


def test_row_51_a_missing_version_is_a_missing_field() -> None:
    """Row 51: nothing at all is no version that could be unsupported."""
    request = single()
    del request["protocol_version"]
    code, message = plan_refusal(request)
    assert code == REQ
    assert message == "/protocol_version: is missing; add it"


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("compilation_config/pass_config", {"compilation_config": {"pass_config": None}}),
        ("max_num_seqs", {"max_num_seqs": None}),
        ("extra_args/1", {"extra_args": ["--seed", None]}),
        ("extra_env/A~1B", {"extra_env": {"A/B": None}}),
        ("hf_overrides/a/1/b", {"hf_overrides": {"a": [0, {"b": None}]}}),
        ("no_such_option", {"no_such_option": None}),
    ],
)
def test_row_52_null_in_a_setting_is_one_line(path: str, settings: Json) -> None:
    """Row 52: one null deep in a setting was answered with a page of alternatives."""
    code, message = plan_refusal(single(**settings))
    assert code == REQ
    assert message == f"/input/roles/0/settings/{path}: null is not allowed in settings"


def test_row_52_null_is_found_in_every_role_and_in_render() -> None:
    """Row 52: the second role, and a plan on its way back."""
    bad = {"compilation_config": {"pass_config": None}}
    where = "compilation_config/pass_config: null is not allowed in settings"
    message = plan_refusal(pair(decode=role("decode", settings=bad)))[1]
    assert message == f"/input/roles/1/settings/{where}"
    request = single()
    plan = output(ask(VLLM, request))
    plan["roles"][0]["effective_settings"] |= bad
    code, message = refused(ask(VLLM, render_request(request, plan, allocate(plan))))
    assert code == REQ
    assert message == f"/input/roles/0/effective_settings/{where}"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\xff\xfe", "stdin is not UTF-8 (byte 0xff at offset 0)"),
        ("{}".encode("utf-16"), "stdin is not UTF-8 (byte 0xff at offset 0)"),
        ('{"a": "é"}'.encode("latin-1"), "stdin is not UTF-8 (byte 0xe9 at offset 7)"),
        ('"é'.encode()[:-1], "stdin is not UTF-8 (byte 0xc3 at offset 1)"),
        (b'"\xed\xa0\x80"', "stdin is not UTF-8 (byte 0xed at offset 1)"),
        (b"\xef\xbb\xbf{}", "stdin begins with a byte order mark; remove it"),
        (rb'{"a": "\ud800"}', "/a: holds an escaped lone surrogate, which is no Unicode text"),
    ],
)
def test_row_55_what_is_not_utf_8_is_called_so(raw: bytes, message: str) -> None:
    """Row 55: bytes that are no text ended in a traceback."""
    line = respond(raw, VLLM, Context(framework_version="0.32.0"))
    assert refused(json.loads(line)) == (REQ, message)


@pytest.mark.parametrize(
    ("kinds", "topology", "missing"),
    [
        (["decode"], "prefill_decode", "prefill"),
        (["prefill"], "prefill_decode", "decode"),
        (["prefill", "prefill"], "prefill_decode", "decode"),
        ([], "single", "serve"),
        (["prefill"], "single", "serve"),
    ],
)
def test_row_56_a_missing_role_is_named(kinds: list[str], topology: str, missing: str) -> None:
    """Row 56: prefill and decode without one of them."""
    roles = [role(kind, id=f"{kind}-{n}") for n, kind in enumerate(kinds)]
    kv = {"kv_transfer": "nixl"} if topology == "prefill_decode" else {}
    code, message = plan_refusal(plan_request(*roles, topology=topology, **kv))
    takes = "one prefill and one decode" if kv else "one serve"
    assert code == INV
    assert (
        f"/input/roles: the {missing} role is missing; {topology} takes exactly {takes}" in message
    )


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (role("serve"), 'role "serve" of kind serve is one too many'),
        (role("serve", id="third"), 'role "third" of kind serve is one too many'),
        (role("prefill", id="more"), 'role "more" of kind prefill is one too many'),
        (role("router"), 'role "router" of kind router cannot be asked for'),
    ],
)
def test_row_57_a_role_too_many_is_named(extra: Json, named: str) -> None:
    """Row 57: a third role was dropped without a word."""
    request = plan_request(role("prefill"), role("decode"), extra, kv_transfer="nixl")
    code, message = plan_refusal(request)
    assert code == INV
    assert f"/input/roles/2: {named}" in message
