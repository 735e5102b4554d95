"""Launch faults that people met in public, as requests to the TensorRT-LLM adapter.

Every test carries the number of its row in the list of launch faults; a row stands for a kind
of fault, so other members of the kind are asked for too. What the tests say about the engine's
options holds for the recorded catalogues 1.2.1, 1.3.0rc27 and 1.4.0rc.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from inferlab_adapters.adapter import Context
from inferlab_adapters.options import OptionTable
from inferlab_adapters.wire import respond
from tests.cases.asking import on_first, servers_of
from tests.golden.tensorrt_llm.cases import (
    CANDIDATE,
    CASES,
    IPV6,
    NEWEST,
    ROUTER,
    STABLE,
    named,
)
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    argv_of,
    ask,
    check_plan,
    check_render,
    output,
    plan_request,
    refused,
    render_request,
    role,
)
from tests.support.golden import pair, single, supplied
from tests.support.schema import schema

TRTLLM = ADAPTERS["tensorrt-llm"]
VERSIONS = (STABLE, CANDIDATE, NEWEST)
INV, REQ = "invalid_settings", "invalid_request"
PATCH = "extra_llm_api_options_patch"
TOGETHER = Placement(together=True)
SERVE = ["python3", "-m", "tensorrt_llm.commands.serve", "serve"]


# -- asking ------------------------------------------------------------------------------------


@cache
def table(version: str) -> OptionTable:
    return TRTLLM.option_table(version)


def serve(
    request: Json,
    placement: Placement | None = None,
    version: str = NEWEST,
    files: Mapping[str, str] | None = None,
) -> tuple[Json, list[Json], Json]:
    """Plan, check, allocate, render and check: (plan, allocations, rendered)."""
    plan = output(ask(TRTLLM, request, version))
    check_plan(request, plan, TRTLLM.framework)
    allocations = allocate(plan, placement)
    render = render_request(request, plan, allocations)
    render["input"]["render_inputs"] = supplied(files or {})
    rendered = output(ask(TRTLLM, render, version))
    check_render(plan, allocations, rendered)
    return plan, allocations, rendered


def argv(request: Json, process: str = "server", version: str = NEWEST) -> list[str]:
    """The command line that a request ends in."""
    return argv_of(serve(request, version=version)[2], process)


def yaml_of(rendered: Json, process: str) -> Json:
    """The one launch file of a process, as data."""
    found = next(item for item in rendered["processes"] if item["process"] == process)
    (file,) = found["launch_files"]
    data: Json = yaml.safe_load(file["text"])
    return data


def after(tokens: list[str], flag: str) -> str:
    """The value of an option that must stand exactly once."""
    assert tokens.count(flag) == 1, f"{flag} in {tokens}"
    return tokens[tokens.index(flag) + 1]


def plan_refusal(request: Json, version: str = NEWEST) -> tuple[str, str]:
    return refused(ask(TRTLLM, request, version))


def settings_refusal(settings: Mapping[str, Any], version: str = NEWEST) -> str:
    """What plan says against settings of a lone server; render must say the same of them."""
    code, message = plan_refusal(single(**settings), version)
    assert code == INV
    request = single()
    plan = output(ask(TRTLLM, request, version))
    plan["roles"][0]["effective_settings"] |= settings
    code, again = refused(ask(TRTLLM, render_request(request, plan, allocate(plan)), version))
    assert (code, again.replace("/effective_settings", "/settings")) == (INV, message)
    return message


def render_refusal(
    request: Json,
    spoil: Callable[[list[Json]], None],
    placement: Placement | None = None,
    version: str = NEWEST,
) -> str:
    """What render says against allocations changed by ``spoil``."""
    plan = output(ask(TRTLLM, request, version))
    allocations = allocate(plan, placement)
    spoil(allocations)
    code, message = refused(ask(TRTLLM, render_request(request, plan, allocations), version))
    assert code == REQ
    return message


def as_it_is(allocations: list[Json]) -> None:
    """Nothing to spoil: the placement itself is refused."""


@cache
def golden() -> list[tuple[str, Json, list[Json], Json]]:
    """Every golden deployment: (name, plan, allocations, rendered)."""
    return [
        (case.name, *serve(case.request, case.placement, case.version, case.files))
        for case in CASES
    ]


def servers() -> Iterator[tuple[str, Json, list[str]]]:
    """Every server process of every golden deployment: (name, allocation, argv)."""
    return servers_of(golden())


# -- A. the flag is wrong for the version ------------------------------------------------------


@pytest.mark.parametrize("version", [CANDIDATE, NEWEST, "1.3.0rc14", "1.4.0rc4", "2.0"])
def test_row_3_the_served_name_is_given_where_there_is_an_option(version: str) -> None:
    """Row 3: click stops at an option that an older version lacks."""
    assert after(argv(single(), version=version), "--served_model_name") == "llama-8b"


@pytest.mark.parametrize("version", [STABLE, "1.2.0", "1.1.0"])
@pytest.mark.parametrize(
    ("locator", "name"),
    [
        ("/models/llama", "llama"),
        ("/models/llama/", "llama"),
        ("/models/llama", "/models/llama"),
        ("meta/llama", "llama"),
        ("meta/llama", "meta/llama"),
        ("llama", "llama"),
    ],
)
def test_row_3_without_the_option_the_server_chooses_its_name(
    locator: str, name: str, version: str
) -> None:
    """Row 3: where there is no option, only the name that the server would use will do."""
    request, placement = named(name, single()), Placement(model_locator=locator)
    tokens = argv_of(serve(request, placement, version)[2], "server")
    assert tokens[:5] == [*SERVE, locator]
    assert "--served_model_name" not in tokens


@pytest.mark.parametrize("name", ["llama-8b", "models/llama", "Llama", "lla", "model"])
def test_row_3_another_name_is_refused_with_a_way_out(name: str) -> None:
    """Row 3: and another name is not dropped without a word."""
    message = render_refusal(named(name, single()), as_it_is, version=STABLE)
    assert message.startswith("/input/model/served_name: TensorRT-LLM 1.2.1 cannot call ")
    assert message.endswith('; call it "llama", or use 1.3 or newer')
    message = render_refusal(named(name, pair()), as_it_is, version=STABLE)
    assert message.count(" cannot call ") == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", ["max_batch_size", "max_num_tokens", "max_seq_len"])
def test_row_6_sizes_below_build_config_do_nothing(size: str, version: str) -> None:
    """Row 6: a template's build_config is ignored by the backend that is served."""
    message = settings_refusal({PATCH: {"build_config": {size: 8}}}, version)
    assert message == (
        f"/input/roles/0/settings/{PATCH}/build_config: is ignored by the PyTorch backend; "
        f"put {size} at the top level"
    )
    _, _, rendered = serve(named("llama", single(**{PATCH: {size: 8}})), version=version)
    assert yaml_of(rendered, "server") == {size: 8}


