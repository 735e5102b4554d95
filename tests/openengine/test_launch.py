"""The rendered command that serves OpenEngine is one that the program itself reads."""

from __future__ import annotations

import pytest

from inferlab_adapters.adapter import Adapter
from inferlab_adapters.addresses import http_url
from inferlab_adapters.openengine import launch
from inferlab_adapters.openengine.command_line import parse
from inferlab_adapters.openengine.engine import Role
from inferlab_adapters.protocol import EndpointAssignment
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import Json, Placement, argv_of, plan_request, role, serve
from tests.support.golden import folders, pair, read, single

SPEAKING = [
    framework for framework, adapter in ADAPTERS.items() if launch.SETTING in adapter.own_settings
]
ROLES = {"serve": Role.AGGREGATED, "prefill": Role.PREFILL, "decode": Role.DECODE}


def commands(framework: str) -> list[tuple[str, Json, str, list[str]]]:
    """Every golden server: (test id, allocation, kind, argv)."""
    found = []
    for name, folder in sorted(folders(framework).items()):
        response = read(folder / "response.json")
        if not name.endswith("-render") or response["status"] != "ok":
            continue
        request = read(folder / "request.json")["input"]
        kinds = {item["id"]: item["kind"] for item in request["roles"]}
        processes = response["result"]["output"]["processes"]
        for allocation, process in zip(request["allocations"], processes, strict=True):
            kind = kinds[process["role"]]
            found.append(
                (f"{name}:{process['process']}", allocation, kind, process["command"]["argv"])
            )
    return found


@pytest.mark.parametrize("framework", SPEAKING)
def test_the_program_reads_what_is_rendered(framework: str) -> None:
    wrapped = 0
    for label, allocation, kind, argv in commands(framework):
        own = launch.unwrapped(argv)
        if kind == "router" or allocation["rank"] > 0 or "without-openengine" in label:
            assert own == argv, label
            continue
        options = parse(argv[len(launch.PROGRAM) - 1 :])
        port = allocation["ports"][launch.PORT]
        assert (options.listen.host, options.listen.port) == (port["host"], port["port"]), label
        assert options.engine == http_url(EndpointAssignment(**allocation["endpoint"])), label
        assert options.framework == framework, label
        assert options.role is ROLES[kind], label
        assert options.instance_id == allocation["process"], label
        assert list(options.argv) == list(own), label
        wrapped += 1
    assert wrapped > 10


@pytest.mark.parametrize("framework", SPEAKING)
def test_every_serving_replica_has_the_port_unless_it_is_switched_off(framework: str) -> None:
    adapter = ADAPTERS[framework]
    assert ports(adapter, pair(routing_backend=next(iter(adapter.routers)))) == {
        "prefill": True,
        "decode": True,
        "router": False,
    }
    assert ports(adapter, single(openengine=False)) == {"server": False}


def ports(adapter: Adapter, request: Json) -> dict[str, bool]:
    plan, _, _ = serve(adapter, request)
    return {item["id"]: launch.PORT in item["ports"] for item in plan["replicas"]}


@pytest.mark.parametrize("framework", SPEAKING)
def test_switched_off_it_is_the_plain_command(framework: str) -> None:
    adapter = ADAPTERS[framework]
    _, _, off = serve(adapter, single(openengine=False))
    _, _, on = serve(adapter, single())
    plain, inner = off["processes"][0]["command"]["argv"], argv_of(on, "server")
    assert plain[0] == inner[0]
    # Only what the backend needs is added, and each is an option of its own.
    added = [token for token in inner if token not in plain]
    assert added
    assert [token for token in plain if token not in inner] == []


@pytest.mark.parametrize("framework", SPEAKING)
def test_only_rank_0_serves_it(framework: str) -> None:
    request = plan_request(role(outer={"tensor": 4}))
    _, _, rendered = serve(ADAPTERS[framework], request, Placement(ranks={"serve": 2}))
    first, second = (process["command"]["argv"] for process in rendered["processes"])
    assert launch.unwrapped(first) != first
    assert launch.unwrapped(second) == second


@pytest.mark.parametrize("name", ["-x", "a b", "ü"])
def test_any_process_name_comes_through(name: str) -> None:
    options = parse(
        [
            *("serve", "--framework", "vllm", "--role", "decode"),
            *("--listen", "[::1]:7", "--engine", "http://[::1]:8"),
            *(f"--instance-id={name}", "--", "vllm", "serve"),
        ]
    )
    assert options.instance_id == name
    assert str(options.listen) == "[::1]:7"
