"""Placement: what goes where, and what is refused, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.refusal import Refused
from tests.control.placing import inventory, machine, plan_of, port_numbers, put, replica
from tests.support.control_plane import Json


def where(allocations: Sequence[Json]) -> list[tuple[str, str, list[int]]]:
    return [(item["process"], item["machine"], item["devices"]) for item in allocations]


def refusal(*arguments: Any, **fields: Any) -> str:
    with pytest.raises(Refused) as caught:
        put(*arguments, **fields)
    return str(caught.value)


def test_a_whole_allocation() -> None:
    plan = plan_of(replica(devices=2, ports=["openengine"], primary_ports=["master"]))
    assert put(plan, inventory(machine("a"))) == [
        {
            "process": "server",
            "role": "serve",
            "replica": 0,
            "rank": 0,
            "rank_count": 1,
            "machine": "a",
            "devices": [0, 1],
            "model_locator": "/models/llama",
            "endpoint": {"host": "10.0.0.97", "port": 8000},
            "ports": {"openengine": {"host": "10.0.0.97", "port": 8001}},
            "cache": "/cache/a/server",
            "launch": {"kind": "local"},
            "dependencies": [],
        }
    ]


def test_first_fit_in_the_order_of_the_inventory() -> None:
    plan = plan_of(
        *(replica(f"server-{n:03d}", size, index=n) for n, size in enumerate([2, 2, 1, 2]))
    )
    machines = inventory(machine("a", 3), machine("b", [7, 5, 6, 4]))
    assert where(put(plan, machines)) == [
        ("server-000", "a", [0, 1]),
        ("server-001", "b", [7, 5]),
        ("server-002", "a", [2]),
        ("server-003", "b", [6, 4]),
    ]


def test_a_replica_that_fits_nowhere_whole_is_split_with_its_primary_ports() -> None:
    plan = plan_of(replica(devices=16, ports=["kv"], primary_ports=["master"]), tensor=16)
    machines = inventory(machine("a", 4), machine("b", ssh="ops@b"), machine("c"), machine("d"))
    first, second = put(plan, machines)
    assert where([first, second]) == [
        ("server-rank-000", "b", list(range(8))),
        ("server-rank-001", "c", list(range(8))),
    ]
    assert port_numbers(first) == {"endpoint": 8000, "kv": 8001, "master": 8002}
    assert port_numbers(second) == {"endpoint": 8000, "kv": 8001}
    assert (first["rank_count"], second["rank_count"], second["rank"]) == (2, 2, 1)
    assert (first["dependencies"], second["dependencies"]) == ([], ["server-rank-000"])
    assert first["launch"] == {"kind": "ssh", "target": "ops@b"}
    assert second["launch"] == {"kind": "local"}
    assert second["cache"] == "/cache/c/server-rank-001"


@pytest.mark.parametrize(
    ("sizes", "devices", "tensor", "used"),
    [
        ([4, 4, 4], 12, 1, [4, 4, 4]),
        ([6, 6, 6, 6], 12, 4, [4, 4, 4]),
        ([6, 6], 12, 3, [6, 6]),
        ([3, 2, 3, 2], 8, 2, [2, 2, 2, 2]),
        ([4, 4], 8, 8, [4, 4]),
        ([3, 3, 3, 3], 8, 8, [2, 2, 2, 2]),
        ([8, 2, 8], 16, 4, [8, 8]),
    ],
)
def test_splits_are_even_and_keep_tensor_groups(
    sizes: list[int], devices: int, tensor: int, used: list[int]
) -> None:
    machines = inventory(*(machine(f"m{n}", size) for n, size in enumerate(sizes)))
    allocations = put(plan_of(replica(devices=devices), tensor=tensor), machines)
    assert [len(item["devices"]) for item in allocations] == used


def test_cpus_take_any_number_of_devices() -> None:
    plan = plan_of(replica("a", 3), replica("b", 40), tensor=8)
    taken = Taken(devices=frozenset({("cpus", 1)}))
    allocations = put(plan, inventory(machine("cpus", None)), taken=taken)
    assert [item["devices"] for item in allocations] == [[0, 2, 3], list(range(4, 44))]


def test_a_router_goes_first_and_waits_for_everything() -> None:
    router = replica("router", 0, ["metrics"], role_id="router")
    plan = plan_of(replica("prefill", 1), replica("decode", 16), router, tensor=16)
    machines = inventory(machine("none", 0, models={}), machine("a", 9), machine("b", 8))
    *servers, last = put(plan, inventory(*machines.machines, machine("c")))
    assert (last["process"], last["machine"], last["devices"]) == ("router", "none", [])
    assert "model_locator" not in last
    assert last["dependencies"] == [item["process"] for item in servers]
    assert last["dependencies"] == ["prefill", "decode-rank-000", "decode-rank-001"]
    assert port_numbers(last) == {"endpoint": 8000, "metrics": 8001}


def test_what_others_hold_is_passed_over() -> None:
    taken = Taken(
        devices=frozenset({("a", 0), ("a", 2), ("b", 1)}), ports=frozenset({("a", 8000), ("b", 1)})
    )
    allocations = put(plan_of(replica(devices=2)), inventory(machine("a", 4)), taken=taken)
    assert where(allocations) == [("server", "a", [1, 3])]
    assert port_numbers(allocations[0]) == {"endpoint": 8001}


def test_ports_come_in_the_order_of_the_list() -> None:
    plan = plan_of(replica("a", ports=["x"]), replica("b", ports=["x"]))
    one, two = put(plan, inventory(machine("m", ports=(9, 7, 8, 70))))
    assert port_numbers(one) == {"endpoint": 9, "x": 7}
    assert port_numbers(two) == {"endpoint": 8, "x": 70}


def test_a_run_of_names_gets_consecutive_ports_and_wastes_none() -> None:
    names = ["openengine", "kv", "kv_1", "kv_2", "kv_4", "kv_x", "metrics"]
    ports = (8000, 8001, 8002, 8003, 8005, 8006, 8007, 8008, 8009, 8010)
    taken = Taken(ports=frozenset({("m", 8006)}))
    (allocation,) = put(
        plan_of(replica(ports=names)), inventory(machine("m", ports=ports)), taken=taken
    )
    assert port_numbers(allocation) == {
        "endpoint": 8000,
        "openengine": 8001,
        "kv": 8007,
        "kv_1": 8008,
        "kv_2": 8009,
        "kv_4": 8002,
        "kv_x": 8003,
        "metrics": 8005,
    }
    assert list(allocation["ports"]) == names


def test_a_run_whose_names_come_in_another_order() -> None:
    names = ["kv_1", "other", "kv", "kv_1_1"]
    (allocation,) = put(plan_of(replica(ports=names)), inventory(machine("m")))
    assert port_numbers(allocation) == {
        "endpoint": 8000,
        "kv_1": 8002,
        "other": 8003,
        "kv": 8001,
        "kv_1_1": 8004,
    }


def test_many_processes_on_one_machine() -> None:
    """Giving out a port does not walk over all that were given out before."""
    replicas = [replica(f"s{n}", 1, ["a", "b"], index=n) for n in range(4000)]
    big = machine("m", None, ports=tuple(range(1024, 65536)))
    allocations = put(plan_of(*replicas), inventory(big))
    assert port_numbers(allocations[-1]) == {"endpoint": 13021, "a": 13022, "b": 13023}


def test_where_the_model_is() -> None:
    plan, known = plan_of(replica()), inventory(machine("a"))
    unknown = inventory(machine("a", models={"other": "/models/other"}))
    assert put(plan, known, model_path="/else")[0]["model_locator"] == "/models/llama"
    assert put(plan, unknown, model_path="/else")[0]["model_locator"] == "/else"
    assert refusal(plan, unknown) == (
        'machines.yaml: /machines/0/models: machine a knows no path of model "llama"; '
        "add it to models, or give model.path"
    )


@pytest.mark.parametrize(
    ("sizes", "devices", "tensor", "said"),
    [
        ([4], 8, 8, "replica server needs 8 devices on one machine, the largest has 4; add mach"),
        ([0], 1, 1, "replica server needs 1 device on one machine, the largest has 0; add mach"),
        ([8, 4, 0], 16, 8, "replica server needs 16 devices, 12 are free on 2 machines; stop"),
        ([1, 0], 2, 1, "replica server needs 2 devices, 1 are free on 1 machine; stop"),
        (
            [5, 4, 0],
            9,
            9,
            "replica server needs 9 devices on one machine, the largest has 5; free are m0 5, m1 4;"
            " a split puts equally many whole tensor groups of 9 on every machine: add or free",
        ),
        ([7, 7], 12, 1, ""),
        (
            [1] * 5 + [2] * 7,
            18,
            1,
            "free are m0 1, m1 1, m2 1, m3 1, m4 1, m5 2, m6 2, m7 2 and 4 more machines; a split "
            "puts equally many devices on",
        ),
        ([3, 3, 2, 1], 9, 3, "whole tensor groups of 3 on every machine"),
    ],
)
def test_no_room(sizes: list[int], devices: int, tensor: int, said: str) -> None:
    machines = inventory(*(machine(f"m{n}", size) for n, size in enumerate(sizes)))
    plan = plan_of(replica(devices=devices), tensor=tensor)
    if said:
        assert said in refusal(plan, machines)
    else:
        assert len(put(plan, machines)) == 2


def test_a_replica_is_not_split_because_others_hold_its_machine() -> None:
    taken = Taken(devices=frozenset({("b", 0), ("b", 3), ("b", 4)}))
    machines = inventory(machine("a", 4), machine("b", 8), machine("c", 4))
    assert refusal(plan_of(replica(devices=8)), machines, taken=taken) == (
        "machines.yaml: replica server needs 8 devices on one machine, b has 8, 5 of them free; "
        "stop what holds the others, or add machines"
    )


def test_no_ports() -> None:
    plan = plan_of(replica("a", ports=["x"]), replica("b", ports=["kv", "kv_1", "kv_2"]))
    assert refusal(plan, inventory(machine("m", ports=(1, 3, 4, 5)))) == (
        "machines.yaml: /machines/0/ports: machine m has no 3 consecutive free ports left for kv of"
        " b; add ports to its list"
    )
    assert refusal(plan, inventory(machine("m", ports=(1,)), source="")) == (
        "machine m has no free port left for x of a; add ports to its list"
    )


def test_everything_missing_is_said_once() -> None:
    plan = plan_of(*(replica(f"s{n}", 3, ["x"], index=n) for n in range(4)))
    machines = inventory(machine("a", 6, ports=(1, 2, 3), models={}), machine("b", 3))
    assert refusal(plan, machines).splitlines() == [
        'machines.yaml: /machines/0/models: machine a knows no path of model "llama"; '
        "add it to models, or give model.path",
        "machines.yaml: /machines/0/ports: machine a has no free port left for x of s1; "
        "add ports to its list",
        "machines.yaml: replica s3 needs 3 devices on one machine, a has 6, 0 of them free; "
        "stop what holds the others, or add machines",
    ]