def test_row_6_also_in_the_file() -> None:
    """Row 6: the same where the template is a file."""
    request = single(extra_llm_api_options="a.yaml")
    plan = output(ask(TRTLLM, request, NEWEST))
    render = render_request(request, plan, allocate(plan))
    text = "build_config:\n  max_batch_size: 8\n"
    render["input"]["render_inputs"] = supplied({".inferlab/a.yaml": text})
    code, message = refused(ask(TRTLLM, render, NEWEST))
    assert code == REQ
    assert message.endswith("; put max_batch_size at the top level")


ANOTHER_FAMILY = [
    ["--tensor-parallel-size", "4"],
    ["--tensor-parallel-size=4"],
    ["--tensor_parallel_size", "4"],
    ["--tp_size=4"],
    ["--tp-size", "4"],
    ["--pp_size", "2"],
    ["--moe-expert-parallel-size", "2"],
    ["--ep_size", "2"],
    ["--cp_size", "2"],
    ["--cluster_size", "2"],
    ["--gpus_per_node", "8"],
    ["--enable-attention-dp"],
    ["--enable_attention_dp"],
    ["--served-model-name", "x"],
    ["--served_model_name=x"],
    ["--host", "0.0.0.0"],
    ["--port=1"],
    ["--config", "a.yaml"],
    ["--extra_llm_api_options=a.yaml"],
    ["--extra-llm-api-options", "a.yaml"],
    ["--set", "tensor_parallel_size=4"],
    ["--set=cache_transceiver_config.backend=UCX"],
    ["--backend", "tensorrt"],
    ["--server_role", "context"],
    ["--metadata_server_config_file", "m.yaml"],
    ["--disagg_cluster_uri", "etcd://x"],
    ["--report_addr", "/tmp/x"],
    ["--tokenizer", "--host", "--port", "1"],
]


