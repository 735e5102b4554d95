"""What is wanted: files and requests to one record, and pointers back into the file."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from inferlab_adapters.adapter import Context
from inferlab_adapters.control import wanted
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.control.wanted import Wanted
from inferlab_adapters.errors import AdapterError
from inferlab_adapters.wire import respond
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    allocate,
    ask,
    check_plan,
    output,
    plan_request,
    render_request,
    role,
)

PAIR = """
framework: vllm
model: {id: llama, path: ../models/llama}
routing: vllm-router
kv_transfer: nixl
settings: {max_num_seqs: 8, extra_env: {A: "1"}}
roles:
  prefill:
    settings: {max_num_seqs: 4, a/b: 1}
    parallelism: {tensor: 2, attention: {data: 2}, experts: {expert_parallel_size: 4}}
  back: {kind: decode, replicas: 2}
"""


def load(text: str, framework: str | None = None) -> Wanted:
    return wanted.load("-", framework=framework, stdin=io.BytesIO(text.encode()))


def refused(text: str, framework: str | None = None) -> list[str]:
    with pytest.raises(Refused) as caught:
        load(text, framework)
    return caught.value.lines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path.resolve() / "work"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", "/home/somebody")
    return here


def test_a_deployment_file_names_everything(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "llama.yaml").write_text(PAIR)
    got = wanted.load("below/llama.yaml", framework=None, stdin=io.BytesIO())
    assert (got.name, got.framework, got.source) == ("llama", "vllm", "below/llama.yaml")
    assert got.workspace == folder / "below"
    assert got.model_path == str(folder / "models" / "llama")
    assert got.request["operation"] == "plan_serve"
    with pytest.raises(dataclasses.FrozenInstanceError):
        got.name = "x"  # type: ignore[misc]


def test_a_deployment_file_plans() -> None:
    got = load(PAIR.replace(", a/b: 1", ""))
    plan = output(ask(ADAPTERS[got.framework], got.request))
    check_plan(got.request, plan, got.framework)


def test_stdin_stands_in_the_current_folder(folder: Path) -> None:
    got = load("framework: vllm\nmodel: {id: m, path: ./m}")
    assert (got.name, got.source) == ("deployment", "-")
    assert (got.workspace, got.model_path) == (folder, str(folder / "m"))
    assert load("name: other\nframework: vllm\nmodel: m").name == "other"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("llama-8b.v2.yaml", "llama-8b.v2"),
        ("my llama (1).yaml", "my-llama-1"),
        (".hidden.yaml", "hidden"),
        ("-.yaml", "deployment"),
        ("é.yaml", "deployment"),
        (f"{'a' * 120}.yaml", "a" * 100),
    ],
)
def test_a_file_names_what_does_not_name_itself(folder: Path, file: str, name: str) -> None:
    (folder / file).write_text("framework: vllm\nmodel: m\n")
    assert wanted.load(file, framework=None, stdin=io.BytesIO()).name == name


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a b", "-x", "é", '"a\\n"', "a" * 101])
def test_a_name_must_be_one_of_a_folder(name: str) -> None:
    (line,) = refused(f"name: {name or repr(name)}\nframework: vllm\nmodel: m")
    assert line.startswith("stdin: /name: must be 1 to 100 letters, digits, . _ or -, got ")


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("/models/m", "/models/m"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("m", "m"),
        ("./m", "{here}/m"),
        ("./a/../m", "{here}/m"),
        ("../m", "{above}/m"),
        (".", "{here}"),
        ("..", "{above}"),
        ("~/m", "/home/somebody/m"),
        ("'~'", "/home/somebody"),
        ("~other/m", "~other/m"),
        (".hidden", ".hidden"),
    ],
)
def test_paths_count_from_the_file_or_from_home(folder: Path, path: str, resolved: str) -> None:
    got = load(f"framework: vllm\nmodel: {{id: m, path: {path}}}")
    assert got.model_path == resolved.format(here=folder, above=folder.parent)


def test_paths_count_from_where_a_linked_folder_is(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link").symlink_to(folder / "real")
    (folder / "real" / "a.yaml").write_text("framework: vllm\nmodel: {id: m, path: ../m}")
    got = wanted.load("elsewhere/link/a.yaml", framework=None, stdin=io.BytesIO())
    assert got.model_path == str(folder / "m")


def test_the_framework_is_said_once_or_the_same_twice() -> None:
    assert load("model: m", "sglang").framework == "sglang"
    assert load("framework: tensorrt-llm\nmodel: m", "tensorrt-llm").framework == "tensorrt-llm"
    assert refused("model: m") == ["stdin: /framework: is missing; add it, or give --framework"]
    assert refused("framework: vllm\nmodel: m", "sglang") == [
        'stdin: /framework: is "vllm", but --framework says "sglang"; keep one'
    ]


def test_faults_come_together_and_name_the_file(folder: Path) -> None:
    (folder / "a.yaml").write_text('model: {id: m, path: ""}\nname: "."\n')
    with pytest.raises(Refused) as caught:
        wanted.load("a.yaml", framework=None, stdin=io.BytesIO())
    assert [line.partition(";")[0] for line in caught.value.lines()] == [
        'a.yaml: /name: must be 1 to 100 letters, digits, . _ or -, got "."',
        "a.yaml: /framework: is missing",
        "a.yaml: /model/path: must not be empty",
    ]
    assert refused("{}") == ["stdin: /model: is missing; add it"]


def test_a_request_is_taken_as_it_is(folder: Path) -> None:
    request = plan_request(role(settings={"max_num_seqs": 8}))
    (folder / "request.json").write_text(json.dumps(request))
    got = wanted.load("request.json", framework="vllm", stdin=io.BytesIO())
    assert got.request == request
    assert (got.name, got.framework, got.model_path) == ("request", "vllm", None)
    assert got.workspace == folder
    for pointer in ("", "/input", "/input/roles/0/settings/max_num_seqs", "/operation", "/x~1y"):
        assert got.locate(pointer) == pointer
    assert output(ask(ADAPTERS["vllm"], got.request))["replicas"]


def test_a_request_of_either_kind_in_every_format() -> None:
    request = plan_request(role())
    plan = output(ask(ADAPTERS["vllm"], request))
    render = render_request(request, plan, allocate(plan))
    assert load(json.dumps(render), "vllm").request == render
    # Flow style YAML is a superset of this JSON.
    assert load("# yaml\n" + json.dumps(request), "vllm").request == request
    # What is half a request is the adapter's to refuse, not an odd deployment file.
    assert load('{"protocol_version": "6", "input": {}}', "vllm").request["input"] == {}
    assert load('{"operation": 5}', "vllm").request == {"operation": 5}


def test_a_request_needs_the_framework_beside_it() -> None:
    assert refused(json.dumps(plan_request(role()))) == [
        "stdin: a request does not name its framework; add --framework"
    ]


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("/input/model", "/model"),
        ("/input/model/id", "/model/id"),
        ("/input/model/served_name", "/model/id"),
        ("/input/topology", "/topology"),
        ("/input/routing_backend", "/routing"),
        ("/input/kv_transfer", "/kv_transfer"),
        ("/input/profiling", "/profiling"),
        ("/input/roles", "/roles"),
        ("/input/roles/0", "/roles/prefill"),
        ("/input/roles/0/id", "/roles/prefill"),
        ("/input/roles/0/kind", "/roles/prefill"),
        ("/input/roles/1/kind", "/roles/back/kind"),
        ("/input/roles/1/id", "/roles/back"),
        ("/input/roles/1/replica_count", "/roles/back/replicas"),
        ("/input/roles/1/effective_replica_count", "/roles/back/replicas"),
        ("/input/roles/0/settings", "/roles/prefill/settings"),
        ("/input/roles/0/settings/max_num_seqs", "/roles/prefill/settings/max_num_seqs"),
        ("/input/roles/0/settings/a~1b/0", "/roles/prefill/settings/a~1b/0"),
        ("/input/roles/0/settings/extra_env/A", "/settings/extra_env/A"),
        ("/input/roles/0/effective_settings/extra_env/A", "/settings/extra_env/A"),
        ("/input/roles/0/settings/not_there", "/roles/prefill/settings/not_there"),
        ("/input/roles/1/settings", "/settings"),
        ("/input/roles/1/settings/max_num_seqs", "/settings/max_num_seqs"),
        ("/input/roles/1/settings/not_there", "/settings/not_there"),
        (
            "/input/roles/0/parallelism/outer/tensor_parallel_size",
            "/roles/prefill/parallelism/tensor",
        ),
        (
            "/input/roles/0/effective_parallelism/attention/data_parallel_size",
            "/roles/prefill/parallelism/attention/data",
        ),
        (
            "/input/roles/0/parallelism/experts/expert_parallel_size",
            "/roles/prefill/parallelism/experts/expert_parallel_size",
        ),
        (
            "/input/roles/1/parallelism/outer/tensor_parallel_size",
            "/roles/back/parallelism/outer/tensor_parallel_size",
        ),
        # Not from the file, so not translated.
        ("/input/allocations/0/ports", "/input/allocations/0/ports"),
        ("/input/render_inputs/0", "/input/render_inputs/0"),
        ("/protocol_version", "/protocol_version"),
        ("", ""),
    ],
)
def test_pointers_lead_back_into_the_file(pointer: str, place: str) -> None:
    assert load(PAIR).locate(pointer) == place


def test_pointers_of_a_file_that_leaves_things_out() -> None:
    got = load("framework: vllm\nmodel: m")
    assert got.locate("/input/model/id") == "/model"
    assert got.locate("/input/model/served_name") == "/model"
    assert got.locate("/input/roles/0/settings/x") == "/roles/serve/settings/x"
    named = load("framework: vllm\nmodel: {id: m, served_name: n}")
    assert named.locate("/input/model/served_name") == "/model/served_name"


def test_every_place_of_the_request_is_known() -> None:
    """A fault anywhere in the request is shown somewhere in the file."""
    got = load(PAIR)
    for pointer in _pointers(got.request["input"], "/input"):
        assert not got.locate(pointer).startswith("/input"), pointer


def _pointers(value: object, at: str) -> list[str]:
    items: Iterable[tuple[object, object]] = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    below = [(f"{at}/{str(key).replace('/', '~1')}", item) for key, item in items]
    return [place for where, item in below for place in (where, *_pointers(item, where))]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("settings: {max_num_seq: 8}", "/settings/max_num_seq"),
        ("roles: {serve: {settings: {max_num_seq: 8}}}", "/roles/serve/settings/max_num_seq"),
        ("settings: {a: null}", "/settings/a"),
        ("settings: {extra_args: [--port, '1']}", "/settings/extra_args/0"),
        (
            "roles: {serve: {parallelism: {tensor: 4, expert: 3}}}",
            "/roles/serve/parallelism/expert",
        ),
        ("kv_transfer: nixl", "/kv_transfer"),
        ("topology: prefill_decode", "/kv_transfer"),
        ("kv_transfer: nixl\nrouting: vllm-routr\nroles: {prefill: , decode: }", "/routing"),
        ("roles: {serve: {replicas: 100000}}", "/roles/serve/replicas"),
        ("roles: {prefill: }\nkv_transfer: nixl", "/roles"),
        ("roles: {a: {kind: serve}, b: {kind: serve}}", "/roles/b"),
    ],
)
def test_what_the_adapter_refuses_is_found_in_the_file(text: str, place: str) -> None:
    got = load(f"framework: vllm\nmodel: m\n{text}")
    assert place in {got.locate(fault) for fault in _refused_at(got.request)}


def _refused_at(request: Json) -> list[str]:
    errors: list[AdapterError] = []
    context = Context("0.33.0", refused=errors.append)
    respond(json.dumps(request).encode(), ADAPTERS["vllm"], context)
    return [fault.pointer for error in errors for fault in error.faults]
