"""What each engine can do, and what shows it: the data of docs/support.md.

A capability is a question about a deployment; golden cases and smoke tests are the deployments
that answer it. ``tests/unit/test_evidence.py`` holds the data against both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from inferlab_adapters.openengine.launch import PORT
from tests.support.control_plane import Json, Placement, plan_request, role
from tests.support.golden import GOLDEN, Case, pair, read


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A plan request, its plan, its allocations and its processes, as they are on the wire."""

    request: Json
    plan: Json
    allocations: list[Json]
    processes: list[Json]

    @property
    def wanted(self) -> Json:
        """The input of the plan request."""
        wanted: Json = self.request["input"]
        return wanted

    def sizes(self, group: str, name: str) -> Iterator[tuple[str, int]]:
        """The effective size of every serving role: (role id, size)."""
        for item in self.plan["roles"]:
            if item["kind"] != "router":
                yield item["id"], item["effective_parallelism"][group][f"{name}_parallel_size"]

    def has_size(self, group: str, name: str) -> bool:
        return any(size > 1 for _, size in self.sizes(group, name))

    def spread(self, *, data: bool) -> bool:
        """Whether a replica with, or without, data parallel ranks has several processes."""
        sizes = dict(self.sizes("attention", "data"))
        return any(
            item["rank_count"] > 1 and (sizes[item["role"]] > 1) == data
            for item in self.allocations
            if item["role"] in sizes
        )

    def has_setting(self, name: str, value: Any) -> bool:
        return any(item["effective_settings"].get(name) == value for item in self.plan["roles"])

    def tokens(self) -> Iterator[str]:
        """Every token of every command line."""
        for process in self.processes:
            yield from process["command"]["argv"]


def golden_deployment(framework: str, case: str) -> Deployment:
    """A golden case as its folders hold it."""
    plan, render = (GOLDEN / framework / f"{case}-{step}" for step in ("plan", "render"))
    return Deployment(
        request=read(plan / "request.json"),
        plan=read(plan / "response.json")["result"]["output"],
        allocations=read(render / "request.json")["input"]["allocations"],
        processes=read(render / "response.json")["result"]["output"]["processes"],
    )


def _size(group: str, name: str) -> Callable[[Deployment], bool]:
    return lambda deployment: deployment.has_size(group, name)


def _transfer(mechanism: str) -> Callable[[Deployment], bool]:
    return lambda deployment: deployment.wanted.get("kv_transfer") == mechanism


def _owner(owner: str) -> Callable[[Deployment], bool]:
    return lambda deployment: deployment.plan["routing"]["owner"] == owner


def _protocol(protocol: str) -> Callable[[Deployment], bool]:
    return lambda deployment: deployment.has_setting("kv_transfer_protocol", protocol)


CAPABILITIES: Mapping[str, Callable[[Deployment], bool]] = {
    "single server": _owner("direct"),
    "tensor parallel": _size("outer", "tensor"),
    "pipeline parallel": _size("outer", "pipeline"),
    "attention data parallel": _size("attention", "data"),
    "attention context parallel": _size("attention", "context"),
    "expert parallel": _size("experts", "expert"),
    "replica over several processes, one tensor group": lambda d: d.spread(data=False),
    "replica over several processes, attention data parallel": lambda d: d.spread(data=True),
    "prefill and decode, NIXL": _transfer("nixl"),
    "prefill and decode, Mooncake": _transfer("mooncake"),
    "router of the control plane": _owner("inferlab_builtin"),
    "router of the engine": _owner("integration_native"),
    "KV transfer held to TCP": _protocol("tcp"),
    "KV transfer held to RDMA": _protocol("rdma"),
    "KV transfer by GDS": _protocol("gds"),
    "IPv6": lambda d: any(":" in item["endpoint"]["host"] for item in d.allocations),
    "profiling": lambda d: any("capture_target" in item for item in d.plan["replicas"]),
    "prefix cache reset": lambda d: "prefix_cache_reset" in d.plan["endpoint"],
    "OpenEngine beside HTTP": lambda d: any(PORT in item["ports"] for item in d.plan["replicas"]),
    "launch files": lambda d: any(process["launch_files"] for process in d.processes),
    "render inputs": lambda d: bool(d.plan["render_inputs"]),
}
"""Whether a deployment shows a capability."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An engine can do it: golden cases that show it, and further deployments that have none.

    ``token`` stands on a command line of a golden case and says it there, for the engine's own
    parser to take; ``runs`` names the smoke tests whose deployment shows it.
    """

    cases: tuple[str, ...] = ()
    others: tuple[Case, ...] = ()
    token: str = ""
    runs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Refused:
    """An engine's adapter refuses it, as it does this request."""

    request: Json


@dataclass(frozen=True, kw_only=True)
class Absent:
    """Nothing can be asked for: the engine has no such thing, or needs none."""

    why: str


