"""The client of an adapter: the same bytes, all faults of a refusal, whose version counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inferlab_adapters.adapter import Context
from inferlab_adapters.control import client as module
from inferlab_adapters.control.client import Client, connect, installed_adapters
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.wire import respond
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import plan_request, role


def test_every_installed_adapter_is_found_by_its_framework() -> None:
    assert list(installed_adapters()) == sorted(ADAPTERS)


@pytest.mark.parametrize("framework", sorted(ADAPTERS))
def test_it_answers_what_the_program_answers(framework: str) -> None:
    request = plan_request(role())
    client = Client(ADAPTERS[framework], "unavailable")
    line = respond(json.dumps(request).encode(), ADAPTERS[framework], Context("unavailable"))
    assert client.ask(request) == json.loads(line)
    assert client.plan(request) == json.loads(line)["result"]["output"]


def test_a_refusal_brings_every_fault_though_the_response_names_five() -> None:
    client = Client(ADAPTERS["vllm"], "0.32.0")
    request = plan_request(role(settings={f"nothing_{index}": 1 for index in range(9)}))
    assert "and 4 more" in client.ask(request)["error"]["message"]
    with pytest.raises(Refused) as refused:
        client.plan(request)
    assert len(refused.value.faults) == 9


def test_a_fault_of_the_adapter_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(ADAPTERS["vllm"], "0.32.0")
    monkeypatch.setattr(type(client.adapter), "plan", lambda *_: 1 / 0)
    with pytest.raises(Refused, match="this is a fault of the adapter"):
        client.plan(plan_request(role()))
    assert "ZeroDivisionError" in client.notes[0]


def test_warnings_come_once() -> None:
    client = Client(ADAPTERS["vllm"], "0.99.0")
    for _ in range(2):
        client.plan(plan_request(role(settings={"brand_new": 1})))
    assert len(client.notes) == 1


def test_no_adapter_for_a_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match='did you mean "vllm"'):
        connect("vlm")
    with pytest.raises(Refused, match="installed: sglang, tensorrt-llm or vllm"):
        connect("nothing-like-it")
    monkeypatch.setattr(module, "entry_points", lambda group: [])
    with pytest.raises(Refused, match="pip install one"):
        connect("vllm")


def test_the_version_given_wins_over_the_environment(tmp_path: Path) -> None:
    assert connect("vllm", engine_version="0.32.0", engine_env=tmp_path).notes == []
