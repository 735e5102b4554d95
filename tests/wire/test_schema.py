"""The schema, the models and the wire types say the same.

What the Rust file says is written down here a third time, as tables and fixtures, because the
schema and the models cannot vouch for each other. JSON goes into both as Python's parser gives
it, and a float is never an integer: `1.0` is refused where the wire wants an integer.
"""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from inferlab_adapters import protocol

ROOT = Path(__file__).resolve().parents[2]
SCHEMA_FILE = ROOT / "schema" / "adapter-protocol-v6.schema.json"
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
DEFS: dict[str, Any] = SCHEMA["$defs"]
ADAPTER_MODULES = ("_setting_value", "_v6", "_v6_render", "_v6_response")
MODULES = (*ADAPTER_MODULES, "_v6_clients")

# Names of the wire file; what else the schema defines is a width or the variant of an enum.
RUST_TYPES = """
    AdapterError AdapterErrorCode AdapterProtocol AdapterRequest AdapterResponse AdapterResult
    AllocationLaunch BenchCaseInput BenchClientRequest BenchClientResult BenchDatasetCacheState
    BenchDatasetCatalogInput BenchDatasetInput BenchDatasetPreparationRequest
    BenchDatasetPreparationResult BenchDefinitionInput BenchLoadInput BenchPopulationInput
    BenchRequestSloInput BenchRequestSloResult BenchRequestSourceInput BenchTokenCountSummary
    BuiltinRouterKind CaptureControlRequirement CaptureTargetRequirement ClientEndpointInput
    ClientStatus EndpointAssignment EndpointProtocol EndpointRequirement EvalClientRequest
    EvalClientResult EvalDefinitionInput EvalFailureKind EvalMetricComparison EvalMetricGate
    EvalMetricGateConclusion EvalNormalizedMetric EvalTaskSourceInput EvalTrialSummary
    HttpActionSpec HttpMethod HttpTargetRegistryReadiness IntegrationIdentity KvTransferMechanism
    LaunchFileDeclaration MeasurementModelInput Parallelism ParallelismAttention
    ParallelismExperts ParallelismOuter PlanServeInput PlanServeResult ProcessSpec ProtocolVersion
    RawArtifact ReadinessProbe RenderInputDeclaration RenderServeInput RenderServeResult
    RenderedServeProcess RoutingResult ServeModelInput ServeProcessAllocation
    ServeReplicaRequirement ServeRoleInput ServeRoleKind ServeRoleLink ServeRoleResult
    ServeTopology SettingValue SuppliedRenderInput TargetEndpointScheme
"""

WIDTHS = {
    "U16": (0, 2**16 - 1),
    "U32": (0, 2**32 - 1),
    "U64": (0, 2**64 - 1),
    "I32": (-(2**31), 2**31 - 1),
    "I64": (-(2**63), 2**63 - 1),
    "PositiveU32": (1, 2**32 - 1),
    "F64": (-sys.float_info.max, sys.float_info.max),
}

# Tag and variants of every tagged enum.
UNIONS = {
    "AdapterRequest": ("operation", ["plan_serve", "render_serve"]),
    "AdapterResponse": ("status", ["ok", "error"]),
    "AdapterResult": ("operation", ["plan_serve", "render_serve"]),
    "AllocationLaunch": ("kind", ["local", "ssh"]),
    "BenchLoadInput": (
        "kind",
        ["concurrency_limited", "request_rate_limited", "unbounded_request_rate"],
    ),
    "BenchRequestSourceInput": ("kind", ["random", "dataset"]),
    "EvalDefinitionInput": ("kind", ["openai_smoke", "lm_eval"]),
    "EvalTaskSourceInput": ("kind", ["built_in", "bundled", "workspace_yaml"]),
    "ReadinessProbe": ("kind", ["http", "http_target_registry", "process_alive"]),
    "RoutingResult": ("owner", ["direct", "inferlab_builtin", "integration_native"]),
    "ServeRoleLink": ("kind", ["request_routing", "kv_transfer", "bootstrap", "side_channel"]),
}

