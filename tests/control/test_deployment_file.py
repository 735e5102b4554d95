"""Deployment files: their form, what they stand for, their schema, the examples and the page."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from inferlab_adapters.control import deployment_request, documents
from inferlab_adapters.control.deployment_file import schema
from inferlab_adapters.control.deployment_request import Said
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import ask, check_plan, output, plan_request, role
from tests.support.schema import StrictValidator

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "deployments").glob("*.yaml"))
PAGE = (ROOT / "docs" / "deployment-file.md").read_text(encoding="utf-8")


def parsed(text: str) -> Json:
    return documents.read("-", stdin=io.BytesIO(text.encode()))


def said(text: str) -> Said:
    file = deployment_request.check(parsed(text))
    return deployment_request.said(file, model_at="/model")


def ok(text: str, framework: str = "vllm") -> Json:
    """The input of a file that reader and schema take, and that the adapter plans."""
    StrictValidator(schema()).validate(parsed(text))
    request = said(text).request
    plan = output(ask(ADAPTERS[framework], request, "unavailable"))
    check_plan(request, plan, framework)
    wanted: Json = request["input"]
    return wanted


def refused(text: str, *, by_schema: bool = True) -> list[str]:
    """The faults of a file; the schema sees most of them too."""
    assert StrictValidator(schema()).is_valid(parsed(text)) != by_schema
    with pytest.raises(Refused) as caught:
        said(text)
    return caught.value.lines()


def test_the_shortest_file_is_one_server() -> None:
    assert said("model: llama").request == plan_request(
        role(), model={"id": "llama", "served_name": "llama"}
    )
    ok("model: llama")
    named = "model: {id: llama, served_name: l, path: /models/llama}"
    assert ok(named)["model"] == {"id": "llama", "served_name": "l"}


def test_every_key_has_its_place_in_the_request() -> None:
    text = """
        name: a.b-c
        framework: vllm
        model: {id: llama, served_name: llama-8b}
        topology: prefill_decode
        routing: vllm-router
        kv_transfer: nixl
        profiling: true
        settings: {max_num_seqs: 8}
        roles:
          first: {kind: prefill, replicas: 2, parallelism: {tensor: 2}, settings: {seed: 1}}
          second: {kind: decode}
    """
    assert {"input": ok(text)}.items() <= plan_request(
        role(
            "prefill",
            id="first",
            count=2,
            outer={"tensor": 2},
            settings={"max_num_seqs": 8, "seed": 1},
        ),
        role("decode", id="second", settings={"max_num_seqs": 8}),
        routing_backend="vllm-router",
        kv_transfer="nixl",
        profiling=True,
    ).items()


@pytest.mark.parametrize(
    ("text", "topology", "roles"),
    [
        ("", "single", ["serve"]),
        ("topology: single", "single", ["serve"]),
        ("topology: prefill_decode\nkv_transfer: nixl", "prefill_decode", ["prefill", "decode"]),
        (
            "kv_transfer: nixl\nroles: {prefill: , decode: }",
            "prefill_decode",
            ["prefill", "decode"],
        ),
        ("roles: {serve: }", "single", ["serve"]),
        ("roles: {serve: {}}", "single", ["serve"]),
        ("roles: {front: {kind: serve}}", "single", ["front"]),
        (
            "kv_transfer: nixl\nroles: {a: {kind: decode}, b: {kind: prefill}}",
            "prefill_decode",
            ["a", "b"],
        ),
        ("roles:\ntopology:\nrouting:\nprofiling:\nsettings:\nkv_transfer:", "single", ["serve"]),
    ],
)
def test_topology_and_roles_follow_from_each_other(
    text: str, topology: str, roles: list[str]
) -> None:
    wanted = ok(f"model: llama\n{text}\n")
    assert wanted["topology"] == topology
    assert [role["id"] for role in wanted["roles"]] == roles


def test_a_key_of_a_role_replaces_the_common_one_as_a_whole() -> None:
    text = """
        model: llama
        kv_transfer: nixl
        settings: {max_num_seqs: 8, extra_env: {A: "1", B: "2"}}
        roles:
          prefill: {settings: {extra_env: {A: "3"}}}
          decode:
    """
    prefill, decode = ok(text)["roles"]
    assert prefill["settings"] == {"max_num_seqs": 8, "extra_env": {"A": "3"}}
    assert decode["settings"] == {"max_num_seqs": 8, "extra_env": {"A": "1", "B": "2"}}


@pytest.mark.parametrize(
    "sizes",
    [
        "{tensor: 4, data: 2, expert: 8}",
        "{outer: {tensor: 4}, attention: {data: 2}, experts: {expert: 8}}",
        "{outer: {tensor_parallel_size: 4}, attention: {data_parallel_size: 2}, expert: 8}",
        "{tensor: 4, outer: , attention: {data: 2, context: }, experts: {expert_parallel_size: 8}}",
    ],
)
def test_a_size_has_three_spellings(sizes: str) -> None:
    wanted = ok(f"model: llama\nroles: {{serve: {{parallelism: {sizes}}}}}")
    assert wanted["roles"][0]["parallelism"] == {
        "outer": {"tensor_parallel_size": 4},
        "attention": {"data_parallel_size": 2},
        "experts": {"expert_parallel_size": 8},
    }


def test_every_size_of_the_wire_can_be_said_short_and_long() -> None:
    definitions = schema()["$defs"]
    wire = json.loads((ROOT / "schema" / "adapter-protocol-v6.schema.json").read_text())["$defs"]
    for part in deployment_request.PARTS:
        names = set(wire[f"Parallelism{part.capitalize()}"]["properties"])
        short = {name.removesuffix("_parallel_size") for name in names}
        assert definitions[part.capitalize()]["properties"].keys() == names | short
        for name in sorted(names | short):
            request = said(
                f"model: m\nroles: {{serve: {{parallelism: {{{part}: {{{name}: 3}}}}}}}}"
            )
            full = f"{name.removesuffix('_parallel_size')}_parallel_size"
            role = request.request["input"]["roles"][0]
            assert role["parallelism"] == {part: {full: 3}}
            assert (
                request.pointers[f"/input/roles/0/parallelism/{part}/{full}"]
                == f"/roles/serve/parallelism/{part}/{name}"
            )


@pytest.mark.parametrize(
    ("sizes", "again", "first"),
    [
        ("tensor: 2, outer: {tensor: 2}", "outer/tensor", "tensor"),
        (
            "outer: {tensor: 2, tensor_parallel_size: 4}",
            "outer/tensor_parallel_size",
            "outer/tensor",
        ),
        ("expert: 2, experts: {expert: 4}", "experts/expert", "expert"),
        (
            "context: 2, attention: {context_parallel_size: 2}",
            "attention/context_parallel_size",
            "context",
        ),
    ],
)
def test_the_same_size_twice_is_refused(sizes: str, again: str, first: str) -> None:
    at = "/roles/serve/parallelism"
    text = f"model: m\nroles: {{serve: {{parallelism: {{{sizes}}}}}}}"
    assert refused(text, by_schema=False) == [
        f"{at}/{again}: is the size that {at}/{first} gives; keep one"
    ]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("framework: vllm", ["/model: is missing; add it"]),
        ("model: {path: ./m}", ["/model/id: is missing; add it"]),
        ("model: 5", ["/model: must be a model id or an object with an id, got number 5"]),
        ("model:", ["/model: must be a model id or an object with an id, got null"]),
        ("model: {id: 5}", ["/model/id: must be a string, got number 5"]),
        ("model: m\nrouter: x", ["/router: unknown field; it is called routing here"]),
        ("model: m\nmodl: x", ['/modl: unknown field; did you mean "model"?']),
        ("model: m\nx-y: 1", ["/x-y: unknown field; remove it"]),
        (
            "model: m\nrouting_backend: x",
            ["/routing_backend: unknown field; it is called routing here"],
        ),
        (
            "model: m\nroles: {serve: {replica_count: 2}}",
            ["/roles/serve/replica_count: unknown field; it is called replicas here"],
        ),
        (
            "model: {id: m, served_nam: x}",
            ['/model/served_nam: unknown field; did you mean "served_name"?'],
        ),
        (
            "model: m\nroles: {serve: {replicaz: 2}}",
            ['/roles/serve/replicaz: unknown field; did you mean "replicas"?'],
        ),
        (
            "model: m\nroles: {serve: {parallelism: {tensr: 2}}}",
            ['/roles/serve/parallelism/tensr: unknown field; did you mean "tensor"?'],
        ),
        (
            "model: m\nroles: {serve: {parallelism: {outer: {pipelin: 2}}}}",
            ['/roles/serve/parallelism/outer/pipelin: unknown field; did you mean "pipeline"?'],
        ),
        (
            "model: m\ntopology: prefill-decode",
            [
                '/topology: must be "single" or "prefill_decode", got string "prefill-decode";'
                ' did you mean "prefill_decode"?'
            ],
        ),
        (
            "model: m\nkv_transfer: nccl",
            ['/kv_transfer: must be "mooncake" or "nixl", got string "nccl"'],
        ),
        ("model: m\nprofiling: 1", ["/profiling: must be true or false, got number 1"]),
        ("model: m\nsettings: [a]", ['/settings: must be an object, got array ["a"]']),
        ("model: m\nroles: [serve]", ['/roles: must be an object, got array ["serve"]']),
        (
            "model: m\nroles: {router: 2, serve: }",
            ["/roles/router: must be an object, got number 2"],
        ),
        ("model: m\nroles: {serve: 2}", ["/roles/serve: must be an object, got number 2"]),
        (
            'model: m\nroles: {serve: {replicas: "2"}}',
            ['/roles/serve/replicas: must be an integer, got string "2"'],
        ),
        (
            "model: m\nroles: {serve: {replicas: 0}}",
            ["/roles/serve/replicas: must be at least 1, got 0"],
        ),
        (
            "model: m\nroles: {a/b: {parallelism: {tensor: 2.0}}}",
            ["/roles/a~1b/parallelism/tensor: must be an integer, got number 2.0"],
        ),
        (
            "model: m\nroles: {r: {kind: router}}",
            ['/roles/r/kind: must be "serve", "prefill" or "decode", got string "router"'],
        ),
        (
            "modl: m\nprofiling: 1\nroles: {serve: {replicas: x}}",
            [
                "/profiling: must be true or false, got number 1",
                '/roles/serve/replicas: must be an integer, got string "x"',
                "/model: is missing; add it",
                '/modl: unknown field; did you mean "model"?',
            ],
        ),
    ],
)
def test_what_has_not_the_form_is_refused_where_it_stands(text: str, faults: list[str]) -> None:
    assert refused(text) == faults


def test_a_role_of_another_name_says_its_kind() -> None:
    assert refused("model: m\nroles: {a: , b: {replicas: 2}, serve: }", by_schema=False) == [
        "/roles/a/kind: is missing; add it: serve, prefill or decode",
        "/roles/b/kind: is missing; add it: serve, prefill or decode",
    ]


def test_a_role_may_be_called_like_a_key() -> None:
    assert refused("model: m\nroles: {settings: {kind: serve, replicaz: 1}}") == [
        '/roles/settings/replicaz: unknown field; did you mean "replicas"?'
    ]


def test_the_schema_is_one_and_describes_every_key() -> None:
    made = schema()
    Draft202012Validator.check_schema(made)
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(made)) == made
    keys = [key for part in (made, *made["$defs"].values()) for key in part["properties"].items()]
    assert len(keys) > 30
    for name, key in keys:
        assert key["title"], name
        assert key["description"].endswith("."), name
        # An editor would write it down.
        assert "default" not in key, name
    assert set(made["properties"]["framework"]["enum"]) == {*ADAPTERS, None}


def test_every_example_is_here() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "vllm-single",
        "vllm-prefill-decode",
        "sglang-single",
        "trtllm-single",
        "vllm-cpu-single",
        "vllm-cpu-prefill-decode",
        "sglang-cpu-single",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_plan_and_the_schema_takes_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    framework: str = parsed(text)["framework"]
    assert path.stem.startswith("trtllm" if framework == "tensorrt-llm" else framework)
    ok(text, framework)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_schema_sees_a_misspelt_key_anywhere(path: Path) -> None:
    document = parsed(path.read_text(encoding="utf-8"))
    validator = StrictValidator(schema())
    misspelt = list(_with_a_misspelt_key(document, ""))
    assert len(misspelt) >= 3
    for bad in misspelt:
        assert not validator.is_valid(bad), bad


def _with_a_misspelt_key(node: Json, within: str) -> Iterator[Json]:
    """The document once for every key that is the file's own, with an x at its end."""
    for key, value in node.items():
        if within != "roles":
            yield {**{other: node[other] for other in node if other != key}, f"{key}x": value}
        if isinstance(value, dict) and key != "settings":
            for bad in _with_a_misspelt_key(value, key):
                yield {**node, key: bad}


