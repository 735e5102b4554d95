"""The adapter as a real control plane meets it: a program on a PATH, one process a request.

Each test is one thing that such a control plane relies on. What it checks by itself, in
``check_plan`` and ``check_render``, is run on the answers of the real program; the last tests
make sure that those checks would notice.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.adapters import ADAPTERS, golden_cases
from tests.support.control_plane import (
    SIZES,
    Json,
    Placement,
    allocate,
    check_plan,
    check_render,
    output,
    plan_request,
    refused,
    render_request,
    role,
)
from tests.support.golden import GOLDEN, SSH, Case, pair, read, single, supplied
from tests.support.schema import check_request, check_response

TIME_LIMIT = 30
TYPICAL = re.compile(
    "single-(tp2|json.*|yaml.*)|two-node-.*|1p1d-.*-(builtin|profiling)|2p.*|1p1d-mooncake-.*-router"
)
"""Names of the golden cases of which the whole exchange is made with the program."""

DEPLOYMENTS = [
    pytest.param((framework, case), id=f"{framework}-{case.name}")
    for framework in sorted(ADAPTERS)
    for case in golden_cases(framework)
    if isinstance(case, Case) and TYPICAL.fullmatch(case.name)
]


class Client:
    """Asks the adapter as a control plane does: found by name, started anew, given 30 s."""

    def __init__(self, folder: Path, framework: str = "vllm", version: str = "") -> None:
        self.environment = {"PATH": str(Path(sys.executable).parent)}
        self._program = f"inferlab-adapter-{framework}"
        self._folder = folder
        if version:
            self._install(ADAPTERS[framework].distribution, version)

    def _install(self, distribution: str, version: str) -> None:
        """Metadata of the engine, and nothing else of it, where the program finds it."""
        name = distribution.replace("-", "_")
        metadata = self._folder / f"{name}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        text = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        metadata.write_text(text)
        self.environment["PYTHONPATH"] = str(self._folder)

    def raw(self, request: Json) -> bytes:
        check_request(request)
        program = shutil.which(self._program, path=self.environment["PATH"])
        assert program is not None, f"{self._program} is not on the PATH"
        done = subprocess.run(
            [program],
            input=json.dumps(request).encode(),
            capture_output=True,
            cwd=self._folder,
            env=self.environment,
            timeout=TIME_LIMIT,
            check=True,
        )
        assert done.stdout.endswith(b"\n")
        assert done.stdout.count(b"\n") == 1
        return done.stdout

    def ask(self, request: Json) -> Json:
        response: Json = json.loads(self.raw(request))
        check_response(response)
        return response


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    """A client of the vLLM adapter."""
    return Client(tmp_path_factory.mktemp("environment"), "vllm", "0.32.0")


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """One deployment, planned, placed and rendered by the program."""

    framework: str
    name: str
    version: str
    client: Client
    request: Json
    placement: Placement
    raw_plan: bytes
    allocations: list[Json]
    files: Mapping[str, str]
    raw_render: bytes

    @property
    def plan(self) -> Json:
        return output(json.loads(self.raw_plan))

    @property
    def rendered(self) -> Json:
        return output(json.loads(self.raw_render))

    @property
    def processes(self) -> list[Json]:
        processes: list[Json] = self.rendered["processes"]
        return processes

    @property
    def native(self) -> bool:
        backend: str | None = self.request["input"].get("routing_backend")
        return backend not in (None, "builtin")

    def render_request(self, allocations: list[Json]) -> Json:
        request = render_request(self.request, self.plan, allocations)
        request["input"]["render_inputs"] = supplied(self.files)
        return request


@pytest.fixture(scope="module", params=DEPLOYMENTS)
def deployed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    framework, case = request.param
    client = Client(tmp_path_factory.mktemp("environment"), framework, case.version)
    raw_plan = client.raw(case.request)
    plan = output(json.loads(raw_plan))
    allocations = allocate(plan, case.placement)
    deployed = Deployed(
        framework=framework,
        name=case.name,
        version=case.version,
        client=client,
        request=case.request,
        placement=case.placement,
        raw_plan=raw_plan,
        allocations=allocations,
        files=case.files,
        raw_render=b"",
    )
    raw_render = client.raw(deployed.render_request(allocations))
    return replace(deployed, raw_render=raw_render)


def commands(response: Json) -> dict[str, Json]:
    """The commands of a render response by process."""
    processes = output(response)["processes"]
    return {process["process"]: process["command"] for process in processes}


# -- the program -------------------------------------------------------------------------------


def test_plan_and_render_name_the_same_adapter(deployed: Deployed) -> None:
    identity = deployed.plan["integration"]
    assert identity["framework"] == deployed.framework
    assert identity["framework_version"] == deployed.version
    # Compared as bytes, which is how an answer is recorded: keys in the same order too.
    text = json.dumps(identity, separators=(",", ":")).encode()
    assert b'"integration":' + text in deployed.raw_plan
    assert b'"integration":' + text in deployed.raw_render


def test_without_vllm_the_version_is_unavailable(tmp_path: Path) -> None:
    client = Client(tmp_path)
    request = plan_request(role())
    plan = output(client.ask(request))
    assert plan["integration"]["framework_version"] == "unavailable"
    rendered = output(client.ask(render_request(request, plan, allocate(plan))))
    assert rendered["integration"] == plan["integration"]


def test_the_program_answers_what_is_pinned(deployed: Deployed) -> None:
    folder = GOLDEN / deployed.framework
    assert json.loads(deployed.raw_plan) == read(folder / f"{deployed.name}-plan/response.json")
    assert json.loads(deployed.raw_render) == read(folder / f"{deployed.name}-render/response.json")


def test_answers_fit_the_protocol(deployed: Deployed) -> None:
    check_response(json.loads(deployed.raw_plan))
    check_response(json.loads(deployed.raw_render))


def test_a_refusal_is_an_answer_too(client: Client) -> None:
    code, message = refused(client.ask(single(tensor_parallel_size=2)))
    assert code == "invalid_settings"
    assert message.startswith("/input/roles/0/settings/tensor_parallel_size: ")


# -- the plan ----------------------------------------------------------------------------------


def test_the_control_plane_takes_the_plan(deployed: Deployed) -> None:
    check_plan(deployed.request, deployed.plan, deployed.framework)


def test_the_wire_has_nine_sizes() -> None:
    assert sum(map(len, SIZES.values())) == 9


MEETING = {
    ("vllm", "nixl", "prefill"): {"side_channel"},
    ("vllm", "nixl", "decode"): {"side_channel"},
    ("vllm", "mooncake", "prefill"): {"bootstrap"},
    ("sglang", "nixl", "prefill"): {"bootstrap"},
    ("sglang", "mooncake", "prefill"): {"bootstrap"},
}
"""Ports at which the peers of a pair meet, by framework, mechanism and kind of role."""


def test_what_a_lone_rank_needs_is_no_primary_port(deployed: Deployed) -> None:
    kv = deployed.request["input"].get("kv_transfer")
    for replica in deployed.plan["replicas"]:
        kind = replica["role_id"].partition("-")[0]
        needed = MEETING.get((deployed.framework, kv, kind), set())
        assert needed <= set(replica["ports"])
        # SGLang's attention data parallel ranks meet even within one process.
        meets = "master" in replica["ports"]
        serves = kind != "router" and deployed.framework != "tensorrt-llm"
        assert meets == (deployed.framework == "sglang" and "master_1" in replica["ports"])
        assert replica["primary_ports"] == (["master"] if serves and not meets else [])


def test_only_several_ranks_meet_at_master(deployed: Deployed) -> None:
    for allocation, process in zip(deployed.allocations, deployed.processes, strict=True):
        argv = process["command"]["argv"]
        several = allocation["rank_count"] > 1
        if deployed.framework != "vllm":
            continue
        assert ("master" in allocation["ports"]) == (several and allocation["rank"] == 0)
        flags = {"--master-port", "--data-parallel-rpc-port"} & set(argv)
        assert len(flags) == several
        if several:
            first = next(
                other["ports"]["master"]
                for other in deployed.allocations
                if (other["role"], other["replica"], other["rank"])
                == (allocation["role"], allocation["replica"], 0)
            )
            assert argv[argv.index(flags.pop()) + 1] == str(first["port"])


def test_consecutive_ports_have_a_name_each(deployed: Deployed) -> None:
    if deployed.framework != "vllm" or deployed.request["input"].get("kv_transfer") != "nixl":
        assert not any("side_channel" in name for r in deployed.plan["replicas"] for name in r)
        return
    sizes = {
        item["id"]: item["effective_parallelism"]["attention"]["data_parallel_size"]
        for item in deployed.plan["roles"]
        if item["kind"] != "router"
    }
    for replica in deployed.plan["replicas"]:
        count = sizes.get(replica["role_id"], 0)
        names = [f"side_channel_{index}" if index else "side_channel" for index in range(count)]
        assert [name for name in replica["ports"] if name.startswith("side_channel")] == names
    for allocation, process in zip(deployed.allocations, deployed.processes, strict=True):
        if "side_channel" in allocation["ports"]:
            port = process["command"]["env"]["VLLM_NIXL_SIDE_CHANNEL_PORT"]
            assert port == str(allocation["ports"]["side_channel"]["port"])


def test_ports_that_came_out_apart_are_refused_with_a_way_out(client: Client) -> None:
    request = pair(role("prefill", attention={"data": 3}))
    plan = output(client.ask(request))
    allocations = allocate(plan)
    ports = allocations[0]["ports"]
    ports["side_channel_2"]["port"] = ports["side_channel_1"]["port"] + 5
    code, message = refused(client.ask(render_request(request, plan, allocations)))
    assert code == "invalid_request"
    assert message.startswith("/input/allocations/0/ports/side_channel_2: ")
    assert "3 consecutive ports" in message
    assert "port list" in message


def test_processes_of_a_machine_differ_in_ports_only(deployed: Deployed) -> None:
    bound: set[tuple[str, str, str]] = set()
    hosts: dict[str, set[str]] = {}
    for allocation, process in zip(deployed.allocations, deployed.processes, strict=True):
        argv = process["command"]["argv"]
        if "--port" in argv:
            place = argv[argv.index("--host") + 1], argv[argv.index("--port") + 1]
            assert (allocation["machine"], *place) not in bound
            bound.add((allocation["machine"], *place))
            hosts.setdefault(allocation["machine"], set()).add(place[0])
    assert bound
    assert all(len(names) == 1 for names in hosts.values())


def test_a_router_role_is_one_process_without_devices(deployed: Deployed) -> None:
    roles = [item for item in deployed.plan["roles"] if item["kind"] == "router"]
    replicas = [item for item in deployed.plan["replicas"] if item["role_id"] == "router"]
    assert len(roles) == len(replicas) == deployed.native
    for item, replica in zip(roles, replicas, strict=True):
        assert item["declared_replica_count"] == item["effective_replica_count"] == 1
        assert item["effective_parallelism"] == {}
        assert replica["device_count"] == 0


def test_links_are_those_of_the_mechanism(deployed: Deployed) -> None:
    kv = deployed.request["input"].get("kv_transfer")
    kinds = [link["kind"] for link in deployed.plan["links"]]
    extra = {"nixl": ["side_channel"], "mooncake": ["bootstrap"], None: []}[kv]
    if kv and deployed.framework != "vllm":
        extra = ["bootstrap"] if deployed.framework == "sglang" else []
    assert sorted(kinds) == sorted((["request_routing", "kv_transfer"] if kv else []) + extra)


@pytest.mark.parametrize("kv", ["nixl", "mooncake"])
def test_no_router_named_is_the_builtin_one(client: Client, kv: str) -> None:
    named, absent = pair(kv=kv, routing_backend="builtin"), pair(kv=kv)
    plan = output(client.ask(named))
    assert plan == output(client.ask(absent))
    check_plan(named, plan, "vllm")
    assert plan["routing"]["implementation"] == f"vllm_{kv}"


def test_targets_are_captured_only_with_profiling(deployed: Deployed) -> None:
    profiling = deployed.request["input"].get("profiling", False)
    for replica in deployed.plan["replicas"]:
        assert ("capture_target" in replica) == (profiling and replica["device_count"] > 0)


def test_a_relative_file_stays_relative_to_the_working_folder(client: Client) -> None:
    request = single(chat_template="templates/chat.jinja")
    plan = output(client.ask(request))
    assert plan["render_inputs"] == [], "vLLM reads it; no command depends on what it says"
    argv = commands(client.ask(render_request(request, plan, allocate(plan))))["server"]["argv"]
    assert argv[argv.index("--chat-template") + 1] == "templates/chat.jinja"


# -- the render --------------------------------------------------------------------------------


def test_the_control_plane_takes_the_render(deployed: Deployed) -> None:
    check_render(deployed.plan, deployed.allocations, deployed.rendered)


def test_processes_come_in_the_order_of_the_allocations(deployed: Deployed) -> None:
    # Every other one first, so that ranks and replicas are torn apart.
    shuffled = [*deployed.allocations[1::2], *reversed(deployed.allocations[::2])]
    response = deployed.client.ask(deployed.render_request(shuffled))
    check_render(deployed.plan, shuffled, output(response))
    assert commands(response) == commands(json.loads(deployed.raw_render))


def test_dependencies_and_launch_change_no_command(deployed: Deployed) -> None:
    for allocation in deployed.allocations:
        waits = allocation["rank"] > 0 or allocation["role"] == "router"
        assert bool(allocation["dependencies"]) == waits
    changed = [{**item, "dependencies": [], "launch": SSH} for item in deployed.allocations]
    response = deployed.client.ask(deployed.render_request(changed))
    # A remote process gets only our environment: it must be as complete as a local one's.
    assert commands(response) == commands(json.loads(deployed.raw_render))


def test_ranks_placed_by_hand_must_add_up(client: Client) -> None:
    request = plan_request(role(outer={"tensor": 16}))
    plan = output(client.ask(request))
    allocations = allocate(plan, Placement(ranks={"serve": 2}))
    assert [item["process"] for item in allocations] == ["server-rank-000", "server-rank-001"]
    allocations[1]["devices"].pop()
    code, message = refused(client.ask(render_request(request, plan, allocations)))
    assert code == "invalid_request"
    assert "needs 16 devices, its 2 allocations have 15" in message


def test_the_program_to_start_is_a_bare_name(deployed: Deployed) -> None:
    for process in deployed.processes:
        assert re.fullmatch("[a-z0-9-]+", process["command"]["argv"][0])


# -- the control plane itself ------------------------------------------------------------------


def _drop_nested(plan: Json) -> None:
    del plan["roles"][0]["effective_settings"]["profiler_config"]["torch_profiler_dir"]


def _link(kind: str, field: str, value: Any) -> Callable[[Json], None]:
    def spoil(plan: Json) -> None:
        next(link for link in plan["links"] if link["kind"] == kind)[field] = value

    return spoil


def _no_link(kind: str) -> Callable[[Json], None]:
    def spoil(plan: Json) -> None:
        plan["links"] = [link for link in plan["links"] if link["kind"] != kind]

    return spoil


def _at(*path: str | int, value: Any) -> Callable[[Json], None]:
    def spoil(answer: Json) -> None:
        node: Any = answer
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value

    return spoil


SPOILED_PLANS: dict[str, Callable[[Json], None]] = {
    "another framework": _at("integration", "framework", value="vLLM"),
    "a size lost": lambda plan: plan["roles"][1]["effective_parallelism"]["experts"].popitem(),
    "a size of zero": _at(
        "roles", 1, "effective_parallelism", "experts", "data_parallel_size", value=0
    ),
    "a declared size changed": _at(
        "roles", 0, "effective_parallelism", "outer", "tensor_parallel_size", value=1
    ),
    "a setting lost": lambda plan: plan["roles"][0]["effective_settings"].pop("max_num_seqs"),
    "a nested setting lost": _drop_nested,
    "a role renamed": _at("roles", 0, "id", value="prefill-0"),
    "a role resized": _at("roles", 0, "effective_replica_count", value=1),
    "a role added": lambda plan: plan["roles"].append(
        {**plan["roles"][0], "id": "more", "effective_replica_count": 0}
    ),
    "a router with parallelism": lambda plan: plan["roles"][2].update(
        effective_parallelism=plan["roles"][0]["effective_parallelism"]
    ),
    "a router with devices": _at("replicas", 4, "device_count", value=1),
    "a server without devices": _at("replicas", 0, "device_count", value=0),
    "a replica lost": lambda plan: plan["replicas"].pop(1),
    "a replica's id twice": _at("replicas", 1, "id", value="prefill-000"),
    "a port's name twice": _at("replicas", 0, "primary_ports", value=["side_channel"]),
    "no side channel at a decode": _at("replicas", 3, "ports", value=[]),
    "no request routing": _no_link("request_routing"),
    "routing past decode": _link("request_routing", "targets", ["prefill"]),
    "no transfer": _no_link("kv_transfer"),
    "transfer backwards": _link("kv_transfer", "source", "decode"),
    "another mechanism": _link("kv_transfer", "mechanism", "mooncake"),
    "the side channel from the router": _link("side_channel", "source", "router"),
    "the side channel at no port": _link("side_channel", "port", "bootstrap"),
    "another owner of the routing": _at("routing", "owner", value="inferlab_builtin"),
    "routing by a server": _at("routing", "role", value="decode"),
    "another completions path": _at("endpoint", "completions_path", value="/completions"),
    "another chat path": _at("endpoint", "chat_completions_path", value="/v1/chat"),
    "no capture target": lambda plan: plan["replicas"][1].pop("capture_target"),
}

SPOILED_RENDERS: dict[str, Callable[[Json], None]] = {
    "another version": _at("integration", "adapter_version", value="0.0.0"),
    "another order": lambda rendered: rendered["processes"].reverse(),
    "a process lost": lambda rendered: rendered["processes"].pop(),
    "a process added": lambda rendered: rendered["processes"].append(rendered["processes"][0]),
    "another rank": _at("processes", 0, "rank", value=1),
    "nothing to start": _at("processes", 0, "command", "argv", value=[]),
    "devices chosen": _at("processes", 0, "command", "env", "CUDA_VISIBLE_DEVICES", value="0"),
}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An exchange that the control plane takes as it is."""

    request: Json
    plan: Json
    allocations: list[Json]
    rendered: Json