# Fields of type Option: absent or null. Every other field is never null.
OPTIONS = {
    "AdapterProtocol": {
        "eval_client_request",
        "eval_client_result",
        "bench_client_request",
        "bench_client_result",
        "bench_dataset_preparation_request",
        "bench_dataset_preparation_result",
    },
    "BenchClientRequest": {"population"},
    "BenchClientResult": {"request_slo", "native_exit_code", "error"},
    "BenchDatasetPreparationResult": {
        "population",
        "input_tokens",
        "output_tokens",
        "evidence_path",
        "error",
    },
    "BenchDefinitionInput": {"request_slo"},
    "BenchRequestSloInput": {"request_latency_ms", "ttft_ms", "tpot_ms"},
    "BenchRequestSloResult": {
        "native_aggregate_good_request_count",
        "native_aggregate_good_request_count_consistent",
    },
    "DatasetRequestSource": {"output_tokens"},
    "EndpointRequirement": {"prefix_cache_reset"},
    "EvalClientResult": {"gate", "trial_summary", "native_exit_code", "failure_kind", "error"},
    "EvalNormalizedMetric": {"filter"},
    "EvalTrialSummary": {"pass_rate", "per_trial_filter"},
    "LmEvalDefinition": {
        "limit",
        "few_shot",
        "seed",
        "max_tokens",
        "concurrency",
        "metric_filter",
    },
    "Parallelism": {"outer", "attention", "experts"},
    "ParallelismAttention": {
        "tensor_parallel_size",
        "data_parallel_size",
        "context_parallel_size",
    },
    "ParallelismExperts": {
        "tensor_parallel_size",
        "data_parallel_size",
        "expert_parallel_size",
        "dense_tensor_parallel_size",
    },
    "ParallelismOuter": {"tensor_parallel_size", "pipeline_parallel_size"},
    "PlanServeInput": {"routing_backend", "kv_transfer"},
    "RenderServeInput": {"routing_backend", "kv_transfer"},
    "RequestRateLimitedLoad": {"burstiness"},
    "ServeProcessAllocation": {"model_locator", "endpoint"},
    "ServeReplicaRequirement": {"capture_target"},
}

# Other fields with a default: absent, but not null.
DEFAULTS = {
    "BenchCaseInput": {"warmup_request_count"},
    "BenchDatasetPreparationRequest": {"request_body"},
    "BenchDatasetPreparationResult": {"ineligible_reasons"},
    "BenchDefinitionInput": {"request_body", "reset_prefix_cache"},
    "EvalClientResult": {"normalized_metrics", "native_timed_out"},
    "InferlabBuiltinRouting": {"ports"},
    "LmEvalDefinition": {"request_body"},
    "PlanServeInput": {"profiling"},
    "PlanServeResult": {"render_inputs"},
    "RenderServeInput": {"render_inputs", "profiling"},
    "ServeProcessAllocation": {"dependencies"},
}

OBJECTS = sorted(name for name, node in DEFS.items() if "properties" in node)

NUMBERS = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)
Validator: Any = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, type_checker=NUMBERS
)


@cache
def schema_of(name: str) -> Any:
    return Validator({"$ref": f"#/$defs/{name}", "$defs": DEFS})


@cache
def model_of(name: str) -> TypeAdapter[Any]:
    for module in MODULES:
        found = vars(importlib.import_module(f"inferlab_adapters.protocol.{module}"))
        if name in found:
            return TypeAdapter(found[name])
    raise LookupError(name)


def verdicts(name: str, document: Any) -> tuple[bool, bool]:
    """Whether the schema accepts the document, and whether the models do."""
    by_schema: bool = schema_of(name).is_valid(document)
    try:
        model_of(name).validate_python(document)
    except ValidationError:
        return by_schema, False
    return by_schema, True


