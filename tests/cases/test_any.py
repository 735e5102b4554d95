"""Launch faults that are the same in kind for every engine, as requests to every adapter.

Every test carries the number of its row in the list of launch faults. What an engine spells in
its own way is in a module of its own beside this one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from inferlab_adapters.adapter import Context
from inferlab_adapters.wire import respond
from tests.cases.asking import ENGINES, INV, REQ, TOGETHER, Engine, after, on_first
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    argv_of,
    output,
    plan_request,
    refused,
    render_request,
    role,
)
from tests.support.golden import pair, rendered_processes, single

pytestmark = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)

ONE_DEVICE_A_RANK = plan_request(role(outer={"tensor": 4}))
"""The only spread over processes that every engine takes: four ranks of one device."""
FOUR = Placement(ranks={"serve": 4})


def lone(**fields: Any) -> Json:
    """A request for one server, called as its model is: old TensorRT-LLM knows no other name."""
    return plan_request(role(**fields), model={"id": "llama", "served_name": "llama"})


def pairs(engine: Engine, data: int = 1) -> Iterator[tuple[str, Json]]:
    """A prefill/decode request for each mechanism and router: (label, request).

    With ``data`` 2, prefill takes runs of consecutive ports where the engine needs them.
    """
    prefill = role("prefill", outer={"tensor": 2}, attention={"data": data})
    for kv in engine.adapter.mechanisms:
        for router in ("builtin", *engine.adapter.routers):
            yield f"{kv} {router}", pair(prefill, kv=kv, routing_backend=router)


def places(allocation: Json) -> list[str]:
    """The paths of every address that a process was given."""
    return ["endpoint", *(f"ports/{name}" for name in allocation["ports"])]


def address(allocation: Json, place: str) -> Json:
    found: Json = allocation
    for part in place.split("/"):
        found = found[part]
    return found


def name_of(allocation: Json, place: str) -> str:
    """What a message calls an address."""
    thing = "the endpoint" if place == "endpoint" else f"port {place.removeprefix('ports/')}"
    return f'{thing} of "{allocation["process"]}"'


# -- B. sizes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([0, 1], "needs 4 devices, allocation has 2"),
        ([], "needs 4 devices, allocation has 0"),
        ([0, 1, 2, 3, 4], "needs 4 devices, allocation has 5"),
        ([0, 1, 2, 2], "names a device twice"),
    ],
)
def test_rows_9_16_an_allocation_of_another_size_is_refused(
    engine: Engine, devices: list[int], message: str
) -> None:
    """Rows 9 and 16: a server must not start on fewer, more or doubled devices."""
    request = plan_request(role(outer={"tensor": 4}))
    assert message in engine.render_refusal(request, on_first("devices", devices))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ([], "needs 4 devices, its 4 allocations have 3"),
        ([0, 1], "needs 4 devices, its 4 allocations have 5"),
        ([2, 3, 4], "needs 4 devices, its 4 allocations have 6"),
    ],
)
def test_rows_9_16_ranks_add_up_to_the_planned_devices(
    engine: Engine, devices: list[int], message: str
) -> None:
    """Rows 9 and 16: over several nodes it is the sum that counts."""
    spoil = on_first("devices", devices)
    assert message in engine.render_refusal(ONE_DEVICE_A_RANK, spoil, FOUR)


def test_row_9_ranks_share_the_devices_evenly(engine: Engine) -> None:
    """Row 9: 2 + 1 + 1 adds up to 4 and is still no four nodes of one group."""

    def shift(allocations: list[Json]) -> None:
        allocations[0]["devices"], allocations[3]["devices"] = [0, 1], []

    assert "split 2+1+1+0" in engine.render_refusal(ONE_DEVICE_A_RANK, shift, FOUR)


# -- C. ranks and the order of tokens ----------------------------------------------------------


LISTS = {"vllm": 6, "sglang": 15}
OBJECTS = {"vllm": 21, "sglang": 10}
"""Options of a kind that an engine has at least, so that the tests about them are not empty."""


def test_row_23_no_list_eats_anything(engine: Engine) -> None:
    """Row 23: every option that takes a list ends at the next option, or at the end."""
    for version in engine.adapter.recorded_versions():
        table = engine.table(version)
        lists = {
            name: ([1, 2] if option.type != "str" else list(option.choices[:2]) or ["one", "two"])
            for name, option in table.options.items()
            if option.kind == "list" and not table.owner(option)
        }
        assert len(lists) >= LISTS.get(engine.adapter.framework, 1)
        tokens = engine.argv(lone(settings=lists), version=version)
        assert "/models/llama" in tokens[: tokens.index(after_model(tokens))]
        for name, items in lists.items():
            option = table[name]
            if option.repeats:
                assert tokens.count(option.names[0]) == len(items)
                continue
            start = tokens.index(option.names[0]) + 1
            assert tokens[start : start + len(items)] == [str(item) for item in items]
            rest = tokens[start + len(items) :]
            assert not rest or rest[0].startswith("--")


def after_model(tokens: list[str]) -> str:
    """The first option behind the model, which nothing that takes a list may precede."""
    return next(token for token in tokens[tokens.index("/models/llama") :] if token[:2] == "--")


def test_row_23_a_stray_positional_is_refused(engine: Engine) -> None:
    """Row 23: a token that belongs to no option would be taken for the model."""
    table = engine.table()
    free = [option for option in table.options.values() if not table.owner(option)]
    switch = next(o for o in free if o.kind in ("switch", "negatable") and not o.deprecated)
    number = next(o for o in free if o.kind == "value" and o.type == "int" and not o.choices)
    for before in ([], [switch.names[0]], [number.names[0], "1"]):
        assert '"stray"' in engine.settings_refusal({"extra_args": [*before, "stray"]})


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
def test_row_25_ranks_are_counted(
    engine: Engine, ranks: list[tuple[int, int]], message: str
) -> None:
    """Row 25: a follower whose rank could not be told became a second rank 0."""

    def spoil(allocations: list[Json]) -> None:
        del allocations[len(ranks) :]
        for allocation, (rank, count) in zip(allocations, ranks, strict=True):
            allocation |= {"rank": rank, "rank_count": count}

    request, placement = plan_request(role(outer={"tensor": 2})), Placement(ranks={"serve": 2})
    assert message in engine.render_refusal(request, spoil, placement)


def test_row_25_replicas_are_counted_too(engine: Engine) -> None:
    """Row 25: the same for a replica that is missing, or that nobody planned."""
    request = plan_request(role(count=2))

    def drop(allocations: list[Json]) -> None:
        del allocations[1]

    assert 'replica 1 of role "serve" has no allocation' in engine.render_refusal(request, drop)
    assert "replica 2 is not planned" in engine.render_refusal(request, on_first("replica", 2))
    twice = engine.render_refusal(request, on_first("process", "server-001"))
    assert '"server-001" is used twice' in twice


# -- D. ports and hosts ------------------------------------------------------------------------

WILDCARDS = ["0.0.0.0", "::", "*", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"]
NO_HOSTS = ["", "0", "0x0", "12345", "[fd00::1]", "http://gpu", "fe80::1%eth0", "-x"]
LOOPBACKS = ["127.0.0.1", "127.8.9.10", "::1", "localhost", "LOCALHOST.", "::ffff:127.0.0.1"]


@pytest.mark.parametrize("placement", [Placement(), TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("host", [*WILDCARDS, *NO_HOSTS])
def test_row_29_no_address_is_taken_that_means_none(
    engine: Engine, host: str, placement: Placement
) -> None:
    """Row 29: an address was advertised that means "anywhere", or that nothing can connect to."""
    for _, request in pairs(engine):
        for place in places(allocate(output(engine.ask(request)))[0]):
            message = engine.render_refusal(request, on_first(f"{place}/host", host), placement)
            assert message.startswith(f"/input/allocations/0/{place}/host: ")
            assert "wildcard" in message or host not in WILDCARDS


@pytest.mark.parametrize("host", LOOPBACKS)
def test_row_29_loopback_only_where_the_peer_is(engine: Engine, host: str) -> None:
    """Row 29: decode on another machine cannot reach prefill's loopback, and recomputes."""
    for _, request in pairs(engine):
        for place in places(allocate(output(engine.ask(request)))[0]):
            message = engine.render_refusal(request, on_first(f"{place}/host", host))
            assert message.startswith(f"/input/allocations/0/{place}/host: ")
            assert "cannot be reached from the other machines" in message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_row_29_loopback_is_fine_on_one_machine(engine: Engine, host: str) -> None:
    """Row 29: where every peer is on the machine, its loopback will do."""
    placement = Placement(together=True, hosts=lambda index: host)
    for _, request in pairs(engine):
        plan = output(engine.ask(request))
        if host == "localhost" and "prometheus" in plan["replicas"][-1]["ports"]:
            # sglang-router and vllm-router would open their metrics on every interface.
            code, message = refused(
                engine.ask(render_request(request, plan, allocate(plan, placement)))
            )
            assert code == REQ
            assert '"localhost" is a name, and the router' in message
            continue
        engine.serve(request, placement)


