"""The wire edge: whatever comes in, one line of the protocol goes out."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest
from oe_adapter_vllm import ADAPTER

from inferlab_adapters import strict_json
from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.errors import json_type, pointer
from inferlab_adapters.options import OptionTable
from inferlab_adapters.wire import respond
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    output,
    plan_request,
    render_request,
    role,
)
from tests.support.schema import check_request, check_response, schema

BANNED = re.compile(r"pydantic|https?://|traceback|validation error|type=", re.IGNORECASE)


def answer(raw: bytes | Json, note: Callable[[str], None] = lambda text: None) -> Json:
    """One response, held against everything that every response must be."""
    raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    line = respond(raw, ADAPTER, Context("0.32.0", note), "stdin")
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    response: Json = json.loads(line)
    check_response(response)
    return response


def refusal(raw: bytes | Json) -> tuple[str, str]:
    """Code and message of a refusal, which must be one plain sentence about the request."""
    notes: list[str] = []
    response = answer(raw, notes.append)
    assert response["status"] == "error", response
    assert notes == []
    code, message = response["error"]["code"], response["error"]["message"]
    assert message.isprintable()
    assert not BANNED.search(message), message
    return code, message


# Documents to spoil: between them they hold every record and variant that a request can hold.

FULL = role(
    "prefill",
    outer={"tensor": 2, "pipeline": 1},
    attention={"tensor": 2, "data": 1, "context": 1},
    experts={"tensor": 2, "data": 1, "expert": 1, "dense_tensor": 1},
    settings={"max_num_seqs": 4, "hf_overrides": {"a/b": [1, {"~": "x"}]}, "seed": 1},
)
SSH = Placement(launch={"kind": "ssh", "target": "gpu-1"})


def documents() -> Iterator[tuple[str, Json]]:
    wanted = {
        "single": (plan_request(role(settings={"seed": 1})), Placement()),
        "nixl": (plan_request(FULL, role("decode"), kv_transfer="nixl", profiling=True), SSH),
        "mooncake": (
            plan_request(
                FULL, role("decode"), kv_transfer="mooncake", routing_backend="vllm-router"
            ),
            Placement(),
        ),
    }
    for name, (request, placement) in wanted.items():
        plan = output(answer(request))
        render = render_request(request, plan, allocate(plan, placement))
        yield f"plan-{name}", request
        yield f"render-{name}", render


DOCUMENTS = dict(documents())


class Place(NamedTuple):
    """A node of a valid request: its path, the definition it obeys, and its own value."""

    path: tuple[str | int, ...]
    node: Mapping[str, Any]
    nullable: bool
    value: Any

    @property
    def at(self) -> str:
        return pointer("", *self.path)

    @property
    def is_record(self) -> bool:
        return "properties" in self.node

    @property
    def tag(self) -> str | None:
        """The field that chose this record among several, if one did."""
        first = next(iter(self.node.get("properties", {})), None)
        return first if first and "const" in self.node["properties"][first] else None


def places(node: Json, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """Every node of ``value``, walked along the schema."""
    nullable = False
    setting = node.get("$ref") == "#/$defs/SettingValue"
    while True:
        if "$ref" in node:
            node = schema()["$defs"][node["$ref"].rpartition("/")[2]]
        elif "discriminator" in node:
            tag = node["discriminator"]["propertyName"]
            node = {"$ref": node["discriminator"]["mapping"][value[tag]]}
        elif "anyOf" in node and {"type": "null"} in node["anyOf"]:
            nullable, node = True, node["anyOf"][0]
        else:
            break
    if isinstance(node.get("type"), list):
        nullable = True
    yield Place(path, node, nullable, value)
    if isinstance(value, dict):
        for key, item in value.items():
            below = {"$ref": "#/$defs/SettingValue"} if setting else None
            below = below or node.get("properties", {}).get(key) or node["additionalProperties"]
            yield from places(below, item, (*path, key))
    if isinstance(value, list):
        for index, item in enumerate(value):
            below = {"$ref": "#/$defs/SettingValue"} if setting else node["items"]
            yield from places(below, item, (*path, index))


def distinct() -> Iterator[tuple[str, Json, Place]]:
    """The places of all documents, each kind of place once."""
    seen: set[tuple[str, str, int]] = set()
    for name, document in DOCUMENTS.items():
        for place in places({"$ref": "#/$defs/AdapterRequest"}, document):
            generic = pointer("", *("*" if isinstance(part, int) else part for part in place.path))
            key = document["operation"], generic, id(place.node)
            if key not in seen:
                seen.add(key)
                yield f"{name}:{place.at or 'whole'}", document, place


DISTINCT = list(distinct())
PLACES = [pytest.param(document, place, id=name) for name, document, place in DISTINCT]
RECORDS = [
    pytest.param(document, place, id=name) for name, document, place in DISTINCT if place.is_record
]
INTEGERS = [
    pytest.param(document, place, id=name)
    for name, document, place in DISTINCT
    if "maximum" in place.node
]


def changed(document: Json, path: tuple[str | int, ...], change: Callable[[Any], None]) -> Json:
    """A copy of the document with ``change`` done to the node at ``path``."""
    spoilt = copy.deepcopy(document)
    node: Any = spoilt
    for part in path:
        node = node[part]
    change(node)
    return spoilt


def put(key: str, node: Json) -> None:
    node[key] = 1


def drop(key: str, node: Json) -> None:
    del node[key]


def replaced(document: Json, path: tuple[str | int, ...], value: Any) -> Any:
    if not path:
        return value
    return changed(document, path[:-1], lambda parent: parent.__setitem__(path[-1], value))


def test_the_documents_are_sound_and_hold_every_variant() -> None:
    for document in DOCUMENTS.values():
        check_request(document)
        assert answer(document)["status"] == "ok"
    seen = {place.value[place.tag] for _, _, place in DISTINCT if place.tag}
    assert {"local", "ssh", "direct", "inferlab_builtin", "integration_native"} <= seen
    assert {"request_routing", "kv_transfer", "bootstrap", "side_channel"} <= seen


# 1. Bytes to one document


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def at_depth(levels: int) -> Json:
    """A plan request whose deepest container stands at the given level."""
    value: Any = {}
    for _ in range(levels - 6):  # above it: request, input, roles, role, settings
        value = {"a": value}
    return plan_request(role(settings={"hf_overrides": value}))


BAD_BYTES: list[tuple[str, bytes, str]] = [
    ("nothing", b"", "stdin is empty; send one JSON request"),
    ("white-space", b" \r\n\t ", "stdin is empty; send one JSON request"),
    ("65-MiB", bytes(65 << 20), "stdin is over 64 MiB"),
    ("not-utf-8", b"\xff\xfe", "stdin is not UTF-8 (byte 0xff at offset 0)"),
    ("latin-1", b'{"a":"caf\xe9"}', "stdin is not UTF-8 (byte 0xe9 at offset 9)"),
    ("utf-16", '{"a":1}'.encode("utf-16-le"), "stdin is not JSON"),
    ("raw-surrogate", b'"\xed\xa0\x80"', "stdin is not UTF-8 (byte 0xed at offset 1)"),
    ("byte-order-mark", b"\xef\xbb\xbf{}", "stdin begins with a byte order mark; remove it"),
    ("truncated", b'{"a":[1,', "stdin is not JSON (Expecting value at column 9)"),
    ("truncated-string", b'{"a', "stdin is not JSON (Unterminated string starting at column 2)"),
    ("line-and-column", b'{\n"a":\n}', "stdin is not JSON (Expecting value at line 3 column 1)"),
    ("control-character", b'{"a":"\x01"}', "(Invalid control character at column 7)"),
    ("single-quotes", b"{'a':1}", "stdin is not JSON"),
    ("trailing-comma", b'{"a":1,}', "stdin is not JSON"),
    ("leading-zero", b'{"a":01}', "stdin is not JSON"),
    ("two-documents", b"{} {}", "stdin holds a second document at column 4; send one request"),
    ("two-lines", b"{}\n{}\n", "stdin holds a second document at line 2 column 1"),
    ("100,000-arrays", nested(100_000), "stdin is nested over 100 levels deep"),
    ("100,000-opened", b"[" * 100_000, "stdin is nested over 100 levels deep"),
    ("101-arrays", nested(101), "stdin is nested over 100 levels deep"),
    ("101-objects", b'{"a":' * 101 + b"1" + b"}" * 101, "stdin is nested over 100 levels deep"),
    ("100-arrays", nested(100), "the request must be an object, got array"),
    ("brackets-in-text", b'"' + b"[{" * 200 + b'"', "the request must be an object, got string"),
    ("null", b"null", "the request must be an object, got null"),
    ("number", b"6", "the request must be an object, got number"),
    ("doubled-key", b'{"a":1,"a":1}', "/a: the key is given twice; keep one"),
    ("doubled-deep", b'{"a":[0,{"b":{"c":1,"c":2}}]}', "/a/1/b/c: the key is given twice"),
    ("doubled-escaped", b'{"a":{"/~":1,"\\u002f~":2}}', "/a/~1~0: the key is given twice"),
    ("doubled-odd", '{"é\\n":1,"é\\n":2}'.encode(), "/é\\u000a: the key is given twice"),
    ("NaN", b'{"a":NaN}', "/a: NaN is not a finite number"),
    ("Infinity", b'{"a":[1,Infinity]}', "/a/1: Infinity is not a finite number"),
    ("minus-Infinity", b'{"a":-Infinity}', "/a: -Infinity is not a finite number"),
    ("overflow", b'{"a":{"b":1e999}}', "/a/b: 1e999 is not a finite number"),
    ("negative-overflow", b'{"a":-1e999}', "/a: -1e999 is not a finite number"),
    ("5,000-digits", b'{"a":{"b":' + b"9" * 5000 + b"}}", "/a/b: "),
    ("surrogate-value", b'{"a":["x","\\ud800"]}', "/a/1: "),
    ("surrogate-key", b'{"a":{"\\uDFFF":1}}', "/a/\\udfff: "),
    ("surrogates-swapped", b'{"a":"\\ude00\\ud83d"}', "/a: "),
]


@pytest.mark.parametrize(
    ("raw", "message"), [pytest.param(raw, message, id=name) for name, raw, message in BAD_BYTES]
)
def test_bad_bytes_are_refused_with_what_and_where(raw: bytes, message: str) -> None:
    code, said = refusal(raw)
    assert code == "invalid_request"
    assert message in said


AMBIGUOUS = [b'{"a":{"k":1,"k":1},"b":', b'{"a":NaN,"b":', b'{"a":1e999,"b":']


@pytest.mark.parametrize("start", AMBIGUOUS)
@pytest.mark.parametrize(
    "rest",
    [b"", b"x}", b"1} {}", b"9" * 5000 + b"}", nested(100_000) + b"}", b'"\\ud800"}'],
    ids=["truncated", "not-json", "second-document", "digits", "deep", "surrogate"],
)
def test_a_second_fault_does_not_hide_the_first(start: bytes, rest: bytes) -> None:
    code, _ = refusal(start + rest)
    assert code == "invalid_request"


def test_the_size_limit_is_64_mib_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert strict_json.MAX_BYTES == 64 * 2**20
    raw = json.dumps(DOCUMENTS["plan-single"]).encode()
    monkeypatch.setattr(strict_json, "MAX_BYTES", len(raw))
    assert answer(raw)["status"] == "ok"
    assert refusal(raw + b" ")[1].startswith("stdin is over 64 MiB")


def test_100_levels_are_fine_and_101_are_not() -> None:
    assert answer(at_depth(100))["status"] == "ok"
    assert refusal(at_depth(101)) == ("invalid_request", "stdin is nested over 100 levels deep")


def test_a_pair_of_surrogates_is_a_character() -> None:
    document = json.dumps(plan_request(role(settings={"chat_template": "\U0001f600"})))
    assert "\\ud83d\\ude00" in document
    settings = output(answer(document.encode()))["roles"][0]["effective_settings"]
    assert settings["chat_template"] == "\U0001f600"


def test_messages_name_the_source() -> None:
    for source in ("line 7", "/tmp/request.json"):
        line = respond(b"{", ADAPTER, Context("0.32.0"), source)
        assert json.loads(line)["error"]["message"].startswith(f"{source} is not JSON")


# 2. Version and operation


@pytest.mark.parametrize(
    ("version", "named"),
    [
        ("5", 'string "5"'),
        ("6.0", 'string "6.0"'),
        ("", 'string ""'),
        (6, "number 6"),
        (6.5, "number 6.5"),
        (None, "null"),
        (["6"], 'array ["6"]'),
        ({"6": 6}, 'object {"6": 6}'),
        (True, "boolean true"),
    ],
)
def test_another_version_is_named_and_comes_before_anything_else(version: Any, named: str) -> None:
    expected = (
        "unsupported_protocol_version",
        f'/protocol_version: must be the string "6", got {named}',
    )
    assert refusal({**DOCUMENTS["plan-single"], "protocol_version": version}) == expected
    assert refusal({"protocol_version": version, "operation": "nope", "more": 1}) == expected


def test_an_absent_version_is_an_invalid_request() -> None:
    code, message = refusal({"operation": "plan_serve"})
    assert code == "invalid_request"
    assert "/protocol_version: is missing; add it" in message


@pytest.mark.parametrize(
    ("operation", "hint"),
    [("plan_server", '; did you mean "plan_serve"?'), ("stop", ""), ("", "")],
)
def test_an_unknown_operation_has_a_code_of_its_own(operation: str, hint: str) -> None:
    shown = json.dumps(operation)
    assert refusal({"protocol_version": "6", "operation": operation}) == (
        "unsupported_operation",
        f'/operation: must be "plan_serve" or "render_serve", got {shown}{hint}',
    )


@pytest.mark.parametrize("name", ["plan-nixl", "render-nixl"])
@pytest.mark.parametrize("operation", [None, 5, True, [], ["plan_serve"], {}])
def test_an_operation_that_is_no_text_is_the_only_fault(name: str, operation: Any) -> None:
    got = "null" if operation is None else f"{json_type(operation)} {json.dumps(operation)}"
    assert refusal({**DOCUMENTS[name], "operation": operation}) == (
        "invalid_request",
        f'/operation: must be "plan_serve" or "render_serve", got {got}',
    )


# 3. Strict validation, at every place


@pytest.mark.parametrize(("document", "place"), RECORDS)
def test_unknown_fields_are_refused_at_every_level(document: Json, place: Place) -> None:
    for name in ("zzz", "a/b~c", *filter(None, [place.tag and place.value[place.tag]])):
        spoilt = changed(document, place.path, partial(put, name))
        where = pointer(place.at, name)
        assert refusal(spoilt) == ("invalid_request", f"{where}: unknown field; remove it")


@pytest.mark.parametrize(("document", "place"), RECORDS)
def test_misspelt_fields_get_the_nearest_name(document: Json, place: Place) -> None:
    for field in place.value:
        if field == place.tag or (not place.path and field == "input"):
            continue
        misspelt = {f"{key}x" if key == field else key: v for key, v in place.value.items()}
        code, message = refusal(replaced(document, place.path, misspelt))
        assert code == "invalid_request"
        where = pointer(place.at, f"{field}x")
        assert f'{where}: unknown field; did you mean "{field}"?' in message


@pytest.mark.parametrize(("document", "place"), RECORDS)
def test_every_required_field_is_missed(document: Json, place: Place) -> None:
    for field in place.value:
        spoilt = changed(document, place.path, partial(drop, field))
        if field in place.node.get("required", []):
            where = pointer(place.at, field)
            assert refusal(spoilt) == ("invalid_request", f"{where}: is missing; add it")
        else:
            check_request(spoilt)


OF_EVERY_TYPE: list[Any] = [None, True, 7, 1.0, -1.5, "4", [], [1], {}, {"a": 1}]


@pytest.mark.parametrize(("document", "place"), PLACES)
def test_wrong_types_are_refused_at_every_place(document: Json, place: Place) -> None:
    is_setting = "anyOf" in place.node or "not" in place.node
    for value in OF_EVERY_TYPE:
        same = json_type(value) == json_type(place.value) and type(value) is type(place.value)
        if same or (value is None and place.nullable) or (is_setting and value is not None):
            continue
        if not place.path:
            got = json_type(value)
            expected = ("invalid_request", f"the request must be an object, got {got}")
            assert refusal(json.dumps(value).encode()) == expected
            continue
        code, message = refusal(replaced(document, place.path, value))
        version = place.path == ("protocol_version",)
        assert code == ("unsupported_protocol_version" if version else "invalid_request")
        assert message.startswith(f"{place.at}: "), message
        got = "null" if value is None else f"{json_type(value)} {json.dumps(value)}"
        assert " | " not in message
        assert is_setting or f"got {got}" in message, message


@pytest.mark.parametrize(("document", "place"), INTEGERS)
def test_integers_out_of_range_are_refused(document: Json, place: Place) -> None:
    least, most = place.node["minimum"], place.node["maximum"]
    for value, words in (
        (least - 1, f"must be at least {least}, got {least - 1}"),
        (most + 1, f"must be at most {most}, got {most + 1}"),
        (2**64, f"must be at most {most}, got {2**64}"),
    ):
        spoilt = replaced(document, place.path, value)
        assert refusal(spoilt) == ("invalid_request", f"{place.at}: {words}")


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"seed": None}, "seed"),
        ({"hf_overrides": {"a": None}}, "hf_overrides/a"),
        ({"hf_overrides": {"a/b": [0, {"~": None}]}}, "hf_overrides/a~1b/1/~0"),
        ({"extra_args": ["--seed", None]}, "extra_args/1"),
        ({"extra_env": {"A": None}}, "extra_env/A"),
        ({"nope": [[[None]]]}, "nope/0/0/0"),
        ({"": None}, ""),
    ],
)
def test_null_is_refused_at_any_depth_of_a_setting(settings: Json, where: str) -> None:
    code, message = refusal(plan_request(role(settings=settings)))
    assert code == "invalid_request"
    assert message.startswith(f"/input/roles/0/settings/{where}: ")
    assert "null" in message


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**400])
def test_integers_of_a_setting_fit_in_64_bits(value: int) -> None:
    code, message = refusal(plan_request(role(settings={"seed": value})))
    assert code == "invalid_request"
    assert message.startswith("/input/roles/0/settings/seed: ")
    assert "64 signed bits" in message


# 4. Faults of ours


class Broken:
    """An adapter whose option table cannot be had."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def option_table(self, framework_version: str) -> OptionTable:
        raise self.error


