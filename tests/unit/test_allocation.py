"""Allocations: every set from which no correct command could be written is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    ask,
    output,
    plan_request,
    refused,
    render_request,
    role,
    serve,
)
from tests.unit.fake import FAKE

SINGLE = plan_request(role(outer={"tensor": 2}, attention={"data": 2}))
PAIR = plan_request(
    role("prefill", count=2),
    role("decode"),
    kv_transfer="mooncake",
    routing_backend="fake-router",
)
NODES = Placement(ranks={"serve": 2})


# The render requests that are spoilt below.
ALONE = (SINGLE, Placement())
SPREAD = (SINGLE, NODES)
ROUTED = (PAIR, Placement())

Asked = tuple[Json, Placement]
Spoil = Callable[[list[Json]], Any]


def rendered(asked: Asked) -> Json:
    """A render request that is answered."""
    request, placement = asked
    plan = output(ask(FAKE, request))
    return render_request(request, plan, allocate(plan, placement))


def faults(asked: Asked, spoil: Spoil) -> list[str]:
    spoilt = copy.deepcopy(rendered(asked))
    output(ask(FAKE, spoilt))
    spoil(spoilt["input"]["allocations"])
    code, message = refused(ask(FAKE, spoilt))
    assert code == "invalid_request"
    start = "/input/allocations"
    assert message.startswith(start)
    return [text.removeprefix(start) for text in message.split(" | ")]


def put(place: str, value: Any) -> Spoil:
    """Sets what stands at a path such as ``0/ports/side/port``."""

    def change(node: Any) -> None:
        *path, last = (int(part) if part.isdigit() else part for part in place.split("/"))
        for part in path:
            node = node[part]
        node[last] = value

    return change


def drop(place: str) -> Spoil:
    def change(node: Any) -> None:
        *path, last = (int(part) if part.isdigit() else part for part in place.split("/"))
        for part in path:
            node = node[part]
        del node[last]

    return change


def both(*spoils: Spoil) -> Spoil:
    return lambda allocations: [spoil(allocations) for spoil in spoils]


def at(host: str, port: int) -> Json:
    return {"host": host, "port": port}


RUN = "the engine takes 2 consecutive ports from side on: give the machine a port list with such"


def second_router(allocations: list[Json]) -> None:
    allocations[3]["rank_count"] = 2
    second = {"process": "r", "rank": 1, "endpoint": at("10.9.9.9", 1), "ports": {}}
    allocations.append({**allocations[3], **second})


CASES: list[tuple[Asked, Spoil, list[str]]] = [
    # Who is who
    (ALONE, put("0/role", "chat"), [
        '/0/role: "chat" is no planned role',
        ': replica 0 of role "serve" has no allocation',
    ]),
    (ALONE, put("0/replica", 1), [
        '/0/replica: replica 1 is not planned: "serve" has 1',
        ': replica 0 of role "serve" has no allocation',
    ]),
    (ALONE, list.clear, [': replica 0 of role "serve" has no allocation']),
    (ROUTED, lambda a: a.__delitem__(slice(2)), [
        ': replica 0 of role "prefill" and 1 more has no allocation',
    ]),
    (ROUTED, lambda a: a.pop(), [': replica 0 of role "router" has no allocation']),
    (ALONE, put("0/process", ""), ["/0/process: must not be empty; give every process its own id"]),
    (ROUTED, put("1/process", "prefill-000"), [
        '/1/process: "prefill-000" is used twice; give every process its own id',
    ]),
    # Ranks
    (ALONE, put("0/rank_count", 2), [
        '/0/rank_count: says 2, but replica 0 of role "serve" has 1 allocation; '
        "allocate every rank once",
    ]),
    (ALONE, put("0/rank", 1), [
        '/0/rank: rank 1 of replica 0 of role "serve" is out of range; it has 1 ranks',
    ]),
    (SPREAD, put("1/rank", 0), [
        '/1/rank: rank 0 of replica 0 of role "serve" is also "server-rank-000"; '
        "number the ranks 0, 1, 2, …",
    ]),
    (SPREAD, lambda a: a.pop(), [
        '/0/rank_count: says 2, but replica 0 of role "serve" has 1 allocation; '
        "allocate every rank once",
    ]),
    # Devices
    (ALONE, put("0/devices", [0, 1, 2]), [
        '/0/devices: replica 0 of role "serve" needs 4 devices, ',
    ]),
    (SPREAD, put("1/devices", []), [
        '/0/devices: replica 0 of role "serve" needs 4 devices, its 2 allocations have 2',
    ]),
    (SPREAD, both(put("0/devices", [0, 1, 2]), put("1/devices", [3])), [
        '/0/devices: replica 0 of role "serve" is split 3+1, '
        "but every rank must have the same number of devices",
    ]),
    (ALONE, put("0/devices", [0, 1, 1, 2]), ["/0/devices: [0, 1, 1, 2] names a device twice"]),
    # What a process needs
    (ALONE, drop("0/endpoint"), ["/0/endpoint: is missing: this process serves HTTP"]),
    (ALONE, put("0/endpoint", None), ["/0/endpoint: is missing: this process serves HTTP"]),
    (ALONE, drop("0/model_locator"), ["/0/model_locator: is missing: every rank loads the model"]),
    (SPREAD, put("1/model_locator", ""), [
        "/1/model_locator: is missing: every rank loads the model",
    ]),
    (ALONE, put("0/model_locator", "--help"), [
        '/0/model_locator: "--help" would be read as an option; use a full path',
    ]),
    (ALONE, put("0/model_locator", "a\0"), ["/0/model_locator: must not contain a NUL character"]),
    (ALONE, put("0/cache", ""), ["/0/cache: must not be empty"]),
    (ALONE, put("0/cache", "/a\0"), ["/0/cache: must not contain a NUL character"]),
    (ALONE, drop("0/ports/side"), ["/0/ports/side: is missing: the plan asks for it"]),
    (SPREAD, drop("1/ports/side_1"), ["/1/ports/side_1: is missing: the plan asks for it"]),
    (SPREAD, drop("0/ports/master"), ["/0/ports/master: is missing: the plan asks for it"]),
    (ALONE, put("0/ports/a~b", at("10.0.0.1", 1)), [
        "/0/ports/a~0b: is no planned port; leave it out",
    ]),
    # Runs of ports
    (ALONE, put("0/ports/side_1/port", 9000), [
        "/0/ports/side_1: must be 10.0.0.1 port 8002, got ",
    ]),
    (ALONE, put("0/ports/side_1/host", "10.0.0.9"), [
        "/0/ports/side_1: must be 10.0.0.1 port 8002, got 10.0.0.9 port 8002; " + RUN,
    ]),
    # Addresses
    (ALONE, put("0/endpoint/port", 0), ["/0/endpoint/port: 0 is not a port; give a fixed port"]),
    (ALONE, put("0/endpoint/host", "0.0.0.0"), [
        '/0/endpoint/host: "0.0.0.0" is a wildcard, which no peer can connect to; '
        "give the address that peers reach",
    ]),
    (ALONE, put("0/endpoint/host", "12"), [
        '/0/endpoint/host: "12" is neither an IP address nor a host name',
    ]),
    (ALONE, put("0/endpoint/port", 8001), [
        '/0/ports/side: 10.0.0.1 port 8001 is both the endpoint of "server" '
        'and port side of "server"; give each its own port',
    ]),
    (ROUTED, put("1/endpoint", at("10.0.0.1", 8000)), [
        '/1/endpoint: 10.0.0.1 port 8000 is both the endpoint of "prefill-000" '
        'and the endpoint of "prefill-001"; give each its own port',
    ]),
    (SPREAD, put("0/ports/master/host", "127.0.0.1"), [
        '/0/ports/master/host: "127.0.0.1" cannot be reached from the other machines; '
        "give the address that peers reach",
    ]),
    (ROUTED, put("2/endpoint/host", "localhost"), [
        '/2/endpoint/host: "localhost" cannot be reached from the other machines; '
        "give the address that peers reach",
    ]),
    # Routers
    (ROUTED, put("3/devices", [0]), ["/3/devices: a router takes no devices; send []"]),
    (ROUTED, put("3/model_locator", "/m"), [
        "/3/model_locator: a router loads no model; leave it out",
    ]),
    (ROUTED, drop("3/ports/metrics"), ["/3/ports/metrics: is missing: the plan asks for it"]),
    (ROUTED, drop("3/endpoint"), ["/3/endpoint: is missing: this process serves HTTP"]),
    (ROUTED, second_router, ["/4/rank: a router is one process; allocate one rank"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "spoil", "expected"),
    [pytest.param(*case, id=case[2][0].partition(";")[0][:60]) for case in CASES],
)
def test_what_is_wrong_with_an_allocation_is_told(
    asked: Asked, spoil: Spoil, expected: list[str]
) -> None:
    found = faults(asked, spoil)
    assert len(found) == len(expected)
    for told, text in zip(found, expected, strict=True):
        assert told.startswith(text)


@pytest.mark.parametrize(
    ("request_", "placement"),
    [
        (SINGLE, Placement()),
        (SINGLE, NODES),
        (SINGLE, Placement(ranks={"serve": 4})),
        (SINGLE, Placement(hosts=lambda index: "127.0.0.1")),
        (SINGLE, Placement(ranks={"serve": 2}, hosts=lambda index: f"fd00::{index}")),
        (plan_request(role(count=2)), Placement(hosts=lambda index: "localhost")),
        (PAIR, Placement()),
        (PAIR, Placement(together=True, hosts=lambda index: "127.0.0.1")),
    ],
)
def test_what_a_control_plane_allocates_is_rendered(request_: Json, placement: Placement) -> None:
    serve(FAKE, request_, placement)


def test_the_order_of_allocations_changes_only_the_order_of_processes() -> None:
    plan = output(ask(FAKE, PAIR))
    allocations = allocate(plan, Placement())
    forward = output(ask(FAKE, render_request(PAIR, plan, allocations)))["processes"]
    backward = output(ask(FAKE, render_request(PAIR, plan, allocations[::-1])))["processes"]
    assert backward == forward[::-1]
    assert forward[3]["command"]["argv"] == [
        *("fake-router", "8000", "0:10.0.0.1", "1:10.0.0.2", "0:10.0.0.3"),
    ]


def test_ranks_are_found_by_their_number_and_not_by_their_place() -> None:
    plan = output(ask(FAKE, SINGLE))
    allocations = allocate(plan, NODES)[::-1]
    processes = output(ask(FAKE, render_request(SINGLE, plan, allocations)))["processes"]
    assert [process["command"]["argv"][2] for process in processes] == ["1", "0"]


def test_a_name_and_its_other_spelling_are_one_host() -> None:
    plan = output(ask(FAKE, plan_request(role(count=2))))
    allocations = allocate(plan, Placement(together=True, hosts=lambda index: "gpu-1"))
    allocations[1]["endpoint"] = {"host": "GPU-1.", "port": allocations[0]["endpoint"]["port"]}
    request = render_request(plan_request(role(count=2)), plan, allocations)
    _, message = refused(ask(FAKE, request))
    assert "is both the endpoint of" in message


def test_one_port_of_a_machine_is_given_once_whatever_its_host() -> None:
    found = faults(ALONE, put("0/endpoint", at("10.0.0.9", 8001)))
    assert "port 8001 is both the endpoint of" in found[0]


def test_the_same_loopback_port_on_two_machines_is_no_clash() -> None:
    request = plan_request(role(count=2))
    plan = output(ask(FAKE, request))
    allocations = allocate(plan, Placement(hosts=lambda index: "127.0.0.1"))
    assert allocations[0]["endpoint"] == allocations[1]["endpoint"]
    output(ask(FAKE, render_request(request, plan, allocations)))