def test_row_31_one_port_has_one_owner(engine: Engine) -> None:
    """Row 31: two services of a machine were given one port; both are named."""
    for label, request in pairs(engine, data=2):
        addresses = [
            (index, place)
            for index, allocation in enumerate(allocate(output(engine.ask(request)), TOGETHER))
            for place in places(allocation)
        ]
        for (one, first), (other, second) in combinations(addresses, 2):
            owners: list[str] = []

            def clash(
                allocations: list[Json],
                one: int = one,
                first: str = first,
                other: int = other,
                second: str = second,
                owners: list[str] = owners,
            ) -> None:
                ours, theirs = allocations[one], allocations[other]
                owners += [name_of(ours, first), name_of(theirs, second)]
                address(theirs, second)["port"] = address(ours, first)["port"]

            message = engine.render_refusal(request, clash, TOGETHER)
            assert len(owners) == 2
            assert all(owner in message for owner in owners), (label, message)


def test_row_31_a_second_name_of_a_host_hides_no_clash(engine: Engine) -> None:
    """Row 31: host names differ in case and in a closing dot only by looks."""

    def respell(allocations: list[Json]) -> None:
        allocations[1]["endpoint"] = {**allocations[0]["endpoint"], "host": "GPU-1.cluster."}

    placement = Placement(together=True, hosts=lambda index: "gpu-1.cluster")
    message = engine.render_refusal(pair(), respell, placement)
    assert 'the endpoint of "prefill"' in message
    assert 'the endpoint of "decode"' in message