def sample(node: dict[str, Any]) -> Any:
    """A document with every field that a definition knows."""
    match node:
        case {"$ref": str(ref)}:
            return sample(DEFS[ref.removeprefix("#/$defs/")])
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"oneOf": [first, *_]} | {"anyOf": [first, *_]}:
            return sample(first)
        case {"properties": dict(properties)}:
            return {key: sample(value) for key, value in properties.items()}
        case {"type": "object", "additionalProperties": dict(value)}:
            return {"key": sample(value)}
        case {"type": "array", "items": dict(items)}:
            return [sample(items)]
        case {"type": "string" | ["string", "null"]}:
            return "text"
        case {"type": "boolean" | ["boolean", "null"]}:
            return True
        case {"type": "integer"}:
            return 1
        case {"type": "number"}:
            return 0.5
    raise AssertionError(f"no sample for {node}")


def cases(file: str) -> Iterator[Any]:
    text = (Path(__file__).parent / "fixtures" / file).read_text(encoding="utf-8")
    for name, documents in json.loads(text).items():
        for rule, document in documents.items():
            yield pytest.param(name, document, id=f"{name}: {rule}")


# The schema by itself


def test_schema_is_valid_draft_2020_12() -> None:
    assert SCHEMA["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_root_is_the_whole_protocol() -> None:
    assert SCHEMA["$ref"] == "#/$defs/AdapterProtocol"
    assert Validator(SCHEMA).is_valid(sample(DEFS["AdapterProtocol"]))
    assert not Validator(SCHEMA).is_valid({})


def test_every_wire_type_is_defined() -> None:
    variants = {
        ref.removeprefix("#/$defs/")
        for name in UNIONS
        for ref in DEFS[name]["discriminator"]["mapping"].values()
    }
    assert set(RUST_TYPES.split()) | set(WIDTHS) | variants == set(DEFS)


def test_every_type_is_described_in_one_line() -> None:
    undescribed = [name for name, node in DEFS.items() if not node.get("description")]
    assert sorted(undescribed) == sorted(WIDTHS)
    assert all("\n" not in node.get("description", "") for node in DEFS.values())


@pytest.mark.parametrize("name", sorted(WIDTHS))
def test_widths_are_bounds(name: str) -> None:
    assert (DEFS[name]["minimum"], DEFS[name]["maximum"]) == WIDTHS[name]


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_refuse_unknown_fields_and_know_what_may_be_absent(name: str) -> None:
    node = DEFS[name]
    properties = node["properties"]
    absent = OPTIONS.get(name, set()) | DEFAULTS.get(name, set())
    assert node["additionalProperties"] is False
    assert set(node.get("required", [])) == set(properties) - absent
    assert {key for key in properties if "default" in properties[key]} == DEFAULTS.get(name, set())


@pytest.mark.parametrize("name", sorted(UNIONS))
def test_unions_have_a_discriminator(name: str) -> None:
    tag, values = UNIONS[name]
    discriminator = DEFS[name]["discriminator"]
    assert discriminator["propertyName"] == tag
    assert list(discriminator["mapping"]) == values
    assert [{"$ref": ref} for ref in discriminator["mapping"].values()] == DEFS[name]["oneOf"]
    for value, ref in discriminator["mapping"].items():
        variant = DEFS[ref.removeprefix("#/$defs/")]
        assert variant["properties"][tag] == {"const": value}
        assert next(iter(variant["properties"])) == tag


# The schema and the models on the same documents


@pytest.mark.parametrize(("name", "document"), list(cases("valid.json")))
def test_both_accept(name: str, document: Any) -> None:
    assert verdicts(name, document) == (True, True)


@pytest.mark.parametrize(("name", "document"), list(cases("invalid.json")))
def test_both_refuse(name: str, document: Any) -> None:
    assert verdicts(name, document) == (False, False)


@pytest.mark.parametrize("name", OBJECTS)
def test_each_field_is_optional_nullable_and_known_as_the_wire_says(name: str) -> None:
    full = sample(DEFS[name])
    options, defaults = OPTIONS.get(name, set()), DEFAULTS.get(name, set())
    assert verdicts(name, full) == (True, True)
    assert verdicts(name, {**full, "unknown": 1}) == (False, False)
    for field in full:
        without = {key: value for key, value in full.items() if key != field}
        may_be_absent = field in options | defaults
        assert verdicts(name, without) == (may_be_absent, may_be_absent), f"{field} absent"
        may_be_null = field in options
        assert verdicts(name, {**full, field: None}) == (may_be_null, may_be_null), f"{field} null"


@pytest.mark.parametrize("name", sorted(UNIONS))
def test_each_variant_is_chosen_by_its_tag(name: str) -> None:
    tag, _ = UNIONS[name]
    for value, ref in DEFS[name]["discriminator"]["mapping"].items():
        full = sample({"$ref": ref})
        assert verdicts(name, full) == (True, True)
        assert verdicts(name, {**full, "unknown": 1}) == (False, False)
        untagged = {key: item for key, item in full.items() if key != tag}
        assert verdicts(name, untagged) == (False, False)
        wrong_tags: list[Any] = [None, True, 1, [value], {}, "", value.upper(), f"{value} "]
        for wrong in wrong_tags:
            assert verdicts(name, {**full, tag: wrong}) == (False, False), wrong
    for value in ("text", None, 1, [], {}):
        assert verdicts(name, value) == (False, False)


ODD_VALUES: list[Any] = [
    *(None, True, False, "", "text", "1", [], [None], {}, {"key": None}),
    *(0, 1, -1, 2**16, 2**31, 2**32, 2**63, 2**64, -(2**31) - 1, -(2**63) - 1, 10**400),
    *(0.0, 1.0, 1.5, -1.0, 1e300),
]


def mutants(document: Any) -> Iterator[Any]:
    """The document with one thing in it changed: a value, a missing key or a key too many."""
    yield from ODD_VALUES
    if isinstance(document, int) and not isinstance(document, bool):
        yield from (document - 1, document + 1, str(document), float(document))
    if isinstance(document, dict):
        yield {**document, "unknown": 1}
        for key, value in document.items():
            yield {other: item for other, item in document.items() if other != key}
            yield from ({**document, key: mutant} for mutant in mutants(value))
    if isinstance(document, list):
        for index, value in enumerate(document):
            yield [*document[:index], *document[index + 1 :]]
            for mutant in mutants(value):
                yield [*document[:index], mutant, *document[index + 1 :]]


def mutated() -> Iterator[Any]:
    """Every object by itself, but for the deepest, and the tagged messages of the fixtures."""
    for name in OBJECTS:
        full = sample(DEFS[name])
        if len(json.dumps(full)) < 600:
            yield pytest.param(name, full, id=name)
    yield from (case for case in cases("valid.json") if case.values[0] in UNIONS)


@pytest.mark.parametrize(("name", "document"), list(mutated()))
def test_both_judge_every_single_change_alike(name: str, document: Any) -> None:
    for mutant in mutants(document):
        by_schema, by_models = verdicts(name, mutant)
        assert by_schema == by_models, mutant


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**63 - 2, 2**63 + 1)
    | st.integers(-(2**63) - 2, -(2**63) + 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)


