"""From a wanted deployment to commands: which router, which cache, whose places in messages."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import pytest

from inferlab_adapters.control import wanted as wanted_module
from inferlab_adapters.control.client import Client
from inferlab_adapters.control.inventory import Inventory, Machine
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.prepare import Prepared, cache_root, prepare
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.wanted import Wanted
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import check_plan, check_render

HERE = Machine(name="here", address="127.0.0.1", devices=None, ports=tuple(range(8000, 8100)))
PAIR = (
    "framework: {}\nmodel: {{id: m, path: /m}}\nkv_transfer: nixl\nroles: {{prefill: , decode: }}"
)


def wanted(text: str) -> Wanted:
    return wanted_module.load("-", framework=None, stdin=io.BytesIO(text.encode()))


def prepared(text: str, *, native_router: bool = False, strict: bool = False) -> Prepared:
    asked = wanted(text)
    client = Client(ADAPTERS[asked.framework], "unavailable")
    machines = Inventory(machines=(HERE,))
    return prepare(asked, client, machines, native_router=native_router, strict=strict)


@pytest.mark.parametrize("framework", sorted(ADAPTERS))
def test_what_is_prepared_passes_a_real_control_planes_checks(framework: str) -> None:
    done = prepared(PAIR.format(framework), native_router=True)
    check_plan(done.request, done.plan, framework)
    check_render(done.plan, done.allocations, done.rendered)
    router = next(a for a in done.allocations if a["role"] == "router")
    assert done.endpoint == (router["endpoint"]["host"], router["endpoint"]["port"])


@pytest.mark.parametrize("framework", sorted(ADAPTERS))
def test_builtin_routing_stays_unless_it_is_to_be_started(framework: str) -> None:
    assert prepared(PAIR.format(framework)).plan["routing"]["owner"] == "inferlab_builtin"
    started = prepared(PAIR.format(framework), native_router=True)
    backend = started.request["input"]["routing_backend"]
    assert backend in ADAPTERS[framework].routers
    assert started.notes == (
        f"routing builtin needs a router that oe has not: using {backend} instead",
    )
    with pytest.raises(Refused, match=f'/routing: builtin needs a router .* use "{backend}"'):
        prepared(PAIR.format(framework), native_router=True, strict=True)


def test_a_native_router_that_was_asked_for_is_no_substitute() -> None:
    text = PAIR.format("vllm") + "\nrouting: vllm-router"
    assert prepared(text, native_router=True, strict=True).notes == ()


def test_caches_are_told_apart_by_deployment_and_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    done = prepared("name: one\n" + PAIR.format("vllm"))
    assert [a["cache"] for a in done.allocations] == [
        "/caches/oe/one/prefill",
        "/caches/oe/one/decode",
    ]
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_root(HERE) == str(Path.home() / ".cache" / "oe")
    far = Machine(name="far", address="10.0.0.1", devices=(0,), ports=(1,), ssh="far")
    assert cache_root(far) == "/var/tmp/oe"
    own = Machine(name="far", address="10.0.0.1", devices=(0,), ports=(1,), cache="/big")
    assert cache_root(own) == "/big"


def test_what_others_hold_is_left_alone() -> None:
    asked = wanted("framework: vllm\nmodel: {id: m, path: /m}")
    client = Client(ADAPTERS["vllm"], "unavailable")
    taken = Taken(ports=frozenset({("here", 8000)}), devices=frozenset({("here", 0)}))
    done = prepare(asked, client, Inventory(machines=(HERE,)), taken=taken)
    assert done.allocations[0]["endpoint"]["port"] == 8001
    assert done.allocations[0]["devices"] == [1]


def test_render_inputs_are_read_with_their_digest(tmp_path: Path) -> None:
    text = "enable_chunked_prefill: true\r\n"
    (tmp_path / ".inferlab").mkdir()
    (tmp_path / ".inferlab" / "o.yaml").write_bytes(text.encode())
    file = tmp_path / "d.yaml"
    file.write_text(
        "framework: tensorrt-llm\nmodel: {id: m, path: /m}\n"
        "settings: {extra_llm_api_options: o.yaml}"
    )
    asked = wanted_module.load(str(file), framework=None, stdin=io.BytesIO())
    client = Client(ADAPTERS["tensorrt-llm"], "unavailable")
    done = prepare(asked, client, Inventory(machines=(HERE,)))
    (supplied,) = done.render_request["input"]["render_inputs"]
    assert supplied["text"] == text
    assert supplied["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_refusal_of_render_names_the_file_as_well() -> None:
    named = Machine(name="here", address="some-host", devices=None, ports=tuple(range(8000, 8100)))
    asked = wanted(PAIR.format("sglang") + "\nrouting: sglang-router")
    client = Client(ADAPTERS["sglang"], "unavailable")
    with pytest.raises(Refused) as refused:
        prepare(asked, client, Inventory(machines=(named,)))
    assert refused.value.source == "stdin"
    assert all("give the IP address" in line for line in refused.value.lines())
