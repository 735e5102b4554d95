"""Launch faults that people met in public, as requests to the vLLM adapter.

Every test carries the number of its row in the list of launch faults; a row stands for a kind
of fault, so other members of the kind are asked for too. What the tests say about vLLM's
options holds for the recorded catalogues 0.32.0 and 0.33.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
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
from tests.cases.test_any import LOOPBACKS
from tests.golden.vllm.cases import CASES
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

VLLM = Engine(ADAPTERS["vllm"], "0.32.0")
VERSIONS = ("0.32.0", "0.33.0")


@cache
def golden() -> list[tuple[str, Json, list[Json], Json]]:
    """Every golden deployment: (name, plan, allocations, rendered)."""
    return [(case.name, *VLLM.serve(case.request, case.placement, case.version)) for case in CASES]


def servers() -> Iterator[tuple[str, Json, list[str]]]:
    """Every vLLM process of every golden deployment: (name, allocation, argv)."""
    return servers_of(golden())


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
    assert VLLM.table("0.32.0").read("--disable-log-requests") is None
    message = VLLM.settings_refusal(settings)
    assert re.search(r"was removed in vLLM 0\.1\d; ", message)
    assert "request logging is off by default, drop it" in message
    assert "enable-log-requests" not in message, "the opposite must not be proposed"


def test_row_1_a_switch_that_came_back_is_passed_on_as_written() -> None:
    """Row 1: vLLM 0.33 takes the old spelling again, as the off form of its successor."""
    reading = VLLM.table("0.33.0").read("--disable-log-requests")
    assert reading is not None
    assert (reading.option.name, reading.negated) == ("enable_log_requests", True)
    tokens = VLLM.argv(single(extra_args=["--disable-log-requests"]), version="0.33.0")
    assert tokens[-1] == "--disable-log-requests"
    assert "--enable-log-requests" not in tokens
    message = VLLM.settings_refusal({"disable_log_requests": True}, "0.33.0")
    assert "write enable_log_requests: false" in message


@pytest.mark.parametrize("gone", ["--disable-log-requests", "--enable-reasoning"])
def test_row_1_an_unlisted_version_keeps_a_removed_switch(gone: str) -> None:
    """Row 1: of a version without a recorded list nobody knows; keep the token and say so."""
    request = single(extra_args=[gone])
    assert VLLM.argv(request, version="0.10.0")[-1] == gone
    (note,) = VLLM.notes(request, "0.10.0")
    assert gone in note
    assert "removed in vLLM 0.1" in note


def test_row_1_an_unavailable_version_keeps_the_switch() -> None:
    """Row 1: with no vLLM to be seen the newest list counts, and that one knows the switch."""
    request = single(extra_args=["--disable-log-requests"])
    assert VLLM.argv(request, version="unavailable")[-1] == "--disable-log-requests"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "flag", ["--num-scheduler-steps", "--use-v2-block-manager", "--task", "--swap-space"]
)
def test_row_1_other_options_of_old_templates_are_refused(flag: str, version: str) -> None:
    """Row 1: further options that vLLM no longer has, of which the parser would die."""
    assert VLLM.table(version).read(flag) is None
    message = VLLM.settings_refusal({"extra_args": [flag]}, version)
    assert f'"{flag}" was removed in vLLM 0.' in message
    assert (
        f"/settings/{flag[2:].replace('-', '_')}: was removed in vLLM 0."
        in VLLM.settings_refusal({flag[2:].replace("-", "_"): 1}, version)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_row_2_the_reasoning_parser_needs_no_second_switch(version: str) -> None:
    """Row 2: a parser of reasoning was paired with a switch that no longer exists."""
    tokens = VLLM.argv(single(reasoning_parser="deepseek_r1"), version=version)
    assert after(tokens, "--reasoning-parser") == "deepseek_r1"
    assert "--enable-reasoning" not in tokens
    for settings in ({"enable_reasoning": True}, {"extra_args": ["--enable-reasoning"]}):
        message = VLLM.settings_refusal(settings, version)
        assert "was removed in vLLM 0." in message
        assert "; reasoning_parser alone is enough" in message


@pytest.mark.parametrize("router", ["builtin", "vllm-router"])
@pytest.mark.parametrize(
    ("kv", "connector"), [("nixl", "NixlConnector"), ("mooncake", "MooncakeConnector")]
)
def test_row_4_both_sides_spell_out_their_transfer(kv: str, connector: str, router: str) -> None:
    """Row 4: a shorthand for the connector is gone, and a side without a config loops."""
    request = pair(role("prefill", outer={"tensor": 4}), kv=kv, routing_backend=router)
    _, _, rendered = VLLM.serve(request, Placement(ranks={"prefill": 2}))
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
    VLLM.settings_refusal(settings, version)


def test_row_8_an_option_is_checked_against_the_version_that_is_there() -> None:
    """Row 8: an example used a flag of another version and cost a job."""
    given_args = {"extra_args": ["--reasoning-effort-map", "{}"]}
    assert VLLM.argv(single(**given_args), version="0.33.0")[-2:] == given_args["extra_args"]
    assert "no option of version 0.32.0" in VLLM.settings_refusal(given_args)
    typo = VLLM.settings_refusal({"extra_args": ["--max-num-sequences", "8"]})
    assert 'did you mean "--max-num-seqs"?' in typo
    assert VLLM.argv(single(extra_args=["--brand-new"]), version="0.99.0")[-1] == "--brand-new"
    assert len(VLLM.notes(single(extra_args=["--brand-new"]), "0.99.0")) == 1


@pytest.mark.parametrize("name", ["brand_new", "new_scheduler", "ragged", "out_of_core"])
def test_row_8_a_new_option_is_not_taken_for_a_short_one(name: str) -> None:
    """Row 8: a name is a name, also where its first letter is a short option."""
    assert f"/{name}: is no option of version 0.32.0" in VLLM.settings_refusal({name: 1})
    request, flag = single(**{name: 1}), f"--{name.replace('_', '-')}"
    assert after(VLLM.argv(request, version="0.99.0"), flag) == "1"
    assert len(VLLM.notes(request, "0.99.0")) == 1


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
    plan = output(VLLM.ask(plan_request(role(**shape))))
    assert [replica["device_count"] for replica in plan["replicas"]] == [devices]


@pytest.mark.parametrize(
    ("shape", "ranks"), [({"tensor": 16}, 2), ({"tensor": 8, "pipeline": 4}, 4), ({"tensor": 2}, 2)]
)
def test_row_10_a_group_over_nodes_names_them(shape: Json, ranks: int) -> None:
    """Row 10: a group wider than a node was launched as if the node were everything."""
    request, placement = plan_request(role(outer=shape)), Placement(ranks={"serve": ranks})
    _, allocations, rendered = VLLM.serve(request, placement)
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
    _, allocations, rendered = VLLM.serve(request, Placement(ranks={"serve": 3}))
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
    code, message = VLLM.plan_refusal(plan_request(role(**shape, experts={"expert": expert})))
    assert code == INV
    where = "/input/roles/0/parallelism/experts/expert_parallel_size"
    assert message.startswith(f"{where}: must be {legal}, got {expert}")


def test_row_15_render_refuses_what_plan_refuses() -> None:
    """Row 15: a plan changed behind our back is no way around it."""
    request = plan_request(role(outer={"tensor": 8}))
    plan = output(VLLM.ask(request))
    plan["roles"][0]["effective_parallelism"]["experts"]["expert_parallel_size"] = 4
    code, message = refused(VLLM.ask(render_request(request, plan, allocate(plan))))
    assert code == INV
    assert "must be 1 or 8, got 4" in message


def what_vllm_reads(tokens: list[str]) -> Reading:
    """The nine sizes that vLLM makes of a command line, by its own algebra."""

    def size(flag: str) -> int:
        return int(after(tokens, flag)) if flag in tokens else 1

    tensor, pipeline = size("--tensor-parallel-size"), size("--pipeline-parallel-size")
    data, context = size("--data-parallel-size"), size("--prefill-context-parallel-size")
    ranks = tensor * data * context
    expert = ranks if "--enable-expert-parallel" in tokens else 1
    sizes = {
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
    return Reading(sizes, devices=tensor * pipeline * data * context)


def visible_or_refused(sizes: Sizes, *others: Json, **fields: Any) -> bool:
    return VLLM.visible_or_refused(what_vllm_reads, sizes, *others, **fields)


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
    message = VLLM.settings_refusal({"extra_args": tokens}, version)
    assert message.startswith("/input/roles/0/settings/extra_args/")


@pytest.mark.parametrize("version", [*VERSIONS, "0.10.0", "0.99.0", "unavailable"])
@pytest.mark.parametrize("name", ["omni", "data_parallel", "kv_transfer", "m", "tensor_par", "hos"])
def test_row_19_a_setting_is_no_way_around_either(name: str, version: str) -> None:
    """Row 19: a setting is written as an option, so that a beginning of one is the option too."""
    VLLM.settings_refusal({name: True if name == "omni" else "2"}, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "tokens", [["-tp4"], ["--tp", "4"], ["--tensor-parallel-size.x", "4"], ["-dp.x=2"]]
)
def test_row_19_what_looks_like_an_owned_option_is_none(tokens: list[str], version: str) -> None:
    """Row 19: spellings that vLLM's parser would die of set nothing, and are refused as unknown."""
    assert "is no option of version" in VLLM.settings_refusal({"extra_args": tokens}, version)


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
    assert " a second time: " in VLLM.settings_refusal(settings, version)


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
                reading = VLLM.table(version).read(token) if token.startswith("--") else None
                if reading and reading.option.name not in {*named, "max_num_seqs"}:
                    ours.add(reading.option.name)
    assert len(ours) >= 16
    for name in ours:
        option = VLLM.table(version)[name]
        takes_value = option.kind not in ("switch", "negatable")
        assert "is decided by" in VLLM.settings_refusal({name: 2 if takes_value else True}, version)
        for flag in (*option.names, *option.negative):
            spellings = [[flag, "2"], [f"{flag}=2"]] if takes_value else [[flag]]
            if flag.startswith("--"):
                spellings += [
                    [tokens[0].replace("-", "_").replace("__", "--", 1), *tokens[1:]]
                    for tokens in spellings
                ]
            for tokens in spellings:
                assert "is decided by" in VLLM.settings_refusal({"extra_args": tokens}, version), (
                    tokens
                )


