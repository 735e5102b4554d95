"""Plans of the real adapters: placed, then rendered by the adapter that made them."""

from __future__ import annotations

import pytest

from inferlab_adapters.control.inventory import Inventory
from tests.control.placing import MODEL, inventory, machine, put
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    Json,
    ask,
    check_plan,
    check_render,
    output,
    plan_request,
    render_request,
    role,
)

GPU_NODES = inventory(machine("node-a", ssh="node-a"), machine("node-b", ssh="node-b"))
SMALL_NODES = inventory(*(machine(f"n{index}", 2) for index in range(4)))
CPUS = inventory(machine("here", None, address="127.0.0.1", ports=tuple(range(20000, 20100))))

PAIR = (role("prefill", attention={"data": 4}), role("decode", count=2, outer={"tensor": 2}))
REAL = [
    ("vllm", plan_request(role(outer={"tensor": 2})), GPU_NODES, 1),
    ("vllm", plan_request(role(outer={"tensor": 16})), GPU_NODES, 2),
    ("vllm", plan_request(role(outer={"tensor": 2}, attention={"data": 4})), SMALL_NODES, 4),
    ("vllm", plan_request(*PAIR, kv_transfer="nixl"), GPU_NODES, 3),
    ("vllm", plan_request(*PAIR, kv_transfer="nixl", routing_backend="vllm-router"), CPUS, 4),
    (
        "vllm",
        plan_request(*PAIR, kv_transfer="nixl", routing_backend="vllm-router"),
        SMALL_NODES,
        5,
    ),
    ("vllm", plan_request(*PAIR, kv_transfer="mooncake"), GPU_NODES, 3),
    ("sglang", plan_request(role(outer={"tensor": 16})), GPU_NODES, 2),
    ("sglang", plan_request(role("prefill"), role("decode"), kv_transfer="nixl"), CPUS, 2),
    (
        "sglang",
        plan_request(
            role("prefill", outer={"tensor": 4}),
            role("decode", outer={"tensor": 8}),
            kv_transfer="mooncake",
            routing_backend="sglang-router",
        ),
        GPU_NODES,
        3,
    ),
    ("tensorrt-llm", plan_request(role(outer={"tensor": 8}, count=2)), GPU_NODES, 2),
    (
        "tensorrt-llm",
        plan_request(role("prefill", count=2), role("decode"), kv_transfer="nixl"),
        GPU_NODES,
        3,
    ),
]


@pytest.mark.parametrize(("framework", "request_", "machines", "processes"), REAL)
def test_real_plans_are_placed_and_rendered(
    framework: str, request_: Json, machines: Inventory, processes: int
) -> None:
    adapter = ADAPTERS[framework]
    # TensorRT-LLM calls a model by the last part of its path.
    request_["input"]["model"]["served_name"] = MODEL
    plan = output(ask(adapter, request_))
    check_plan(request_, plan, framework)
    allocations = put(plan, machines)
    assert len(allocations) == processes
    rendered = output(ask(adapter, render_request(request_, plan, allocations)))
    check_render(plan, allocations, rendered)


def test_every_adapter_has_a_real_plan_here() -> None:
    assert {framework for framework, *_ in REAL} == set(ADAPTERS)
