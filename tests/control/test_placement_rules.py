"""What holds for every placement, whatever the machines and the plan."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st

from inferlab_adapters.control.inventory import Inventory
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.refusal import Refused
from tests.control.placing import inventory, machine, plan_of, port_numbers, put, replica
from tests.support.control_plane import Json

PORTS = [
    tuple(range(1, 30)),
    tuple(range(20, 0, -1)),
    (*range(2, 40, 2), *range(1, 40, 2)),
    (9, 7, 1, 2, 3, 30, 31, 32, 33, 8),
]


@st.composite
def machines_of(draw: st.DrawFn) -> Inventory:
    """A few machines with few devices and ports, often all alike, rarely one that counts none."""
    sizes: list[int | None] = [0, 2, 3, 4, 4, 6, 8, 8]
    if draw(st.integers(0, 4)) == 0:
        sizes.append(None)
    elif draw(st.booleans()):
        sizes = [draw(st.sampled_from([4, 6, 8]))]
    return inventory(
        *(
            machine(f"m{index}", draw(st.sampled_from(sizes)), ports=draw(st.sampled_from(PORTS)))
            for index in range(draw(st.sampled_from([1, 2, 3, 4, 4])))
        )
    )


@st.composite
def plans(draw: st.DrawFn) -> Json:
    """Replicas of one tensor size, and perhaps a router; ports with runs of up to four."""
    run = draw(st.integers(0, 4))
    ports = ["kv", "kv_1", "kv_2", "kv_3"][:run] + draw(st.sampled_from([[], ["openengine"]]))
    sizes = draw(st.lists(st.sampled_from([1, 2, 4, 6, 8, 9, 12, 16]), min_size=1, max_size=2))
    replicas = [
        replica(
            f"s{index}", size, ports[:: draw(st.sampled_from([1, -1]))], ["master"], index=index
        )
        for index, size in enumerate(sizes)
    ]
    if draw(st.booleans()):
        replicas.append(replica("router", 0, ["metrics"], role_id="router"))
    return plan_of(*replicas, tensor=draw(st.sampled_from([1, 2, 4, 16])))


PAIRS = st.frozensets(
    st.tuples(st.sampled_from(["m0", "m1", "m2"]), st.integers(0, 30)), max_size=4
)


@settings(max_examples=200, deadline=None)
@given(plan=plans(), machines=machines_of(), devices=PAIRS, ports=PAIRS)
def test_whatever_is_placed_is_sound(
    plan: Json,
    machines: Inventory,
    devices: frozenset[tuple[str, int]],
    ports: frozenset[tuple[str, int]],
) -> None:
    taken = Taken(devices=devices, ports=ports)
    allocations, said = outcome(plan, machines, taken)
    assert outcome(plan, machines, taken) == (allocations, said)
    event("refused" if said else "placed")
    if said:
        check_refusal(plan, machines, taken, said)
        return
    check_devices(machines, taken, allocations)
    check_ports(machines, taken, allocations)
    for wanted in plan["replicas"]:
        ranks = [item for item in allocations if item["process"].split("-")[0] == wanted["id"]]
        check_replica(wanted, machines, ranks)


def outcome(plan: Json, machines: Inventory, taken: Taken) -> tuple[list[Json], str]:
    """Allocations, or what the refusal says."""
    try:
        return put(plan, machines, taken=taken), ""
    except Refused as refused:
        return [], str(refused)


def check_refusal(plan: Json, machines: Inventory, taken: Taken, said: str) -> None:
    """Where devices were missing for the first replica, no machine has as many free ones."""
    first = plan["replicas"][0]
    if f"replica {first['id']} needs" in said:
        for item in machines.machines:
            assert item.devices is not None
            free = [number for number in item.devices if (item.name, number) not in taken.devices]
            assert len(free) < first["device_count"]
    else:
        assert " needs " in said or " left for " in said


def check_devices(machines: Inventory, taken: Taken, allocations: Sequence[Json]) -> None:
    """Every device once, one that the machine has, and none that others hold."""
    given = [(item["machine"], number) for item in allocations for number in item["devices"]]
    assert len(set(given)) == len(given)
    assert not set(given) & taken.devices
    numbers = {item.name: item.devices for item in machines.machines}
    for name, number in given:
        known = numbers[name]
        assert known is None or number in known


def check_ports(machines: Inventory, taken: Taken, allocations: Sequence[Json]) -> None:
    """Every port once, one of the machine's list, and none that others hold; runs consecutive."""
    given = [
        (item["machine"], port) for item in allocations for port in port_numbers(item).values()
    ]
    assert len(set(given)) == len(given)
    assert not set(given) & taken.ports
    listed = {item.name: item.ports for item in machines.machines}
    assert all(port in listed[name] for name, port in given)
    for item in allocations:
        numbers = port_numbers(item)
        for index in range(1, 4):
            if f"kv_{index}" in numbers:
                assert numbers[f"kv_{index}"] == numbers["kv"] + index


def check_replica(wanted: Json, machines: Inventory, ranks: Sequence[Json]) -> None:
    """All ranks alike, each on its own machine, split only when no machine is big enough."""
    count = len(ranks)
    assert [item["rank"] for item in ranks] == list(range(count))
    assert {item["rank_count"] for item in ranks} == {count}
    assert len({item["machine"] for item in ranks}) == count
    assert {len(item["devices"]) for item in ranks} == {wanted["device_count"] // count}
    assert wanted["device_count"] % count == 0
    for item in ranks:
        primary = ["master"] if count > 1 and item["rank"] == 0 else []
        assert list(item["ports"]) == [*wanted["ports"], *primary]
    if count > 1:
        event("split")
        for known in machines.machines:
            assert known.devices is not None
            assert len(known.devices) < wanted["device_count"]
