"""Compose files are valid, and Compose would run exactly what was rendered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from io import StringIO
from threading import Thread
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from inferlab_adapters.cli.formats import compose_text, health
from inferlab_adapters.cli.formats.blocks import blocks
from inferlab_adapters.cli.formats.compose import compose
from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.refusal import Refused
from tests.cli.prepared import case, case_parameters, prepared, together
from tests.support.control_plane import Json
from tests.support.golden import Case

# The C reader, where PyYAML has it, takes a third of the time of these tests off.
READER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def compose_schema() -> jsonschema_rs.Validator:
    """The published schema, as the Compose project keeps it."""
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    return jsonschema_rs.validator_for(json.loads(vendored.read_text(encoding="utf-8")))


def interpolated(value: Any) -> Any:
    """What Compose makes of a value when no variable is set; refuses what it would refuse."""
    if isinstance(value, dict):
        return {key: interpolated(item) for key, item in value.items()}
    if isinstance(value, list):
        return [interpolated(item) for item in value]
    if isinstance(value, str):
        assert not re.search(r"\$", value.replace("$$", "")), value
        return value.replace("$$", "$")
    return value


def read(text: str) -> Json:
    """A Compose file as data."""
    loaded: Json = yaml.load(text, Loader=READER)
    return loaded


def services(text: str) -> Json:
    """The services as Compose runs them, apart from images."""
    return running(read(text))


def running(document: Json) -> Json:
    """The services of a document as Compose runs them, apart from images."""
    return {
        name: interpolated({key: item for key, item in service.items() if key != "image"})
        for name, service in document["services"].items()
    }


@pytest.mark.parametrize(("framework", "golden"), case_parameters())
def test_golden_cases_run_exactly_as_rendered(framework: str, golden: Case) -> None:
    deployment = prepared(framework, golden)
    for machine in deployment.machines:
        document = read(compose(deployment, machine=machine))
        compose_schema().validate(document)
        found = running(document)
        here = [block for block in blocks(deployment) if block.machine.name == machine]
        assert list(found) == [block.name for block in here]
        for block in here:
            service = found[block.name]
            assert (service["entrypoint"], service["command"]) == ([], list(block.argv))
            assert service["environment"] == block.env
            assert service["network_mode"] == "host"
            written = {
                mount["target"]: interpolated(document["configs"][mount["source"]]["content"])
                for mount in service.get("configs", [])
            }
            assert written == {file.path: file.text for file in block.files}


HOSTILE = st.sampled_from(
    ["$", "${HOME}", "$$", "'", '"', "#", ": ", "- ", "|", "\\", "~", "é", "😀"]
)
SPACES = st.sampled_from(
    ["\n", "\r\n", "\t", " ", "  \n", "\x85", "\u2028", "\ufeff", "\x7f", "\x01"]
)
WORDS = st.sampled_from(["1e3", "0o17", "yes", "null"])
TEXT = st.lists(
    HOSTILE | SPACES | WORDS | st.text(st.characters(codec="utf-8"), max_size=4), max_size=8
).map("".join)


@settings(max_examples=50)
@given(command=st.lists(TEXT), env=st.dictionaries(TEXT, TEXT), text=TEXT)
def test_any_text_comes_back_from_yaml(command: list[str], env: dict[str, str], text: str) -> None:
    value = {"a": {"command": command, "environment": env, "on": [{"content": text}]}}
    assert yaml.safe_load(compose_text.write(value)) == value


def test_a_newer_reader_agrees() -> None:
    text = compose(prepared("tensorrt-llm", case("tensorrt-llm", "single-yaml-patch")))
    assert YAML(typ="safe", pure=True).load(StringIO(text)) == read(text)


@pytest.mark.parametrize("word", ["1e3", "0o17", "0x1f", "yes", "1_000", "12:30", "null", ""])
def test_words_stay_words_for_any_reader(word: str) -> None:
    assert compose_text.write({"a": word}) == f'a: "{word}"\n'


def test_dollars_and_line_ends_reach_the_process() -> None:
    deployment = prepared("tensorrt-llm", case("tensorrt-llm", "single-yaml-patch"))
    process = deployment.rendered["processes"][0]
    process["command"]["argv"].append("a$b ${C} $$\n")
    process["command"]["env"]["DOLLAR"] = "$HOME"
    process["launch_files"][0]["text"] = "price: $5\nlast: ${line}"
    text = compose(deployment)
    service = services(text)["server"]
    assert service["command"][-1] == "a$b ${C} $$\n"
    assert service["environment"]["DOLLAR"] == "$HOME"
    (config,) = read(text)["configs"].values()
    assert config == {"content": "price: $$5\nlast: $${line}"}


def test_gpus_are_reserved_by_number_and_routers_get_none() -> None:
    deployment = prepared("sglang", together(case("sglang", "2p3d-nixl-sglang-router")))
    found = services(compose(deployment))
    (reserved,) = found["decode-000"]["deploy"]["resources"]["reservations"]["devices"]
    assert reserved == {"driver": "nvidia", "device_ids": ["8", "9"], "capabilities": ["gpu"]}
    assert "deploy" not in found["router"]
    assert found["router"]["depends_on"]["decode-002"] == {"condition": "service_started"}


def without_gpus(machine: Machine) -> Machine:
    return replace(machine, devices=None)


def test_a_machine_without_gpus_reserves_nothing() -> None:
    deployment = prepared("vllm", case("vllm", "single-tp2"), without_gpus)
    assert "deploy" not in services(compose(deployment))["server"]


def test_model_and_cache_are_mounted_where_the_command_looks() -> None:
    deployment = prepared("vllm", case("vllm", "single-tp2"))
    model, cache = services(compose(deployment))["server"]["volumes"]
    assert (model["source"], model["target"], model["read_only"]) == (*["/models/llama"] * 2, True)
    assert (cache["source"], cache["target"], cache["read_only"]) == (*["/cache/server"] * 2, False)
    assert (model["bind"], cache["bind"]) == (
        {"create_host_path": False},
        {"create_host_path": True},
    )


def test_a_model_named_on_a_hub_is_not_mounted() -> None:
    golden = case("vllm", "single-tp2")
    named = replace(golden, placement=replace(golden.placement, model_locator="org/llama"))
    volumes = services(compose(prepared("vllm", named)))["server"]["volumes"]
    assert [volume["source"] for volume in volumes] == ["/cache/server"]


def test_the_image_is_asked_for_or_given() -> None:
    deployment = prepared("vllm", together(case("vllm", "1p1d-mooncake-vllm-router")))
    asked = read(compose(deployment))["services"]
    assert asked["prefill"]["image"].startswith("${OE_IMAGE:?")
    assert asked["router"]["image"] == f"${{OE_ROUTER_IMAGE:-{asked['prefill']['image']}}}"
    given = read(compose(deployment, image="vllm/vllm-openai:v0.32.0"))["services"]
    assert given["prefill"]["image"] == "vllm/vllm-openai:v0.32.0"
    assert given["router"]["image"] == "${OE_ROUTER_IMAGE:-vllm/vllm-openai:v0.32.0}"


@pytest.mark.parametrize("image", ["", "-x", "a b", "a$b", "a}b"])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(Refused, match="is no name of an image"):
        compose(prepared("vllm", case("vllm", "single-tp2")), image=image)


def test_several_machines_need_a_choice() -> None:
    deployment = prepared("vllm", case("vllm", "1p1d-mooncake-vllm-router"))
    with pytest.raises(Refused) as refused:
        compose(deployment)
    assert str(refused.value) == (
        "the deployment is on 3 machines and a Compose file is for one;"
        " add --machine machine-0, machine-1 or machine-2"
    )
    with pytest.raises(Refused, match='"machine-9" runs no process of it; did you mean'):
        compose(deployment, machine="machine-9")
    text = compose(deployment, machine="machine-2")
    assert "# The part on machine machine-2; 2 more are rendered apart.\n" in text
    # What it waits for is in another file.
    assert "depends_on" not in services(text)["router"]


def test_names_that_compose_cannot_take_are_changed_and_stay_apart() -> None:
    deployment = prepared("vllm", together(case("vllm", "1p1d-mooncake-vllm-router")))
    renamed = json.loads(
        json.dumps([deployment.allocations, deployment.rendered])
        .replace('"process": "prefill"', '"process": "a b"')
        .replace('"process": "decode"', '"process": "a/b"')
        .replace('["prefill", "decode"]', '["a b", "a/b"]')
    )
    changed = replace(
        deployment,
        allocations=renamed[0],
        rendered=renamed[1],
        wanted=replace(deployment.wanted, name="My.Model"),
    )
    document = read(compose(changed))
    assert document["name"] == "my-model"
    assert list(document["services"]) == ["a-b", "a-b-2", "router"]
    assert list(document["services"]["router"]["depends_on"]) == ["a-b", "a-b-2"]


def test_only_rank_zero_is_asked_for_its_health() -> None:
    deployment = prepared("vllm", together(case("vllm", "two-node-tp16")))
    first, second = services(compose(deployment)).values()
    assert first["healthcheck"]["test"][:3] == ["CMD", "python3", "-c"]
    assert first["healthcheck"]["test"][-1] == "http://10.0.0.1:8000/v1/models"
    assert second["healthcheck"] == {"disable": True}


@contextmanager
def server(answers: dict[str, Any]) -> Iterator[int]:
    """A server on loopback that answers these paths with JSON, and 404 elsewhere."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in answers
            body = json.dumps(answers.get(self.path)).encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running.server_port
        running.shutdown()
        thread.join()