@pytest.mark.parametrize("version", [*VERSIONS, "1.1.0", "2.0", "unavailable"])
@pytest.mark.parametrize("tokens", ANOTHER_FAMILY, ids=" ".join)
def test_rows_7_19_an_owned_option_is_seen_in_every_spelling(
    tokens: list[str], version: str
) -> None:
    """Rows 7 and 19: hyphens, underscores and aliases are one option, and that one is ours."""
    request = plan_request(role(outer={"tensor": 2}, settings={"extra_args": tokens}))
    code, message = plan_refusal(request, version)
    assert code == INV
    assert "is decided by " in message
    assert message.startswith("/input/roles/0/settings/extra_args/")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "tokens", [["-tp", "4"], ["--tp", "4"], ["--TP_SIZE", "4"], ["--tensor_parallel", "4"], ["-h"]]
)
def test_row_7_a_spelling_that_click_would_die_of_is_refused(
    tokens: list[str], version: str
) -> None:
    """Row 7: there are no prefixes and no short options."""
    assert "is no option of version" in settings_refusal({"extra_args": tokens}, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"max_batch_size": 8, "extra_args": ["--max_batch_size", "16"]},
        {
            "extra_args": [
                "--free_gpu_memory_fraction=0.5",
                "--kv_cache_free_gpu_memory_fraction=0.6",
            ]
        },
        {
            "free_gpu_memory_fraction": 0.5,
            "extra_args": ["--kv_cache_free_gpu_memory_fraction", "1"],
        },
    ],
)
def test_row_19_an_option_given_twice_is_seen_in_every_spelling(
    settings: Json, version: str
) -> None:
    """Row 19: of two spellings of one option click keeps the last, without a word."""
    assert " a second time: " in settings_refusal(settings, version)


# -- B. sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([0, 1, 2, 3], "needs 8 devices, allocation has 4"),
        ([], "needs 8 devices, allocation has 0"),
        (list(range(9)), "needs 8 devices, allocation has 9"),
        ([0, 1, 2, 3, 4, 5, 6, 6], "names a device twice"),
    ],
)
def test_row_16_a_server_has_the_devices_of_its_shape(devices: list[int], message: str) -> None:
    """Row 16: eight ranks were asked for, and four places given."""
    request = plan_request(role(outer={"tensor": 8}))
    assert message in render_refusal(request, on_first("devices", devices))
    staged = plan_request(role(outer={"tensor": 4, "pipeline": 2}))
    assert message in render_refusal(staged, on_first("devices", devices))


def test_row_16_processes_are_as_many_as_devices_or_one() -> None:
    """Row 16: one MPI rank a device; a launch with fewer tasks than ranks never meets."""
    request = plan_request(role(outer={"tensor": 8}))
    for ranks in (2, 4):
        message = render_refusal(request, as_it_is, Placement(ranks={"serve": ranks}))
        assert message.startswith("/input/allocations/0/rank_count: ")
        assert "one MPI job with a process a GPU" in message
    _, _, rendered = serve(request, Placement(ranks={"serve": 8}))
    for process in rendered["processes"]:
        assert process["command"]["argv"][:5] == ["trtllm-llmapi-launch", *SERVE]
    assert argv(request)[:4] == SERVE


def wire_sizes() -> list[tuple[str, str]]:
    """Every size of the protocol's schema, as (group, name without its ending)."""
    found = []
    for group in ("outer", "attention", "experts"):
        sizes = schema()["$defs"][f"Parallelism{group.capitalize()}"]["properties"]
        found += [(group, name.removesuffix("_parallel_size")) for name in sizes]
    return found