def broken(error: BaseException) -> Adapter:
    adapter = copy.copy(ADAPTER)
    adapter.option_table = Broken(error).option_table  # type: ignore[method-assign]
    return adapter


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("a\nb"), KeyError("x"), RecursionError(), MemoryError(), OSError(2, "no")],
)
@pytest.mark.parametrize("name", ["plan-single", "render-single"])
def test_an_exception_is_internal_and_its_traceback_a_note(error: Exception, name: str) -> None:
    notes: list[str] = []
    raw = json.dumps(DOCUMENTS[name]).encode()
    line = respond(raw, broken(error), Context("0.32.0", notes.append))
    response = json.loads(line)
    check_response(response)
    assert response["error"]["code"] == "internal"
    kind = type(error).__name__
    expected = f"{kind} in oe-adapter-vllm; this is a fault of the adapter"
    assert response["error"]["message"] == expected
    (note,) = notes
    assert note.startswith("Traceback")
    assert kind in note
    assert "raise self.error" in note


def test_an_interrupt_is_not_swallowed() -> None:
    raw = json.dumps(DOCUMENTS["plan-single"]).encode()
    with pytest.raises(KeyboardInterrupt):
        respond(raw, broken(KeyboardInterrupt()), Context("0.32.0"))


# 5. The one line that goes out