def test_row_31_rank_0_needs_a_port_for_each_thing(engine: Engine) -> None:
    """Row 31: the meeting point of the ranks is no place for HTTP."""
    request, placement = plan_request(role(outer={"tensor": 2})), Placement(ranks={"serve": 2})
    for name in allocate(output(engine.ask(request)), placement)[0]["ports"]:

        def clash(allocations: list[Json], name: str = name) -> None:
            allocations[0]["ports"][name] = dict(allocations[0]["endpoint"])

        message = engine.render_refusal(request, clash, placement)
        assert 'the endpoint of "server-rank-000"' in message
        assert f'port {name} of "server-rank-000"' in message


def test_row_31_the_same_port_on_two_machines_is_fine(engine: Engine) -> None:
    """Row 31: only one machine's ports are scarce."""
    _, allocations, _ = engine.serve(pair())
    assert len({a["endpoint"]["port"] for a in allocations}) == 1


def test_row_31_a_port_of_0_is_no_port(engine: Engine) -> None:
    """Row 31: a port that the system would choose is one that no peer knows."""
    for _, request in pairs(engine):
        for place in places(allocate(output(engine.ask(request)))[0]):
            message = engine.render_refusal(request, on_first(f"{place}/port", 0))
            assert message.startswith(f"/input/allocations/0/{place}/port: 0 is not a port")


@pytest.mark.parametrize("placement", [Placement(), TOGETHER], ids=["apart", "together"])
def test_rows_32_33_a_router_pairs_urls_with_bootstrap_ports(
    engine: Engine, placement: Placement
) -> None:
    """Rows 32 and 33: a router mixed up bootstrap ports, or read a URL as one.

    Where the router takes its servers as options; a router that reads a file has its own test.
    """
    for kv in engine.adapter.mechanisms:
        for router in engine.adapter.routers:
            request = pair(
                role("prefill", count=2), role("decode", count=2), kv=kv, routing_backend=router
            )
            _, allocations, rendered = engine.serve(request, placement)
            tokens = argv_of(rendered, "router")
            if "--prefill" not in tokens:
                assert rendered["processes"][-1]["launch_files"]
                continue
            expected: list[str] = []
            for allocation in allocations[:4]:
                endpoint = allocation["endpoint"]
                url = f"http://{endpoint['host']}:{endpoint['port']}"
                expected += [f"--{allocation['role']}", url]
                if "bootstrap" in allocation["ports"]:
                    expected.append(str(allocation["ports"]["bootstrap"]["port"]))
            start = tokens.index("--prefill")
            assert tokens[start : start + len(expected)] == expected
            assert tokens[start + len(expected)].startswith("--")


# -- E. JSON, booleans, lists ------------------------------------------------------------------