PARSERS = {
    "vllm": "tests/engine/test_vllm_parser.py::test_a_golden_command_is_accepted",
    "sglang": "tests/engine/test_sglang_parser.py::test_a_golden_command_is_accepted",
}
"""The test that gives every golden command line to the engine's own parser and validation."""

_SMOKE_VLLM = "tests/smoke/test_vllm.py::"
_VLLM_SINGLE = f"{_SMOKE_VLLM}test_a_single_server_completes_on_each_path"
_VLLM_PAIR = f"{_SMOKE_VLLM}test_prefill_and_decode_behind_the_router_complete_on_each_path"
_VLLM_MOONCAKE = f"{_SMOKE_VLLM}test_prefill_and_decode_over_mooncake_complete_on_each_path"
_VLLM_TENSOR = f"{_SMOKE_VLLM}test_a_replica_of_two_processes_completes[tensor]"
_VLLM_DATA = f"{_SMOKE_VLLM}test_a_replica_of_two_processes_completes[data]"

_SGLANG_SINGLE = "tests/smoke/test_sglang.py::test_a_single_server_completes_on_each_path"

_NO_OPENENGINE = Absent(why="this adapter has no backend for it yet")
_OWN_FILES = Absent(why="the engine reads its files itself, on the machine it runs on")


def _held_to(protocol: str) -> Json:
    settings = {"kv_transfer_protocol": protocol}
    return pair(role("prefill", settings=settings), role("decode", settings=settings))