SHAPES = {
    **DOCUMENTS,
    "plan-reset": plan_request(role(settings={"dev_endpoints": True})),
    "refused": plan_request(role(settings={"max_num_sequence": 1, "dtype": "flot16"})),
    "no-object": [],
    "unknown-version": {"protocol_version": 6},
}


@pytest.mark.parametrize("name", SHAPES)
def test_keys_are_in_schema_order_and_nothing_is_null(name: str) -> None:
    response = answer(json.dumps(SHAPES[name]).encode())
    for place in places({"$ref": "#/$defs/AdapterResponse"}, response):
        assert place.value is not None, place.at
        if place.is_record:
            known = [key for key in place.node["properties"] if key in place.value]
            assert list(place.value) == known, place.at


def test_maps_are_sorted_by_name() -> None:
    settings = {"seed": 1, "dtype": "auto", "async_scheduling": True}
    plan = output(answer(plan_request(role(settings=settings))))
    names = list(plan["roles"][0]["effective_settings"])
    assert names == sorted(names)
    processes = output(answer(DOCUMENTS["render-nixl"]))["processes"]
    for process in processes:
        assert list(process["command"]["env"]) == sorted(process["command"]["env"])


def test_the_same_request_gets_the_same_bytes() -> None:
    raws = [json.dumps(document).encode() for document in SHAPES.values()]
    context = Context("0.32.0")
    first = [respond(raw, ADAPTER, context) for raw in raws]
    again = [respond(raw, ADAPTER, context) for raw in reversed(raws)]
    assert first == again[::-1]


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    lines = b"".join(json.dumps(document).encode() + b"\n" for document in SHAPES.values())
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "oe_adapter_vllm", "--ndjson"],
            input=lines,
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert outputs.pop().count(b"\n") == len(SHAPES)