@pytest.mark.parametrize(
    "name", ["vllm-cpu-single", "vllm-cpu-prefill-decode", "sglang-cpu-single"]
)
def test_the_cpu_examples_are_the_requests_beside_them(name: str) -> None:
    text = (ROOT / "examples" / "deployments" / f"{name}.yaml").read_text(encoding="utf-8")
    request: Any = json.loads((ROOT / "examples" / f"{name}.json").read_text(encoding="utf-8"))
    assert said(text).request == request


def test_the_page_quotes_the_examples() -> None:
    quoted = re.findall(r"^`examples/deployments/(\S+)`:\n\n```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert {name for name, _ in quoted} == {
        "vllm-single.yaml",
        "vllm-prefill-decode.yaml",
        "sglang-single.yaml",
        "trtllm-single.yaml",
    }
    assert PAGE.count("```yaml") == len(quoted)
    for name, text in quoted:
        path = ROOT / "examples" / "deployments" / name
        assert text == path.read_text(encoding="utf-8"), name


def test_the_page_has_a_row_for_every_key() -> None:
    definitions = schema()["$defs"]
    keys = [*schema()["properties"]]
    keys += [f"model.{key}" for key in definitions["Model"]["properties"]]
    keys += [f"roles.NAME.{key}" for key in definitions["Role"]["properties"]]
    assert [row for row in re.findall(r"^\| `([\w.]+)` \| ", PAGE, re.M) if row in keys] == sorted(
        keys, key=_in_order(keys)
    )
    for part in deployment_request.PARTS:
        for name in definitions[part.capitalize()]["properties"]:
            if name.endswith("_parallel_size"):
                assert f"| `{part}.{name}` |" in PAGE
                assert f"`{part}: {{{name.removesuffix('_parallel_size')}}}`" in PAGE
    for short in deployment_request.SHORT:
        assert f"\n| `{short}` |" in PAGE


def _in_order(keys: list[str]) -> Any:
    """Each key of the file, followed by the keys below it."""
    top = [key for key in keys if "." not in key]
    return lambda key: (top.index(key.split(".")[0]), keys.index(key))


def test_the_page_shows_what_is_said() -> None:
    """The two refusals on the page, in their words, from the example that they are about."""
    text = (ROOT / "examples/deployments/vllm-prefill-decode.yaml").read_text(encoding="utf-8")
    text = text.replace("max_model_len", "max_model_length")
    text = text.replace("{tensor: 2}", "{tensor: 2, expert: 3}")
    shown = re.findall(r"^serve\.yaml: (/\S+): (.*)$", PAGE, re.M)
    assert len(shown) == 2
    made = said(text)
    answer = ask(ADAPTERS["vllm"], made.request, "0.33.0")
    for place, message in shown:
        assert message in answer["error"]["message"]
        assert place in made.pointers.values()