NASTY: list[Any] = [
    {"cudagraph_mode": "FULL DECODE", "ops": ["+silu"]},
    {"a b": 'it\'s "quoted"', "$HOME": "`ls`; rm -rf *", "tab\tand\nline": "\\", "é": "→"},
    {"on": True, "off": False, "n": -1, "x": 0.5, "deep": {"er": [[], {}, [1, "2"]]}},
    {"-x": "--y", "": ""},
]


@pytest.mark.parametrize("value", NASTY)
def test_row_38_a_json_option_is_one_token(engine: Engine, value: Json) -> None:
    """Row 38: JSON was quoted for a shell that was not there, or cut at a space."""
    for version in engine.adapter.recorded_versions():
        table = engine.table(version)
        options = {
            name: option
            for name, option in table.options.items()
            if not table.owner(option)
            and (option.json or (option.kind == "json" and option.shape == "object"))
            and option.kind != "list"
        }
        assert len(options) >= OBJECTS.get(engine.adapter.framework, 1)
        tokens = engine.argv(lone(settings=dict.fromkeys(options, value)), version=version)
        for option in options.values():
            token = after(tokens, option.names[0])
            assert json.loads(token) == value
            assert token[0] == "{", "no quotes around it"


def test_row_40_a_boolean_has_three_states(engine: Engine) -> None:
    """Row 40: false was dropped, so that the engine's default won; true became a value."""
    shape: Json = {"outer": {"tensor": 2}, "experts": {"expert": 2}}
    for version in engine.adapter.recorded_versions():
        table = engine.table(version)
        options = {
            name: option
            for name, option in table.options.items()
            if option.kind in ("switch", "negatable") and not table.owner(option)
        }

        absent, on, off = (
            set(engine.argv(lone(**shape, settings=engine.plain | settings), version=version))
            for settings in ({}, dict.fromkeys(options, True), dict.fromkeys(options, False))
        )
        assert options
        for option in options.values():
            positive, negative = set(option.names), set(option.negative)
            assert not absent & (positive | negative)
            assert on & (positive | negative) == {option.names[0]}
            # A switch without an off form is off unless it is given: false and absent are one.
            assert len(off & negative) == (option.kind == "negatable")
            assert not off & positive
        assert not {"true", "false", "True", "False"} & (on | off)


def test_row_40_a_switch_takes_no_word(engine: Engine) -> None:
    """Row 40: a word behind a switch is an error of the parser; better one of ours."""
    table = engine.table()
    switches = [
        option
        for option in table.options.values()
        if option.kind in ("switch", "negatable") and not table.owner(option)
    ]
    for option in switches:
        flag = option.names[0]
        for tokens in ([flag, "true"], [f"{flag}=false"]):
            engine.settings_refusal({**engine.plain, "extra_args": tokens})
        for value in ("true", 1, flag):
            refusal = engine.settings_refusal({**engine.plain, option.name: value})
            assert "must be true or false" in refusal
        settings = {**engine.plain, option.name: False, "extra_args": [flag]}
        again = engine.settings_refusal(settings)
        assert f"sets {option.name} a second time" in again
        for negative in option.negative:
            name = negative.lstrip("-").replace("-", "_")
            refusal = engine.settings_refusal({**engine.plain, name: True})
            assert f"write {option.name}: false" in refusal


@pytest.mark.parametrize(
    "model", ["/mnt/AI Models/m", "/m/it's", '/m/"q"', "/m/$HOME", "org/name", "/m/ü", "C:\\m"]
)
def test_row_43_a_model_path_is_one_token(engine: Engine, model: str) -> None:
    """Row 43: a wrapper cut a path at its space."""
    _, _, rendered = engine.serve(single(), Placement(model_locator=model))
    assert argv_of(rendered, "server").count(model) == 1


@pytest.mark.parametrize("model", ["--help", "-x", "-", "--model=/m", "", "a\0b", None])
def test_row_43_a_model_that_is_no_path_is_refused(engine: Engine, model: str | None) -> None:
    """Row 43: a path that a parser reads as an option is not a path."""
    message = engine.render_refusal(single(), on_first("model_locator", model))
    assert message.startswith("/input/allocations/0/model_locator: ")


SERVED_NAME = {"vllm": "--served-model-name", "sglang": "--served-model-name"}


@pytest.mark.parametrize("name", ["my model", "it's", "ünï", "a,b", "{x}"])
def test_row_43_a_served_name_is_one_token(engine: Engine, name: str) -> None:
    """Row 43: the same for the name under which the model is served."""
    request = plan_request(role(), model={"id": "m", "served_name": name})
    flag = SERVED_NAME.get(engine.adapter.framework, "--served_model_name")
    assert after(engine.argv(request), flag) == name