EVIDENCE: Mapping[str, Mapping[str, Shown | Refused | Absent]] = {
    "vllm": {
        "single server": Shown(
            cases=("single-tp2",),
            token="--served-model-name",
            runs=(_VLLM_SINGLE, _VLLM_TENSOR, _VLLM_DATA),
        ),
        "tensor parallel": Shown(
            cases=("single-tp2",), token="--tensor-parallel-size", runs=(_VLLM_TENSOR,)
        ),
        "pipeline parallel": Shown(cases=("single-pp2",), token="--pipeline-parallel-size"),
        "attention data parallel": Shown(
            cases=("single-tp4-dp2-ep8",), token="--data-parallel-size", runs=(_VLLM_DATA,)
        ),
        "attention context parallel": Shown(
            cases=("single-context-parallel",), token="--prefill-context-parallel-size"
        ),
        "expert parallel": Shown(cases=("single-tp4-dp2-ep8",), token="--enable-expert-parallel"),
        "replica over several processes, one tensor group": Shown(
            cases=("two-node-tp16",), token="--nnodes", runs=(_VLLM_TENSOR,)
        ),
        "replica over several processes, attention data parallel": Shown(
            cases=("two-node-dp4",), token="--data-parallel-size-local", runs=(_VLLM_DATA,)
        ),
        "prefill and decode, NIXL": Shown(
            cases=("1p1d-nixl-builtin",), token="NixlConnector", runs=(_VLLM_PAIR,)
        ),
        "prefill and decode, Mooncake": Shown(
            cases=("1p1d-mooncake-vllm-router",),
            token="MooncakeConnector",
            runs=(_VLLM_MOONCAKE,),
        ),
        "router of the control plane": Shown(cases=("1p1d-nixl-builtin",)),
        "router of the engine": Shown(
            cases=("2p3d-nixl-vllm-router", "1p1d-mooncake-vllm-router"),
            token="--vllm-pd-disaggregation",
            runs=(_VLLM_PAIR, _VLLM_MOONCAKE),
        ),
        "KV transfer held to TCP": Shown(
            cases=("1p1d-nixl-tcp-recompute", "1p1d-mooncake-tcp"),
            token='"mooncake_protocol":"tcp"',
            runs=(_VLLM_PAIR, _VLLM_MOONCAKE),
        ),
        "KV transfer held to RDMA": Shown(
            cases=("1p1d-nixl-rdma", "1p1d-mooncake-vllm-router"),
            token='"mooncake_protocol":"rdma"',
        ),
        "KV transfer by GDS": Shown(cases=("1p1d-nixl-gds",), token='"backends":["UCX","GDS"]'),
        "IPv6": Shown(cases=("1p1d-nixl-ipv6",), token="fd00::1"),
        "profiling": Shown(
            cases=("1p1d-nixl-profiling", "single-profiling-torch"), token="--profiler-config"
        ),
        "prefix cache reset": Shown(
            cases=("single-dev-endpoints",), runs=(_VLLM_SINGLE, _VLLM_TENSOR, _VLLM_DATA)
        ),
        "OpenEngine beside HTTP": Shown(
            cases=("single-tp2", "1p1d-nixl-builtin"),
            token="--enable-scale-out",
            runs=(_VLLM_SINGLE, _VLLM_PAIR, _VLLM_MOONCAKE, _VLLM_TENSOR, _VLLM_DATA),
        ),
        "launch files": _OWN_FILES,
        "render inputs": _OWN_FILES,
    },
    "sglang": {
        "single server": Shown(
            cases=("single-tp2",), token="--served-model-name", runs=(_SGLANG_SINGLE,)
        ),
        "tensor parallel": Shown(cases=("single-tp2",), token="--tp-size"),
        "pipeline parallel": Shown(cases=("single-pp2",), token="--pp-size"),
        "attention data parallel": Shown(cases=("single-tp8-dp2-ep8",), token="--attn-dp-size"),
        "attention context parallel": Shown(
            cases=("single-cp2-moe-dp2-ep4-dense1",), token="--attn-cp-size"
        ),
        "expert parallel": Shown(cases=("single-tp8-dp2-ep8",), token="--ep-size"),
        "replica over several processes, one tensor group": Shown(
            cases=("two-node-tp16",), token="--nnodes"
        ),
        "replica over several processes, attention data parallel": Shown(
            cases=("two-node-tp16-dp4",), token="--nnodes"
        ),
        "prefill and decode, NIXL": Shown(cases=("1p1d-nixl-builtin",), token="nixl"),
        "prefill and decode, Mooncake": Shown(
            cases=("1p1d-mooncake-sglang-router",), token="mooncake"
        ),
        "router of the control plane": Shown(cases=("1p1d-nixl-builtin",)),
        "router of the engine": Shown(
            cases=("2p3d-nixl-sglang-router", "1p1d-mooncake-sglang-router"),
            token="--pd-disaggregation",
        ),
        "KV transfer held to TCP": Shown(cases=("1p1d-nixl-tcp", "1p1d-mooncake-tcp")),
        "KV transfer held to RDMA": Shown(cases=("1p1d-mooncake-sglang-router",)),
        "KV transfer by GDS": Refused(request=_held_to("gds")),
        "IPv6": Shown(cases=("1p1d-nixl-ipv6",), token="fd00::1"),
        "profiling": Shown(cases=("1p1d-nixl-profiling",)),
        "prefix cache reset": Shown(
            cases=("single-tp2", "1p1d-mooncake-sglang-router"), runs=(_SGLANG_SINGLE,)
        ),
        "OpenEngine beside HTTP": _NO_OPENENGINE,
        "launch files": _OWN_FILES,
        "render inputs": _OWN_FILES,
    },
    "tensorrt-llm": {
        "single server": Shown(cases=("single-tp2",)),
        "tensor parallel": Shown(cases=("single-tp2",)),
        "pipeline parallel": Shown(cases=("single-pp2",)),
        "attention data parallel": Shown(cases=("single-tp8-ep2-attention-dp",)),
        "attention context parallel": Refused(
            request=plan_request(role(outer={"tensor": 2}, attention={"context": 2}))
        ),
        "expert parallel": Shown(cases=("single-tp4-ep4",)),
        "replica over several processes, one tensor group": Shown(cases=("two-node-rank-a-gpu",)),
        "replica over several processes, attention data parallel": Shown(
            others=(
                Case(
                    name="two ranks, attention data parallel",
                    request=plan_request(role(outer={"tensor": 2}, attention={"data": 2})),
                    placement=Placement(ranks={"serve": 2}),
                ),
            )
        ),
        "prefill and decode, NIXL": Shown(cases=("1p1d-nixl-builtin",)),
        "prefill and decode, Mooncake": Refused(request=pair(kv="mooncake")),
        "router of the control plane": Shown(cases=("1p1d-nixl-builtin",)),
        "router of the engine": Shown(cases=("1p1d-nixl-trtllm-disaggregated",)),
        "KV transfer held to TCP": Refused(request=_held_to("tcp")),
        "KV transfer held to RDMA": Refused(request=_held_to("rdma")),
        "KV transfer by GDS": Refused(request=_held_to("gds")),
        "IPv6": Shown(cases=("single-ipv6", "1p1d-nixl-ipv6")),
        "profiling": Shown(cases=("single-profiling",)),
        "prefix cache reset": Absent(why="no version has an endpoint for it"),
        "OpenEngine beside HTTP": _NO_OPENENGINE,
        "launch files": Shown(cases=("single-yaml-file", "1p1d-nixl-trtllm-disaggregated")),
        "render inputs": Shown(cases=("single-yaml-file",)),
    },
}
"""What shows each capability of each engine."""


def state(framework: str, capability: str) -> str:
    """A cell of the table: run, checked, planned, or a dash."""
    shown = EVIDENCE[framework][capability]
    if not isinstance(shown, Shown):
        return "-"
    if shown.runs:
        return "run"
    return "checked" if shown.token and framework in PARSERS else "planned"
