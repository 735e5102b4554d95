"""The two topologies, through a framework that uses all of them."""

from __future__ import annotations

from typing import Any

import pytest

from inferlab_adapters.deployment import span_names
from tests.support.control_plane import Json, ask, check_plan, output, plan_request, refused, role
from tests.unit.fake import FAKE


def plan(request: Json) -> Json:
    found = output(ask(FAKE, request))
    check_plan(request, found, "fake")
    return found


def pair(*roles: Json, kv: str | None = "nixl", **fields: Any) -> Json:
    transfer = {"kv_transfer": kv} if kv else {}
    return plan_request(*(roles or (role("prefill"), role("decode"))), **transfer, **fields)


def messages(request: Json, code: str) -> list[str]:
    got, message = refused(ask(FAKE, request))
    assert got == code
    return message.split(" | ")


@pytest.mark.parametrize(
    ("count", "names"),
    [(1, ("side",)), (3, ("side", "side_1", "side_2")), (0, ("side",))],
)
def test_a_run_of_ports_has_a_name_each(count: int, names: tuple[str, ...]) -> None:
    assert span_names("side", count) == names


@pytest.mark.parametrize(
    ("request_", "ids"),
    [
        (plan_request(role(id="chat")), ["server"]),
        (plan_request(role(count=2)), ["server-000", "server-001"]),
        (pair(role("prefill", id="p", count=2), role("decode")), ["p-000", "p-001", "decode"]),
        (pair(routing_backend="fake-router"), ["prefill", "decode", "router"]),
    ],
)
def test_replicas_are_numbered_only_where_there_are_several(request_: Json, ids: list[str]) -> None:
    assert [replica["id"] for replica in plan(request_)["replicas"]] == ids


def test_single_is_direct_and_has_no_links() -> None:
    found = plan(plan_request(role(id="chat")))
    assert found["links"] == []
    assert found["routing"] == {"owner": "direct", "role": "chat", "replica": 0}


ROLES = (role("decode", id="d"), role("prefill", id="p"))
TRANSFER: list[Json] = [
    {"kind": "request_routing", "source": "router", "targets": ["p", "d"]},
    {"kind": "kv_transfer", "source": "p", "target": "d", "mechanism": "nixl"},
]
BOOTSTRAP = {"kind": "bootstrap", "source": "router", "target": "p", "port": "bootstrap"}


@pytest.mark.parametrize(
    ("kv", "links", "implementation"),
    [
        ("nixl", TRANSFER, "trtllm"),
        ("mooncake", [TRANSFER[0], {**TRANSFER[1], "mechanism": "mooncake"}, BOOTSTRAP], "sglang"),
    ],
)
@pytest.mark.parametrize("backend", [{}, {"routing_backend": "builtin"}])
def test_prefill_and_decode_are_linked_whatever_their_order(
    kv: str, links: list[Json], implementation: str, backend: Json
) -> None:
    found = plan(pair(*ROLES, kv=kv, **backend))
    assert found["links"] == links
    assert found["routing"] == {
        "owner": "inferlab_builtin",
        "implementation": implementation,
        "policy": "round_robin",
        "prefill_role": "p",
        "decode_role": "d",
        "ports": [],
        "readiness": {"kind": "http", "path": "/healthcheck"},
    }
    assert [item["id"] for item in found["roles"]] == ["d", "p"]


def test_a_native_router_is_a_role_without_devices() -> None:
    found = plan(pair(routing_backend="fake-router"))
    assert found["routing"] == {
        "owner": "integration_native",
        "role": "router",
        "replica": 0,
        "policy": "round_robin",
    }
    assert found["roles"][2] == {
        "id": "router",
        "kind": "router",
        "declared_replica_count": 1,
        "effective_replica_count": 1,
        "effective_settings": {"policy": "round_robin"},
        "effective_parallelism": {},
    }
    assert found["replicas"][2] == {
        "id": "router",
        "role_id": "router",
        "replica_index": 0,
        "device_count": 0,
        "ports": ["metrics"],
        "primary_ports": [],
        "primary_readiness": {"kind": "http", "path": "/ready"},
        "worker_readiness": {"kind": "process_alive"},
    }


@pytest.mark.parametrize("profiling", [True, False])
def test_only_serving_replicas_are_profiled_and_only_when_asked(profiling: bool) -> None:
    found = plan(pair(routing_backend="fake-router", profiling=profiling))
    captured = ["capture_target" in replica for replica in found["replicas"]]
    assert captured == [profiling, profiling, False]