@given(JSON)
def test_both_judge_any_setting_alike(value: Any) -> None:
    by_schema, by_models = verdicts("SettingValue", value)
    assert by_schema == by_models


# The models by themselves


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", [True, 1, 1.0, "1"], {"a": {"b": [1.0]}}])
def test_settings_come_back_as_they_went_in(value: Any) -> None:
    role = sample(DEFS["ServeRoleInput"]) | {"settings": {"option": value}}
    checked = protocol.ServeRoleInput.model_validate(role)
    assert repr(checked.settings["option"]) == repr(value)
    assert json.dumps(json.loads(checked.model_dump_json())["settings"]["option"]) == json.dumps(
        value
    )


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        (None, (), "null is not allowed in settings"),
        ({"a": [1, None]}, ("a", 1), "null is not allowed in settings"),
        ([2**63], (0,), "does not fit in 64 signed bits"),
        (float("nan"), (), "is not a finite number"),
        ({"a": "\ud800"}, ("a",), "is not valid Unicode"),
        ({"a": {"\ud800": 1}}, ("a",), "has a key that is not valid Unicode"),
        ([(1,)], (0,), "is not JSON but tuple"),
    ],
)
def test_a_bad_setting_is_one_error_that_says_where(
    value: Any, path: tuple[str | int, ...], reason: str
) -> None:
    role = sample(DEFS["ServeRoleInput"]) | {"settings": {"option": value}}
    with pytest.raises(ValidationError) as caught:
        protocol.ServeRoleInput.model_validate(role)
    (error,) = caught.value.errors()
    assert error["type"] == "setting_value"
    assert error["loc"] == ("settings", "option")
    assert error["ctx"] == {"path": path, "reason": reason}
    assert error["msg"] == reason