@pytest.mark.parametrize("kv", ["nixl", "mooncake"])
@pytest.mark.parametrize(("prefill", "decode"), [(1, 4), (4, 1), (2, 8)])
def test_row_20_unequal_sides_stay_as_asked(prefill: int, decode: int, kv: str) -> None:
    """Row 20: unequal tensor parallel fails for some models only, so it is no reason to refuse."""
    request = pair(
        role("prefill", outer={"tensor": prefill}), role("decode", outer={"tensor": decode}), kv=kv
    )
    plan, _, rendered = VLLM.serve(request)
    assert [replica["device_count"] for replica in plan["replicas"]] == [prefill, decode]
    for process, size in (("prefill", prefill), ("decode", decode)):
        read = what_vllm_reads(argv_of(rendered, process))
        assert read.sizes["outer", "tensor"] == size


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


def test_row_26_the_entry_point_is_the_serve_command() -> None:
    """Row 26: the old module entry point ignores headless, and the follower died of it."""
    for label, _, tokens in servers():
        assert tokens[:2] == ["vllm", "serve"], label
        assert not any("api_server" in token for token in tokens if token[0] != "-"), label


def test_row_27_all_ranks_of_a_prefill_meet_at_the_port_of_rank_0() -> None:
    """Row 27: every node of a prefill chose a bootstrap port of its own."""
    request = pair(role("prefill", outer={"tensor": 4}), kv="mooncake")
    _, allocations, rendered = VLLM.serve(request, Placement(ranks={"prefill": 2}))
    first = allocations[0]["ports"]["bootstrap"]["port"]
    allocations[1]["ports"]["bootstrap"]["port"] = first + 3
    plan = output(VLLM.ask(request))
    rendered = output(VLLM.ask(render_request(request, plan, allocations)))
    for process in ("prefill-rank-000", "prefill-rank-001"):
        assert env_of(rendered, process)["VLLM_MOONCAKE_BOOTSTRAP_PORT"] == str(first)
    assert "VLLM_MOONCAKE_BOOTSTRAP_PORT" not in env_of(rendered, "decode")