@pytest.fixture(scope="module")
def judged(client: Client) -> Judged:
    profiler = {"profiler": "torch", "torch_profiler_dir": "/traces"}
    settings = {"max_num_seqs": 8, "profiler_config": profiler}
    request = pair(
        role("prefill", count=2, outer={"tensor": 2}, settings=settings),
        role("decode", count=2),
        routing_backend="vllm-router",
        profiling=True,
    )
    plan = output(client.ask(request))
    allocations = allocate(plan)
    rendered = output(client.ask(render_request(request, plan, allocations)))
    check_plan(request, plan, "vllm")
    check_render(plan, allocations, rendered)
    return Judged(request=request, plan=plan, allocations=allocations, rendered=rendered)


@pytest.mark.parametrize("name", SPOILED_PLANS)
def test_the_control_plane_would_notice_in_a_plan(name: str, judged: Judged) -> None:
    plan = deepcopy(judged.plan)
    SPOILED_PLANS[name](plan)
    with pytest.raises((AssertionError, LookupError)):
        check_plan(judged.request, plan, "vllm")


@pytest.mark.parametrize("name", SPOILED_RENDERS)
def test_the_control_plane_would_notice_in_a_render(name: str, judged: Judged) -> None:
    rendered = deepcopy(judged.rendered)
    SPOILED_RENDERS[name](rendered)
    with pytest.raises((AssertionError, ValueError)):
        check_render(judged.plan, judged.allocations, rendered)


@pytest.mark.parametrize(
    ("relative_path", "token", "taken"),
    [
        ("launch-files/0a/c.yaml", "/cache/prefill-000/launch-files/0a/c.yaml", True),
        ("launch-files/0a/c.yaml", "--config=/cache/prefill-000/launch-files/0a/c.yaml", False),
        ("launch-files/0a/c.yaml", "launch-files/0a/c.yaml", False),
        ("launch-files/0b/c.yaml", "/cache/prefill-000/launch-files/0b/c.yaml", False),
        ("launch-files/0a/x/c.yaml", "/cache/prefill-000/launch-files/0a/x/c.yaml", False),
    ],
)
def test_a_launch_file_stands_by_itself(
    relative_path: str, token: str, taken: bool, judged: Judged
) -> None:
    assert all(process["launch_files"] == [] for process in judged.rendered["processes"])
    rendered = deepcopy(judged.rendered)
    process = rendered["processes"][0]
    process["launch_files"] = [{"sha256": "0a", "relative_path": relative_path, "content": ""}]
    process["command"]["argv"].append(token)
    if taken:
        check_render(judged.plan, judged.allocations, rendered)
    else:
        with pytest.raises(AssertionError):
            check_render(judged.plan, judged.allocations, rendered)