def sizes_that_trtllm_reads(tokens: list[str], data: Json) -> dict[tuple[str, str], int]:
    """The nine sizes that the engine makes of a command line and its YAML, by its own algebra."""

    def size(flag: str) -> int:
        return int(after(tokens, flag)) if flag in tokens else 1

    tensor, expert = size("--tensor_parallel_size"), size("--moe_expert_parallel_size")
    spread = "--enable_attention_dp" in tokens or data.get("enable_attention_dp", False)
    return {
        ("outer", "tensor"): tensor,
        ("outer", "pipeline"): size("--pipeline_parallel_size"),
        ("attention", "tensor"): 1 if spread else tensor,
        ("attention", "data"): tensor if spread else 1,
        ("attention", "context"): 1,
        ("experts", "tensor"): tensor // expert,
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


def visible_or_refused(
    sizes: Mapping[tuple[str, str], int], *others: Json, version: str = NEWEST
) -> bool:
    """Whether declared sizes were accepted; then each of them must be visible."""
    kind = "serve" if not others else ("prefill", "decode")[others[0]["kind"] == "prefill"]
    roles = sorted([role(kind, **declare(sizes)), *others], key=lambda r: r["kind"], reverse=True)
    fields = {"kv_transfer": "nixl"} if others else {}
    request = named("llama", plan_request(*roles, **fields))
    answer = ask(TRTLLM, request, version)
    if answer["status"] == "error":
        code, message = refused(answer)
        assert code == INV
        assert "must be" in message
        return False
    process = "server" if kind == "serve" else kind
    plan, _, rendered = serve(request, version=version)
    found = next(item for item in rendered["processes"] if item["process"] == process)
    data = yaml_of(rendered, process) if found["launch_files"] else {}
    read = sizes_that_trtllm_reads(found["command"]["argv"], data)
    assert {key: read[key] for key in sizes} == dict(sizes)
    devices = next(r["device_count"] for r in plan["replicas"] if r["role_id"] == kind)
    assert devices == read["outer", "tensor"] * read["outer", "pipeline"]
    return True


ALONE = {("outer", "tensor"), ("outer", "pipeline"), ("attention", "tensor"), ("attention", "data")}
"""Sizes that the engine can have above 1 while the request names no other."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("key", wire_sizes(), ids=".".join)
def test_row_17_a_single_size_is_visible_or_refused(
    key: tuple[str, str], size: int, version: str
) -> None:
    """Row 17: a declared size was accepted, dropped on the way, and devices idled."""
    assert visible_or_refused({key: size}, version=version) == (size == 1 or key in ALONE)


@pytest.mark.parametrize("other", ["prefill", "decode"])
@pytest.mark.parametrize("key", wire_sizes(), ids=".".join)
def test_row_17_also_with_prefill_and_decode(key: tuple[str, str], other: str) -> None:
    """Row 17: the same on either side of a KV transfer."""
    assert visible_or_refused({key: 2}, role(other)) == (key in ALONE)


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(wire_sizes()), st.sampled_from([1, 2, 4, 8]), min_size=2),
    st.sampled_from(VERSIONS),
)
def test_row_17_no_combination_loses_a_size(
    sizes: dict[tuple[str, str], int], version: str
) -> None:
    """Row 17: sizes named together."""
    visible_or_refused(sizes, version=version)


@pytest.mark.parametrize("router", ["builtin", ROUTER])
@pytest.mark.parametrize(("prefill", "decode"), [(1, 4), (4, 1), (2, 8)])
def test_row_20_unequal_sides_stay_as_asked(prefill: int, decode: int, router: str) -> None:
    """Row 20: the transfer converts between shapes, so unequal ones are no reason to refuse."""
    request = pair(
        role("prefill", outer={"tensor": prefill}),
        role("decode", outer={"tensor": decode}, attention={"data": decode}),
        routing_backend=router,
    )
    plan, _, rendered = serve(request)
    assert [replica["device_count"] for replica in plan["replicas"]][:2] == [prefill, decode]
    for process, size in (("prefill", prefill), ("decode", decode)):
        read = sizes_that_trtllm_reads(argv_of(rendered, process), {})
        assert read["outer", "tensor"] == size


# -- C. ranks and the order of tokens ----------------------------------------------------------


def test_row_22_the_model_follows_the_subcommand_at_once() -> None:
    """Row 22: behind a model that is called like a subcommand, that one would run."""
    for label, allocation, tokens in servers():
        start = tokens.index("serve")
        assert tokens[start - 3 : start + 2] == [*SERVE, allocation["model_locator"]], label
    _, _, rendered = serve(single(), Placement(model_locator="embeddings"))
    assert argv_of(rendered, "server")[:5] == [*SERVE, "embeddings"]


@pytest.mark.parametrize("version", VERSIONS)
def test_row_23_no_list_eats_anything(version: str) -> None:
    """Row 23: a list repeats its flag, since click takes one value for each."""
    lists = {
        name: ["one", "-two"]
        for name, option in table(version).options.items()
        if option.kind == "list" and not table(version).owner(option)
    }
    assert lists
    tokens = argv(named("llama", single(**lists)), version=version)
    for name in lists:
        flag = table(version)[name].names[0]
        start = tokens.index(flag)
        assert tokens[start : start + 3] == [flag, "one", f"{flag}=-two"]


@pytest.mark.parametrize("tokens", [["stray"], ["--trust_remote_code", "stray"]])
def test_row_23_a_stray_positional_is_refused(tokens: list[str]) -> None:
    """Row 23: a token that belongs to no option is an error of the parser."""
    assert '"stray"' in settings_refusal({"extra_args": tokens})


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([(0, 2), (0, 2)], 'rank 0 of replica 0 of role "serve" is also "server-rank-000"'),
        ([(0, 2), (2, 2)], 'rank 2 of replica 0 of role "serve" is out of range'),
        ([(0, 3), (1, 3)], 'says 3, but replica 0 of role "serve" has 2 allocations'),
        ([(0, 2)], 'says 2, but replica 0 of role "serve" has 1 allocation'),
    ],
)
def test_row_25_ranks_are_counted(ranks: list[tuple[int, int]], message: str) -> None:
    """Row 25: a follower whose rank could not be told became a second rank 0."""

    def spoil(allocations: list[Json]) -> None:
        del allocations[len(ranks) :]
        for allocation, (rank, count) in zip(allocations, ranks, strict=True):
            allocation |= {"rank": rank, "rank_count": count}

    request, placement = plan_request(role(outer={"tensor": 2})), Placement(ranks={"serve": 2})
    assert message in render_refusal(request, spoil, placement)


# -- D. ports and hosts ------------------------------------------------------------------------


@pytest.mark.parametrize("router", ["builtin", ROUTER])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "*", "", "0", "12345", "http://gpu", "-x"])
def test_row_29_no_address_is_taken_that_means_none(host: str, router: str) -> None:
    """Row 29: the router is given the address that the server binds, so it must be one."""
    request = pair(routing_backend=router)
    message = render_refusal(request, on_first("endpoint/host", host))
    assert message.startswith("/input/allocations/0/endpoint/host: ")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_row_29_loopback_only_where_the_peer_is(host: str) -> None:
    """Row 29: loopback across machines reaches nobody."""
    message = render_refusal(pair(), on_first("endpoint/host", host))
    assert "cannot be reached from the other machines" in message
    placement = Placement(together=True, hosts=lambda index: host)
    assert after(argv_of(serve(pair(), placement)[2], "prefill"), "--host") == host


@pytest.mark.parametrize("mine", [1, 2])
def test_row_31_one_port_has_one_owner(mine: int) -> None:
    """Row 31: two services of a machine were given one port, or the default one."""

    def clash(allocations: list[Json]) -> None:
        allocations[mine]["endpoint"]["port"] = allocations[0]["endpoint"]["port"]

    message = render_refusal(pair(routing_backend=ROUTER), clash, TOGETHER)
    assert 'the endpoint of "prefill"' in message
    assert f'the endpoint of "{("prefill", "decode", "router")[mine]}"' in message
    for _, allocation, tokens in servers():
        if allocation["rank"] == 0:
            assert after(tokens, "--port") == str(allocation["endpoint"]["port"])


def test_row_31_no_port_is_planned_that_nobody_opens() -> None:
    """Row 31: the transfer meets in band, so there is no second port to clash."""
    for name, plan, _, _ in golden():
        for replica in plan["replicas"]:
            assert replica["ports"] == replica["primary_ports"] == [], name


@pytest.mark.parametrize("placement", [Placement(), TOGETHER], ids=["apart", "together"])
def test_rows_32_33_the_router_is_given_every_server_in_order(placement: Placement) -> None:
    """Rows 32 and 33: of two prefill servers on one host the router knew one."""
    request = pair(
        role("prefill", count=2, id="p"), role("decode", count=3), routing_backend=ROUTER
    )
    _, allocations, rendered = serve(request, placement)
    urls = [f"{a['endpoint']['host']}:{a['endpoint']['port']}" for a in allocations]
    router = {"type": "round_robin"}
    assert yaml_of(rendered, "router") == {
        "hostname": allocations[5]["endpoint"]["host"],
        "port": allocations[5]["endpoint"]["port"],
        "context_servers": {"num_instances": 2, "urls": urls[:2], "router": router},
        "generation_servers": {"num_instances": 3, "urls": urls[2:5], "router": router},
    }


def test_row_35_ipv6_is_bare_where_the_engine_binds_it() -> None:
    """Row 35: from 1.4 on a server binds IPv6, and wants it bare."""
    _, _, rendered = serve(pair(), IPV6)
    assert after(argv_of(rendered, "prefill"), "--host") == "fd00::1"
    assert after(argv_of(rendered, "decode"), "--host") == "fd00::2"
    assert after(argv_of(serve(single(), IPV6)[2], "server"), "--host") == "fd00::1"


@pytest.mark.parametrize("version", [STABLE, CANDIDATE])
@pytest.mark.parametrize("request_", [single(), pair()], ids=["single", "pair"])
def test_row_35_ipv6_is_refused_where_the_socket_is_ipv4(request_: Json, version: str) -> None:
    """Row 35: before 1.4 the socket of a server is an IPv4 one."""
    message = render_refusal(named("llama", request_), as_it_is, IPV6, version)
    where = "/input/allocations/0/endpoint/host"
    assert message.startswith(f"{where}: is IPv6, but TensorRT-LLM {version} listens on IPv4 only")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_row_35_the_router_takes_no_ipv6(which: int, version: str) -> None:
    """Row 35: the orchestrator binds IPv4, and splits URLs at every colon."""
    placement = Placement(hosts=lambda index: "fd00::1" if index == which else f"10.0.0.{index}")
    request = named("llama", pair(routing_backend=ROUTER))
    message = render_refusal(request, as_it_is, placement, version)
    assert message.startswith(f"/input/allocations/{which}/endpoint/host: is IPv6, but ")
    assert " | " not in message


# -- E. JSON, booleans, transfer ---------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"video": {"mode": "FULL DECODE", "ops": ["+silu"]}},
        {"a b": 'it\'s "quoted"', "$HOME": "`ls`; rm -rf *", "tab\tand\nline": "\\", "é": "→"},
        {"-x": "--y", "": ""},
    ],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_row_38_json_is_one_token_and_yaml_the_same_data(value: Json, version: str) -> None:
    """Row 38: JSON was quoted for a shell that was not there, or cut at a space."""
    settings = {"media_io_kwargs": value, PATCH: {"model_kwargs": value}}
    _, _, rendered = serve(named("llama", single(**settings)), version=version)
    assert json.loads(after(argv_of(rendered, "server"), "--media_io_kwargs")) == value
    assert yaml_of(rendered, "server") == {"model_kwargs": value}


def test_row_39_numbers_stay_what_they_are() -> None:
    """Row 39: an integer came out with an exponent, and a number as a text."""
    numbers = {"whole": 2_000_000_000, "part": 2e9, "small": 1e-7, "one": 1.0}
    _, _, rendered = serve(single(**{PATCH: {"model_kwargs": numbers}}))
    got = yaml_of(rendered, "server")["model_kwargs"]
    assert {name: (type(value), value) for name, value in got.items()} == {
        name: (type(value), value) for name, value in numbers.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_row_40_a_boolean_has_three_states(version: str) -> None:
    """Row 40: where there is an off form it is written; elsewhere off is what absent says."""
    options = {
        name: option
        for name, option in table(version).options.items()
        if option.kind in ("switch", "negatable") and not table(version).owner(option)
    }

    def flags(**settings: bool) -> set[str]:
        return set(argv(named("llama", single(**settings)), version=version))

    absent, on, off = (
        flags(),
        flags(**dict.fromkeys(options, True)),
        flags(**dict.fromkeys(options, False)),
    )
    for option in options.values():
        both = {*option.names, *option.negative}
        assert not absent & both
        assert on & both == {option.names[0]}
        assert off & both == set(option.negative[:1])
    assert not {"true", "false", "True", "False"} & (on | off)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"extra_args": ["--trust_remote_code", "true"]},
        {"extra_args": ["--trust_remote_code=true"]},
        {"extra_args": ["--no-trust_remote_code"]},
        {"trust_remote_code": "true"},
        {"trust_remote_code": 1},
        {"no_telemetry": True},
    ],
)
def test_row_40_a_switch_takes_no_word(settings: Json, version: str) -> None:
    """Row 40: a word behind a switch is an error of the parser; better one of ours."""
    settings_refusal(settings, version)


@pytest.mark.parametrize(
    "model", ["/mnt/AI Models/m", "/m/it's", '/m/"q"', "/m/$HOME", "org/name", "/m/ü", "serve"]
)
def test_row_43_a_model_path_is_one_token(model: str) -> None:
    """Row 43: a wrapper cut a path at its space."""
    _, _, rendered = serve(single(), Placement(model_locator=model))
    assert argv_of(rendered, "server")[:5] == [*SERVE, model]


@pytest.mark.parametrize("model", ["--help", "-x", "-", "", "a\0b", None])
def test_row_43_a_model_that_is_no_path_is_refused(model: str | None) -> None:
    """Row 43: a path that a parser reads as an option is not a path."""
    message = render_refusal(single(), on_first("model_locator", model))
    assert message.startswith("/input/allocations/0/model_locator: ")


@pytest.mark.parametrize("router", ["builtin", ROUTER])
@pytest.mark.parametrize("version", VERSIONS)
def test_row_46_both_sides_turn_the_transfer_on(version: str, router: str) -> None:
    """Row 46: without a backend, in capitals, disaggregation is off, and nobody says so."""
    request = named("llama", pair(role("prefill", id="p"), routing_backend=router))
    _, _, rendered = serve(request, version=version)
    both = {
        "cache_transceiver_config": {"backend": "NIXL"},
        "kv_cache_config": {"enable_block_reuse": False},
    }
    assert yaml_of(rendered, "p") == {**both, "disable_overlap_scheduler": True}
    assert yaml_of(rendered, "decode") == both


def test_row_46_mooncake_is_not_taken_for_nixl() -> None:
    """Row 46: the mechanism is the one that was asked for, or none."""
    code, message = plan_refusal(pair(kv="mooncake"))
    assert code == INV
    assert message == '/input/kv_transfer: "mooncake" is not supported; use nixl'


# -- F. environment, devices, other servers ----------------------------------------------------


@pytest.mark.parametrize("value", ["MIG-8f6d", "GPU-8f6d", "0,1", ""])
@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"])
def test_row_48_devices_are_not_chosen_by_environment(name: str, value: str) -> None:
    """Row 48: the choice of devices is not ours to make, nor the YAML's."""
    message = settings_refusal({"extra_env": {name: value}})
    assert message.startswith(f"/input/roles/0/settings/extra_env/{name}: is decided by ")
    message = settings_refusal({PATCH: {"env_overrides": {name: value}}})
    assert f"/env_overrides/{name}: is decided by " in message


@pytest.mark.parametrize("device", ["GPU-8f6d", "0", -1, True])
def test_row_48_devices_are_numbers(device: Any) -> None:
    """Row 48: a device that is no index is refused at the edge, in one short line."""
    message = render_refusal(single(), on_first("devices", [device]))
    assert message.startswith("/input/allocations/0/devices/0: must be ")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "settings",
    [
        {"grpc": True},
        {"grpc": True, "grpc_protocol": "openengine", "tool_parser": "qwen3"},
        {"extra_args": ["--grpc"]},
        {"extra_args": ["--grpc", "--grpc-protocol", "openengine"]},
        {"extra_args": ["--grpc_protocol=openengine"]},
        {"extra_args": ["--enable_visual_gen"]},
        {"extra_args": ["--visual_gen_args", "v.yaml"]},
        {"backend": "tensorrt"},
        {"backend": "_autodeploy"},
        {PATCH: {"backend": "_autodeploy"}},
        {PATCH: {"disagg_cluster": {"cluster_uri": "etcd://x"}}},
        {PATCH: {"orchestrator_type": "ray"}},
    ],
)
def test_row_50_nothing_takes_the_http_server_away(settings: Json, version: str) -> None:
    """Row 50: an option put another server in the place of the one that everybody waits for."""
    settings_refusal(settings, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_row_50_every_server_is_ready_over_http(version: str) -> None:
    """Row 50: nothing that we render speaks gRPC in the place of HTTP."""
    request = named("llama", pair(routing_backend=ROUTER))
    plan, _, rendered = serve(request, version=version)
    for replica in plan["replicas"]:
        assert replica["primary_readiness"] == {"kind": "http", "path": "/health"}
    for process in rendered["processes"]:
        assert not [token for token in process["command"]["argv"] if "grpc" in token]


# -- G. the edge of the protocol ---------------------------------------------------------------


@pytest.mark.parametrize(("version", "got"), [(6, "number 6"), ("5", 'string "5"'), (None, "null")])
def test_row_51_another_protocol_version_is_named_with_its_type(version: Any, got: str) -> None:
    """Row 51: a number where the version is a text, answered as if it were another version."""
    code, message = plan_refusal({**single(), "protocol_version": version})
    assert code == "unsupported_protocol_version"
    assert message == f'/protocol_version: must be the string "6", got {got}'


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        (f"{PATCH}/kv_cache_config/dtype", {PATCH: {"kv_cache_config": {"dtype": None}}}),
        ("extra_llm_api_options", {"extra_llm_api_options": None}),
        ("max_batch_size", {"max_batch_size": None}),
    ],
)
def test_row_52_null_in_a_setting_is_one_line(path: str, settings: Json) -> None:
    """Row 52: one null deep in a setting was answered with a page of alternatives."""
    code, message = plan_refusal(single(**settings))
    assert code == REQ
    assert message == f"/input/roles/0/settings/{path}: null is not allowed in settings"


def test_row_55_what_is_not_utf_8_is_called_so() -> None:
    """Row 55: bytes that are no text ended in a traceback."""
    line = respond(b"\xff\xfe", TRTLLM, Context(framework_version=NEWEST))
    assert refused(json.loads(line)) == (REQ, "stdin is not UTF-8 (byte 0xff at offset 0)")


@pytest.mark.parametrize(("kept", "missing"), [("decode", "prefill"), ("prefill", "decode")])
def test_row_56_a_missing_role_is_named(kept: str, missing: str) -> None:
    """Row 56: prefill and decode without one of them."""
    request = plan_request(role(kept), topology="prefill_decode", kv_transfer="nixl")
    code, message = plan_refusal(request)
    assert code == INV
    assert f"/input/roles: the {missing} role is missing" in message


def test_row_57_a_role_too_many_is_named() -> None:
    """Row 57: a third role was dropped without a word."""
    request = plan_request(role("prefill"), role("decode"), role("serve"), kv_transfer="nixl")
    code, message = plan_refusal(request)
    assert code == INV
    assert '/input/roles/2: role "serve" of kind serve is one too many' in message