def ran(argv: list[str], port: int) -> int:
    """The exit code of a health check, sent to a server of the test's."""
    local = [token.replace("10.0.0.1:8005", f"127.0.0.1:{port}", 1) for token in argv[3:5]]
    command = [sys.executable, *argv[1:3], *local, *argv[5:]]
    env = {"http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode


def registry_check() -> tuple[list[str], list[Json]]:
    """The check of an SGLang router, and the registry that satisfies it."""
    golden = together(case("sglang", "1p1d-mooncake-sglang-router"))
    every = blocks(prepared("sglang", golden))
    checked = health.check(every[-1], every)
    assert checked is not None
    targets = json.loads(checked[-1])
    assert [target["worker_type"] for target in targets] == ["prefill", "decode"]
    workers = [{**target, "is_healthy": True} for target in targets]
    workers[0]["bootstrap_port"] = int(targets[0]["bootstrap_port"])
    workers[1]["bootstrap_port"] = None
    port = every[-1].allocation["endpoint"]["port"]
    return [token.replace(f"10.0.0.1:{port}/", "10.0.0.1:8005/") for token in checked], workers


def test_a_router_is_healthy_once_its_registry_lists_every_target() -> None:
    argv, workers = registry_check()
    answers: dict[str, Any] = {"/readiness": {}, "/workers": {"workers": workers}}
    with server(answers) as port:
        assert ran(argv, port) == 0
        for worker, spoil in ((0, {"bootstrap_port": 1}), (1, {"is_healthy": False})):
            spoiled = [dict(entry) for entry in workers]
            spoiled[worker] |= spoil
            answers["/workers"] = {"workers": spoiled}
            assert ran(argv, port) == 1
        answers["/workers"] = {"workers": workers[:1]}
        assert ran(argv, port) == 1
        answers["/workers"] = {"workers": workers}
        del answers["/readiness"]
        assert ran(argv, port) == 1


def test_a_server_is_healthy_once_it_answers() -> None:
    every = blocks(prepared("vllm", case("vllm", "single-tp2")))
    checked = health.check(every[0], every)
    assert checked is not None
    local = [token.replace("10.0.0.1:8000", "10.0.0.1:8005") for token in checked]
    answers: dict[str, Any] = {}
    with server(answers) as port:
        assert ran(local, port) == 1
        answers["/v1/models"] = {}
        assert ran(local, port) == 0