def model(**fields: str) -> Json:
    request = plan_request(role())
    request["input"]["model"] |= fields
    return request


NAMES: list[tuple[Json, list[str]]] = [
    (model(id=""), ["/input/model/id: must not be empty"]),
    (model(served_name=""), ["/input/model/served_name: must not be empty"]),
    (model(id="a\0"), ["/input/model/id: must not contain a NUL character"]),
    (
        model(served_name="None"),
        ['/input/model/served_name: "None" would be read as no name; choose another'],
    ),
    (
        model(served_name="--x"),
        ['/input/model/served_name: "--x" would be read as an option; do not begin it with -'],
    ),
    (
        pair({**role("prefill"), "id": ""}, role("decode", count=0)),
        [
            "/input/roles/0/id: must not be empty",
            "/input/roles/1/replica_count: must be 1 to 65536, got 0",
        ],
    ),
    (
        plan_request(role(count=65_537)),
        ["/input/roles/0/replica_count: must be 1 to 65536, got 65537"],
    ),
    (
        pair(role("prefill", id="a", count=2), role("decode", id="a-001")),
        ['/input/roles/1/id: its replica "a-001" would be called like one of "a"; rename one'],
    ),
]


@pytest.mark.parametrize(("request_", "expected"), NAMES)
def test_names_that_cannot_be_used_are_refused(request_: Json, expected: list[str]) -> None:
    assert messages(request_, "invalid_request") == expected


def shaped(*kinds: str, **fields: Any) -> Json:
    request = plan_request(*map(role, kinds), **fields)
    request["input"].setdefault("kv_transfer", "nixl")
    request["input"]["topology"] = "prefill_decode"
    return request


SINGLE = "single takes exactly one serve"
PAIR = "prefill_decode takes exactly one prefill and one decode"
SHAPES: list[tuple[Json, list[str]]] = [
    (plan_request(role("prefill")), [
        f"/input/roles: the serve role is missing; {SINGLE}",
        f'/input/roles/0: role "prefill" of kind prefill is one too many; {SINGLE}',
    ]),
    (plan_request(role(), kv_transfer="nixl", routing_backend="builtin"), [
        '/input/kv_transfer: "nixl" has no use in topology single; remove it',
        '/input/routing_backend: "builtin" has no use in topology single; remove it',
    ]),
    (plan_request(role(), role(id="b"), topology="single"), [
        f'/input/roles/1: role "b" of kind serve is one too many; {SINGLE}',
    ]),
    (shaped("decode"), [f"/input/roles: the prefill role is missing; {PAIR}"]),
    (shaped("prefill", "decode", "serve"), [
        f'/input/roles/2: role "serve" of kind serve is one too many; {PAIR}',
    ]),
    (shaped("prefill", "decode", "prefill"), [
        f'/input/roles/2: role "prefill" of kind prefill is one too many; {PAIR}',
        '/input/roles/2/id: "prefill" is used twice; rename one',
    ]),
    (shaped("prefill", "decode", "router"), [
        '/input/roles/2: role "router" of kind router cannot be asked for; name a routing_backend',
        '/input/roles/2/id: "router" is the name of the router\'s own role; rename the role',
    ]),
    (pair(kv=None), [
        "/input/kv_transfer: is missing: prefill and decode need a way to hand over the KV cache; "
        "use nixl or mooncake",
    ]),
    (pair(routing_backend="fake-ruoter"), [
        '/input/routing_backend: "fake-ruoter" is not supported; did you mean "fake-router"?',
    ]),
    (pair(routing_backend=""), [
        '/input/routing_backend: "" is not supported; use builtin or fake-router',
    ]),
    (pair(role("prefill", attention={"data": 65_536}, outer={"tensor": 2}), role("decode")), [
        "/input/roles/0/parallelism: asks for 131072 devices in one replica; the limit is 65536",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "expected"), SHAPES)
def test_a_shape_that_a_topology_does_not_have_is_refused(
    request_: Json, expected: list[str]
) -> None:
    assert messages(request_, "invalid_settings") == expected


def test_a_mechanism_that_the_framework_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(FAKE), "mechanisms", {"mooncake": FAKE.mechanisms["mooncake"]})
    assert messages(pair(kv="nixl"), "invalid_settings") == [
        '/input/kv_transfer: "nixl" is not supported; use mooncake'
    ]