# Render takes exactly what plan returned


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("routing", "policy"), "random", '"random", planned was "round_robin"'),
        (("links", 1, "target"), "d", '"d", planned was "decode"'),
        (("roles", 1, "effective_replica_count"), 2, "2, planned was 1"),
        (
            ("roles", 0, "effective_parallelism", "experts", "data_parallel_size"),
            None,
            "absent, planned was 1",
        ),
    ],
)
def test_a_plan_that_was_changed_is_refused(
    path: tuple[str | int, ...], value: Any, message: str
) -> None:
    spoilt = replaced(DOCUMENTS["render-nixl"], ("input", *path), value)
    where = pointer("/input", *path)
    code, said = refusal(spoilt)
    assert code == "invalid_request"
    expected = f"{where}: differs from the plan: {message}; send back what plan_serve returned"
    assert expected in said.split(" | ")


def test_render_inputs_that_were_not_planned_are_refused() -> None:
    empty = hashlib.sha256(b"").hexdigest()
    supplied = [{"source_path": "a/b", "text": "", "sha256": empty}]
    spoilt = replaced(DOCUMENTS["render-nixl"], ("input", "render_inputs"), supplied)
    code, message = refusal(spoilt)
    assert code == "invalid_request"
    where = "/input/render_inputs/0/source_path"
    what = f'{where}: "a/b" is no planned render input'
    assert message == f"{what}; send what the plan asks for"


