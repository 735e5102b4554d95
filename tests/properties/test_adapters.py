"""What holds for every adapter and every request."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.openengine.launch import unwrapped
from inferlab_adapters.wire import respond
from tests.fourth.toy.oe_adapter_toy import ADAPTER as TOY
from tests.properties.strategies import placements, requests
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    SIZES,
    Json,
    allocate,
    ask,
    check_plan,
    check_render,
    output,
    refused,
    render_request,
)
from tests.support.schema import check_request


def newest(adapter: Adapter) -> str:
    """The newest framework version with a catalogue."""
    return adapter.recorded_versions()[-1]


EVERY = {**ADAPTERS, "toy": TOY}
every_adapter = pytest.mark.parametrize("adapter", EVERY.values(), ids=EVERY)
thorough = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def planned(adapter: Adapter, request: Json) -> Json:
    """The plan of a request; a refusal must be about the request, and is then left alone."""
    response = ask(adapter, request, newest(adapter))
    if response["status"] == "error":
        code, message = refused(response)
        assert code == "invalid_settings", message
        assert message.startswith("/input/"), message
    assume(response["status"] == "ok")
    return output(response)


def rendered(adapter: Adapter, request: Json, plan: Json, allocations: list[Json]) -> Json:
    """The render of a plan; only allocations can still be wrong."""
    response = ask(adapter, render_request(request, plan, allocations), newest(adapter))
    if response["status"] == "error":
        code, message = refused(response)
        assert code == "invalid_request", message
        assert "/input/allocations" in message, message
    assume(response["status"] == "ok")
    return output(response)


def spread_fits(plan: Json, ranks: Any) -> bool:
    return all(
        replica["device_count"] % ranks.get(replica["role_id"], 1) == 0
        for replica in plan["replicas"]
    )


@every_adapter
@thorough
@given(data=st.data())
def test_plan_then_render_works_and_keeps_identities(adapter: Adapter, data: st.DataObject) -> None:
    request = data.draw(requests(adapter, newest(adapter)))
    check_request(request)
    plan = planned(adapter, request)
    check_plan(request, plan, adapter.framework)
    placement = data.draw(placements(request))
    assume(spread_fits(plan, placement.ranks))
    allocations = allocate(plan, placement)
    answer = rendered(adapter, request, plan, allocations)
    check_render(plan, allocations, answer)
    check_commands(adapter, plan, answer)


def check_commands(adapter: Adapter, plan: Json, answer: Json) -> None:
    """Every option is in the catalogue, none stands twice, JSON tokens hold what was set."""
    table = adapter.option_table(newest(adapter))
    roles = {role["id"]: role for role in plan["roles"]}
    for process in answer["processes"]:
        wanted = roles[process["role"]]
        if wanted["kind"] == "router":
            continue
        argv = unwrapped(process["command"]["argv"])
        start = next(index for index, token in enumerate(argv) if token.startswith("--"))
        seen: dict[str, tuple[str, ...]] = {}
        for use in table.scan(argv[start:]):
            assert use.reading is not None, f"{use.token} is in no catalogue"
            option = use.reading.option
            if not option.repeats:
                assert option.name not in seen, f"{use.token} stands twice"
            inline = () if use.reading.value is None else (use.reading.value,)
            seen[option.name] = (*inline, *use.values)
        for name, value in wanted["effective_settings"].items():
            if name in table and isinstance(value, dict):
                assert json.loads(seen[name][0]) == value


@every_adapter
@thorough
@given(data=st.data())
def test_the_effective_plan_plans_to_itself(adapter: Adapter, data: st.DataObject) -> None:
    request = data.draw(requests(adapter, newest(adapter)))
    plan = planned(adapter, request)
    again = json.loads(json.dumps(request))
    effective = {role["id"]: role for role in plan["roles"]}
    for role in again["input"]["roles"]:
        role["parallelism"] = effective[role["id"]]["effective_parallelism"]
        role["settings"] = effective[role["id"]]["effective_settings"]
    assert output(ask(adapter, again, newest(adapter))) == plan


@every_adapter
@thorough
@given(data=st.data())
def test_every_declared_size_counts(adapter: Adapter, data: st.DataObject) -> None:
    """A size above 1 changes the command, or says only what the other sizes imply."""
    request = data.draw(requests(adapter, newest(adapter)))
    plan = planned(adapter, request)
    effective = {role["id"]: role["effective_parallelism"] for role in plan["roles"]}
    commands = rendered(adapter, request, plan, allocate(plan))
    for index, role in enumerate(request["input"]["roles"]):
        for group, names in SIZES.items():
            for name in names:
                size = role["parallelism"].get(group, {}).get(name, 1)
                if size == 1:
                    continue
                less = json.loads(json.dumps(request))
                del less["input"]["roles"][index]["parallelism"][group][name]
                response = ask(adapter, less, newest(adapter))
                if response["status"] == "error":
                    continue
                without = output(response)
                implied = without["roles"][index]["effective_parallelism"][group][name]
                if implied == effective[role["id"]][group][name]:
                    continue
                other = rendered(adapter, less, without, allocate(without))
                assert other["processes"] != commands["processes"], f"{group}.{name} is lost"


@every_adapter
@thorough
@given(data=st.data(), seed=st.integers(0, 999))
def test_order_of_the_input_changes_no_command(
    adapter: Adapter, data: st.DataObject, seed: int
) -> None:
    request = data.draw(requests(adapter, newest(adapter)))
    plan = planned(adapter, request)
    allocations = allocate(plan, data.draw(placements(request)))
    assume(all(len(a["devices"]) or "model_locator" not in a for a in allocations))
    answer = rendered(adapter, request, plan, allocations)
    shuffle = random.Random(seed)
    shuffled = list(allocations)
    shuffle.shuffle(shuffled)
    question = reordered(render_request(request, plan, shuffled), shuffle)
    other = output(ask(adapter, question, newest(adapter)))
    assert [process["process"] for process in other["processes"]] == [
        allocation["process"] for allocation in shuffled
    ]
    commands = {process["process"]: process for process in answer["processes"]}
    assert commands == {process["process"]: process for process in other["processes"]}


def reordered(value: Any, shuffle: random.Random) -> Any:
    """The same JSON with the members of every object in another order."""
    if isinstance(value, list):
        return [reordered(item, shuffle) for item in value]
    if isinstance(value, dict):
        items = [(key, reordered(item, shuffle)) for key, item in value.items()]
        shuffle.shuffle(items)
        return dict(items)
    return value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@every_adapter
@thorough
@given(raw=st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_input_is_an_accident(adapter: Adapter, raw: bytes) -> None:
    check_answer(respond(raw, adapter, Context(framework_version=newest(adapter))))


@every_adapter
@thorough
@given(data=st.data())
def test_no_mutated_request_is_an_accident(adapter: Adapter, data: st.DataObject) -> None:
    """One place of a sound request is replaced, removed or renamed."""
    request = data.draw(requests(adapter, newest(adapter)))
    if data.draw(st.booleans()):
        response = ask(adapter, request, newest(adapter))
        assume(response["status"] == "ok")
        request = render_request(request, output(response), allocate(output(response)))
    node: Any = request
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        child = node[key]
        if not isinstance(child, dict | list) or not child or data.draw(st.integers(0, 4)) == 0:
            break
        node = child
    if data.draw(st.booleans()):
        node[key] = data.draw(JSON)
    else:
        del node[key]
    raw = json.dumps(request).encode()
    check_answer(respond(raw, adapter, Context(framework_version=newest(adapter))))


def check_answer(line: bytes) -> None:
    assert line.count(b"\n") == 1
    response = json.loads(line)
    if response["status"] == "error":
        code, message = refused(response)
        assert code != "internal", message
        assert message.isprintable()
        assert "Traceback" not in message