# -- D. ports and hosts ------------------------------------------------------------------------


def test_row_29_vllm_reads_none_as_everywhere() -> None:
    """Row 29: the word None as a host makes vLLM listen on every interface."""
    message = VLLM.render_refusal(single(), on_first("endpoint/host", "None"))
    assert message.startswith("/input/allocations/0/endpoint/host: ")


@pytest.mark.parametrize("host", LOOPBACKS)
def test_row_29_loopback_is_advertised_on_one_machine(host: str) -> None:
    """Row 29: where every peer is on the machine, the side channel is at its loopback."""
    _, _, rendered = VLLM.serve(pair(), Placement(together=True, hosts=lambda index: host))
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


def test_row_31_the_bootstrap_server_takes_its_port_on_all_addresses() -> None:
    """Row 31: vLLM's Mooncake bootstrap listens everywhere, so another address does not help."""

    def second_address(allocations: list[Json]) -> None:
        taken = allocations[0]["ports"]["bootstrap"]["port"]
        allocations[1]["ports"]["bootstrap"] = {"host": "10.9.9.9", "port": taken}

    request = pair(role("prefill", count=2), kv="mooncake")
    message = VLLM.render_refusal(request, second_address, TOGETHER)
    assert 'port bootstrap of "prefill-000"' in message
    assert 'port bootstrap of "prefill-001"' in message