# 7. Messages


def test_the_worst_five_are_told_and_the_rest_counted() -> None:
    spoilt = copy.deepcopy(DOCUMENTS["plan-single"])
    for name in ("z1", "z2", "z3", "z4"):
        spoilt["input"][name] = 1
    spoilt["input"]["topology"] = "ring"
    del spoilt["input"]["model"]["id"]
    spoilt["input"]["roles"][0]["id"] = 5
    code, message = refusal(spoilt)
    assert code == "invalid_request"
    assert message.split(" | ") == [
        "/input/roles/0/id: must be a string, got number 5",
        "/input/model/id: is missing; add it",
        "/input/z1: unknown field; remove it",
        "/input/z2: unknown field; remove it",
        "/input/z3: unknown field; remove it",
        "and 2 more",
    ]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ("topology",),
            "singel",
            'must be "single" or "prefill_decode", got string "singel"; did you mean "single"?',
        ),
        (
            ("roles", 0, "kind"),
            "served",
            'must be "serve", "prefill", "decode" or "router", got string "served"; '
            'did you mean "serve"?',
        ),
        (("kv_transfer",), "ucx", 'must be "mooncake" or "nixl", got string "ucx"'),
    ],
)
def test_wrong_words_get_the_legal_and_the_nearest(
    path: tuple[str | int, ...], value: str, message: str
) -> None:
    spoilt = replaced(DOCUMENTS["plan-single"], ("input", *path), value)
    assert refusal(spoilt) == ("invalid_request", f"{pointer('/input', *path)}: {message}")


def test_line_breaks_in_names_and_values_stay_on_the_line() -> None:
    spoilt = changed(DOCUMENTS["plan-single"], ("input",), partial(put, "a\nb"))
    assert refusal(spoilt)[1] == "/input/a\\u000ab: unknown field; remove it"
    code, message = refusal(plan_request(role(settings={"dtype": "x\u2028y\n"})))
    assert code == "invalid_settings"
    assert 'got "x\\u2028y\\n"' in message


def test_long_values_are_cut() -> None:
    spoilt = replaced(DOCUMENTS["plan-single"], ("input", "topology"), "x" * 10_000)
    assert len(refusal(spoilt)[1]) < 250