@pytest.mark.parametrize("name", ["--help", "-x", "", "a\0b"])
def test_row_43_a_served_name_that_is_no_name_is_refused(engine: Engine, name: str) -> None:
    """Row 43: names that a parser would take for something else."""
    request = plan_request(role(), model={"id": "m", "served_name": name})
    code, message = engine.plan_refusal(request)
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
def test_row_48_devices_are_not_chosen_by_environment(
    engine: Engine, name: str, value: str
) -> None:
    """Row 48: a UUID where engines want numbers; and the choice is not ours to make."""
    message = engine.settings_refusal({"extra_env": {name: value}})
    assert message.startswith(f"/input/roles/0/settings/extra_env/{name}: is decided by ")
    assert "control plane" in message


def test_row_48_no_process_chooses_its_devices(engine: Engine) -> None:
    """Row 48: nothing that we render does either."""
    seen = 0
    for name, process in rendered_processes(engine.adapter.framework):
        assert not [key for key in process["command"]["env"] if "VISIBLE" in key], name
        seen += 1
    assert seen


@pytest.mark.parametrize("device", ["GPU-8f6d", "MIG-8f6d", "0", -1, 1.0, True, None])
def test_row_48_devices_are_numbers(engine: Engine, device: Any) -> None:
    """Row 48: a device that is no index is refused at the edge, in one short line."""
    message = engine.render_refusal(single(), on_first("devices", [device]))
    assert message.startswith("/input/allocations/0/devices/0: must be ")
    assert len(message) < 100


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
def test_row_51_another_protocol_version_is_named_with_its_type(
    engine: Engine, version: Any, got: str
) -> None:
    """Row 51: a number where the version is a text, answered as if it were another version."""
    code, message = engine.plan_refusal({**single(), "protocol_version": version})
    assert code == "unsupported_protocol_version"
    assert message == f'/protocol_version: must be the string "6", got {got}'


def test_row_51_a_missing_version_is_a_missing_field(engine: Engine) -> None:
    """Row 51: nothing at all is no version that could be unsupported."""
    request = single()
    del request["protocol_version"]
    code, message = engine.plan_refusal(request)
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
def test_row_52_null_in_a_setting_is_one_line(engine: Engine, path: str, settings: Json) -> None:
    """Row 52: one null deep in a setting was answered with a page of alternatives."""
    code, message = engine.plan_refusal(single(**settings))
    assert code == REQ
    assert message == f"/input/roles/0/settings/{path}: null is not allowed in settings"


def test_row_52_null_is_found_in_every_role_and_in_render(engine: Engine) -> None:
    """Row 52: the second role, and a plan on its way back."""
    bad = {"compilation_config": {"pass_config": None}}
    where = "compilation_config/pass_config: null is not allowed in settings"
    message = engine.plan_refusal(pair(decode=role("decode", settings=bad)))[1]
    assert message == f"/input/roles/1/settings/{where}"
    request = single()
    plan = output(engine.ask(request))
    plan["roles"][0]["effective_settings"] |= bad
    code, message = refused(engine.ask(render_request(request, plan, allocate(plan))))
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
def test_row_55_what_is_not_utf_8_is_called_so(engine: Engine, raw: bytes, message: str) -> None:
    """Row 55: bytes that are no text ended in a traceback."""
    line = respond(raw, engine.adapter, Context(framework_version=engine.version))
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
def test_row_56_a_missing_role_is_named(
    engine: Engine, kinds: list[str], topology: str, missing: str
) -> None:
    """Row 56: prefill and decode without one of them."""
    roles = [role(kind, id=f"{kind}-{n}") for n, kind in enumerate(kinds)]
    kv = {"kv_transfer": "nixl"} if topology == "prefill_decode" else {}
    code, message = engine.plan_refusal(plan_request(*roles, topology=topology, **kv))
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
def test_row_57_a_role_too_many_is_named(engine: Engine, extra: Json, named: str) -> None:
    """Row 57: a third role was dropped without a word."""
    request = plan_request(role("prefill"), role("decode"), extra, kv_transfer="nixl")
    code, message = engine.plan_refusal(request)
    assert code == INV
    assert f"/input/roles/2: {named}" in message


def test_row_17_a_size_of_billions_is_refused_like_any_other(engine: Engine) -> None:
    """Row 17: the legal sizes must not be counted out one by one."""
    code, message = engine.plan_refusal(plan_request(role(outer={"tensor": 4_000_000_000})))
    assert code == INV
    assert message.endswith("asks for 4000000000 devices in one replica; the limit is 65536")