@pytest.mark.parametrize(
    "name", ["VLLM_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_DP_MASTER_PORT"]
)
def test_row_31_ports_come_from_the_allocation_alone(name: str) -> None:
    """Row 31: a port by environment is one that the control plane does not know."""
    message = VLLM.settings_refusal({"extra_env": {name: "8000"}})
    assert message.startswith(f"/input/roles/0/settings/extra_env/{name}: is decided by ")


def routed(kv: str, placement: Placement) -> tuple[list[Json], list[str]]:
    request = pair(
        role("prefill", count=2), role("decode", count=2), kv=kv, routing_backend="vllm-router"
    )
    _, allocations, rendered = VLLM.serve(request, placement)
    return allocations, argv_of(rendered, "router")


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
    _, _, rendered = VLLM.serve(request, placement)
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
    plan = output(VLLM.ask(request))
    allocations = allocate(plan, Placement(hosts=lambda index: f"fd00::{index + 1}"))
    code, message = refused(VLLM.ask(render_request(request, plan, allocations)))
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


def test_row_38_a_value_that_may_also_be_json_is_one_token() -> None:
    """Row 38: the same where an option takes a word or JSON."""
    value = {"a b": [1, "two"]}
    tokens = VLLM.argv(single(additional_config=value, allowed_origins=["http://a b"]))
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
    token = after(VLLM.argv(request, "prefill"), "--kv-transfer-config")
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
    code, message = VLLM.plan_refusal(pair(role("prefill", settings=settings)))
    assert code == INV
    assert message.startswith("/input/roles/0/settings/")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["enable_auto_tool_choice", "enable_prefix_caching"])
def test_row_40_a_boolean_has_an_off_form(name: str, version: str) -> None:
    """Row 40: the switches of the reports can be switched off, whatever the default is."""
    flag = f"--{name.replace('_', '-')}"
    assert flag in VLLM.argv(single(**{name: True}), version=version)
    tokens = VLLM.argv(single(**{name: False}), version=version)
    assert f"--no-{flag[2:]}" in tokens
    assert flag not in tokens


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
    VLLM.settings_refusal(settings, version)


@pytest.mark.parametrize(
    "model", ["/mnt/AI Models/m", "/m/it's", '/m/"q"', "/m/$HOME", "org/name", "/m/ü", "C:\\m"]
)
def test_row_43_a_model_path_is_one_token(model: str) -> None:
    """Row 43: a wrapper cut a path at its space."""
    _, _, rendered = VLLM.serve(single(), Placement(model_locator=model))
    assert argv_of(rendered, "server")[:3] == ["vllm", "serve", model]


def test_row_43_none_is_no_name() -> None:
    """Row 43: vLLM's parser takes the word None for no served name at all."""
    request = plan_request(role(), model={"id": "m", "served_name": "None"})
    code, message = VLLM.plan_refusal(request)
    assert code == REQ
    assert message.startswith("/input/model/served_name: ")


# -- F. environment and devices ----------------------------------------------------------------


def test_row_48_devices_are_not_chosen_by_option() -> None:
    """Row 48: vLLM has an option for it too."""
    message = VLLM.settings_refusal({"extra_args": ["--device-ids", "0"]})
    assert "is decided by the devices" in message


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
    VLLM.settings_refusal(settings, version)


@pytest.mark.parametrize(
    "tokens",
    [
        ["--distributed-executor-backend", "external_launcher"],
        ["--decode-context-parallel-size=3"],
        ["--enable-eplb"],
        ["--no-enable-eplb"],
    ],
)
def test_row_17_an_option_held_against_the_shape_must_be_a_setting(tokens: list[str]) -> None:
    """Row 17: as an extra argument its value would reach the engine unchecked."""
    message = VLLM.settings_refusal({"extra_args": tokens})
    assert message.startswith("/input/roles/0/settings/extra_args/0: ")
    assert "held against the shape; put " in message


def test_row_33_metrics_of_the_router_are_bound_to_an_address() -> None:
    """Row 33: on a name vllm-router opens them on every interface, and says nothing."""

    def spoil(allocations: list[Json]) -> None:
        allocations[-1]["ports"]["prometheus"]["host"] = "node1"

    message = VLLM.render_refusal(pair(routing_backend="vllm-router"), spoil)
    assert '/ports/prometheus/host: "node1" is a name' in message