def test_floats_outside_json_are_refused() -> None:
    for value in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValidationError):
            model_of("F64").validate_python(value)


@pytest.mark.parametrize("name", ["AdapterRequest", "AdapterResponse", "AdapterProtocol"])
def test_absent_options_stay_absent_and_keys_keep_the_order_of_the_schema(name: str) -> None:
    full = sample(DEFS[name])
    adapter = model_of(name)
    assert json.dumps(json.loads(adapter.dump_json(adapter.validate_python(full)))) == json.dumps(
        full
    )
    role = {"id": "r", "kind": "router", "replica_count": 1, "settings": {}, "parallelism": {}}
    dumped = protocol.ServeRoleInput.model_validate(role).model_dump_json(exclude_none=True)
    assert dumped == ('{"id":"r","kind":"router","replica_count":1,"parallelism":{},"settings":{}}')


def test_messages_do_not_change() -> None:
    model = protocol.ServeModelInput(id="m", served_name="m")
    with pytest.raises(ValidationError, match="frozen"):
        model.id = "other"  # type: ignore[misc]


def test_the_package_offers_what_adapters_need() -> None:
    widths = set(WIDTHS)
    offered = {
        name
        for module in ADAPTER_MODULES
        for name in vars(importlib.import_module(f"inferlab_adapters.protocol.{module}"))
        if name in DEFS or name == "WireModel"
    }
    assert set(protocol.__all__) == offered - widths
    assert all(getattr(protocol, name) is not None for name in protocol.__all__)
    with pytest.raises(AttributeError, match="EvalClientRequest"):
        _ = protocol.EvalClientRequest


def test_planning_loads_nothing_else() -> None:
    code = (
        "import sys; from inferlab_adapters.protocol import PlanServeRequest;"
        "print(*sorted(name for name in sys.modules if '._v6' in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert done.stdout.split() == ["inferlab_adapters.protocol._v6"]


# The generated files


def generator(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "scripts" / "generate_protocol.py", "--check"],
        capture_output=True,
        check=False,
        text=True,
    )


def test_models_are_fresh() -> None:
    done = generator(ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_stale_models_are_noticed(tmp_path: Path) -> None:
    for part in ("scripts/generate_protocol.py", "schema", "inferlab_adapters/protocol"):
        target = tmp_path / part
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, target)
    schema = tmp_path / "schema" / SCHEMA_FILE.name
    text = schema.read_text(encoding="utf-8")
    assert '"maximum": 65535' in text
    schema.write_text(text.replace('"maximum": 65535', '"maximum": 65534'), encoding="utf-8")
    done = generator(tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "stale: inferlab_adapters/protocol/_v6_render.py; run scripts/generate_protocol.py"
    ]
