# Generated from schema/adapter-protocol-v6.schema.json by scripts/generate_protocol.py
# with datamodel-code-generator 0.89.0: change the schema and run the script instead.

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ._setting_value import SettingValue
from ._v6 import U32, ProtocolVersion, WireModel
from ._v6_render import U16, AdapterRequest, TargetEndpointScheme
from ._v6_response import AdapterResponse, EndpointProtocol

U64: TypeAlias = Annotated[int, Field(strict=True, ge=0, le=18446744073709551615)]
I32: TypeAlias = Annotated[int, Field(strict=True, ge=-2147483648, le=2147483647)]
I64: TypeAlias = Annotated[int, Field(strict=True, ge=-9223372036854775808, le=9223372036854775807)]
F64: TypeAlias = Annotated[
    float, Field(strict=True, ge=-1.7976931348623157e308, le=1.7976931348623157e308)
]


class MeasurementModelInput(WireModel):
    """The model as a measuring client sees it."""

    locator: str
    served_name: str


class ClientEndpointInput(WireModel):
    """The endpoint a measuring client sends its load to."""

    protocol: EndpointProtocol
    host: str
    port: U16
    completions_path: str
    chat_completions_path: str


ClientStatus: TypeAlias = Literal["succeeded", "failed"]


class RawArtifact(WireModel):
    """A file a client left behind as evidence."""

    name: str
    kind: str
    path: str


class OpenAiSmokeDefinition(WireModel):
    """One prompt, to see that anything comes back."""

    kind: Literal["openai_smoke"]
    prompt: str
    max_tokens: U32
    timeout_seconds: U64


class BuiltInTaskSource(WireModel):
    """A task lm-eval brings along."""

    kind: Literal["built_in"]
    name: str


class BundledTaskSource(WireModel):
    """A task released with the control plane, every part of it pinned by digest."""

    kind: Literal["bundled"]
    name: str
    task_identity: str
    path: str
    task_closure_sha256: str
    task_definition_sha256: str
    prompt_asset_sha256: str
    dataset_asset_sha256: str
    scorer_sha256: str


class WorkspaceYamlTaskSource(WireModel):
    """A task file of the user's workspace."""

    kind: Literal["workspace_yaml"]
    path: str


EvalFailureKind: TypeAlias = Literal[
    "task_resolution",
    "probe_tokenizer",
    "probe_transport",
    "probe_http",
    "probe_malformed_response",
    "probe_generated_only_logprobs",
    "probe_tokenizer_alignment",
    "metric_normalization",
]
EvalMetricComparison: TypeAlias = Literal["at_least", "at_most"]
EvalMetricGateConclusion: TypeAlias = Literal["passed", "failed"]


class EvalNormalizedMetric(WireModel):
    """A metric with the place lm-eval reported it at."""

    source_identity: str
    metric: str
    filter: str | None = None
    native_metric_key: str
    value: F64
    higher_is_better: bool


class EvalMetricGate(WireModel):
    """The comparison that decided the evaluation."""

    metric: EvalNormalizedMetric
    threshold: F64
    comparison: EvalMetricComparison
    conclusion: EvalMetricGateConclusion


class EvalTrialSummary(WireModel):
    """Counts of repeated runs of one evaluation."""

    requested_trials: U32
    issued_trials: U32
    unissued_trials: U32
    completed_trials: U32
    request_failure_trials: U32
    passed_trials: U32
    pass_rate: F64 | None = None
    per_trial_metric: str
    per_trial_filter: str | None = None
    higher_is_better: bool


class RandomRequestSource(WireModel):
    """Made-up prompts of exact length."""

    kind: Literal["random"]
    input_tokens: U32
    output_tokens: U32


BenchDatasetInput: TypeAlias = Literal["sharegpt"]
BenchDatasetCacheState: TypeAlias = Literal["missing", "present"]


class BenchPopulationInput(WireModel):
    """A fixed file of prompts that every case goes through in order."""

    path: str
    sha256: str
    entries: U32
    tpot_applicable: bool


class BenchRequestSloInput(WireModel):
    """Limits a request must keep to count as good, in milliseconds."""

    request_latency_ms: F64 | None = None
    ttft_ms: F64 | None = None
    tpot_ms: F64 | None = None
    minimum_good_request_ratio: F64


class ConcurrencyLimitedLoad(WireModel):
    """So many requests in flight, always."""

    kind: Literal["concurrency_limited"]
    concurrency: U32


class RequestRateLimitedLoad(WireModel):
    """So many requests a second."""

    kind: Literal["request_rate_limited"]
    request_rate: F64
    burstiness: F64 | None = None


class UnboundedRequestRateLoad(WireModel):
    """Everything at once."""

    kind: Literal["unbounded_request_rate"]


class BenchRequestSloResult(WireModel):
    """How many requests kept their limits, and over what time."""

    good_requests: U64
    good_request_ratio: F64
    goodput: F64
    profiling_duration_seconds: F64
    profiling_duration_source: str
    request_count_reconciled: bool
    native_aggregate_good_request_count: U64 | None = None
    native_aggregate_good_request_count_consistent: bool | None = None


class BenchTokenCountSummary(WireModel):
    """Token counts over a population; the single entries are in the evidence file."""

    minimum: U32
    maximum: U32
    mean: F64


class BenchDatasetPreparationResult(WireModel):
    """The population made, or why there is none."""

    schema_version: U32
    status: ClientStatus
    materialization_identity: str
    requested_entries: U32
    candidate_entries: U64
    admitted_entries: U64
    ineligible_entries: U64
    ineligible_reasons: dict[str, U64] = {}
    population: BenchPopulationInput | None = None
    input_tokens: BenchTokenCountSummary | None = None
    output_tokens: BenchTokenCountSummary | None = None
    evidence_path: str | None = None
    error: str | None = None


class HttpTargetRegistryReadiness(WireModel):
    """How to read a router's registry of targets; on the wire it stands inside a readiness probe, with a tag."""

    target_scheme: TargetEndpointScheme
    readiness_path: str
    registry_path: str
    targets_field: str
    target_url_field: str
    target_role_field: str
    target_healthy_field: str
    target_bootstrap_port_field: str
    prefill_role_value: str
    decode_role_value: str
    prefill_bootstrap_port: str


EvalTaskSourceInput: TypeAlias = Annotated[
    BuiltInTaskSource | BundledTaskSource | WorkspaceYamlTaskSource, Field(discriminator="kind")
]


class EvalClientResult(WireModel):
    """What the eval client found."""

    schema_version: U32
    status: ClientStatus
    metrics: dict[str, F64]
    normalized_metrics: dict[str, EvalNormalizedMetric] = {}
    gate: EvalMetricGate | None = None
    trial_summary: EvalTrialSummary | None = None
    native_command: list[str]
    native_exit_code: I32 | None = None
    native_timed_out: bool = False
    raw_artifacts: list[RawArtifact]
    failure_kind: EvalFailureKind | None = None
    error: str | None = None


class BenchDatasetCatalogInput(WireModel):
    """What the control plane's release knows of a dataset."""

    upstream_identity: str
    url: str
    sha256: str
    source_format: str
    license: str
    cache_path: str
    cache_state: BenchDatasetCacheState
    materialization_identity: str


BenchLoadInput: TypeAlias = Annotated[
    ConcurrencyLimitedLoad | RequestRateLimitedLoad | UnboundedRequestRateLoad,
    Field(discriminator="kind"),
]


class BenchClientResult(WireModel):
    """What the bench client measured."""

    schema_version: U32
    status: ClientStatus
    completed_requests: U64
    failed_requests: U64
    normalization_schema: str
    metrics: dict[str, F64]
    request_slo: BenchRequestSloResult | None = None
    native_command: list[str]
    native_exit_code: I32 | None = None
    raw_artifacts: list[RawArtifact]
    error: str | None = None


class LmEvalDefinition(WireModel):
    """An lm-eval task whose metric is held against a threshold."""

    kind: Literal["lm_eval"]
    task: EvalTaskSourceInput
    request_body: dict[str, SettingValue] = {}
    limit: U32 | None = None
    few_shot: U32 | None = None
    seed: U64 | None = None
    trials: U32
    max_tokens: U32 | None = None
    concurrency: U32 | None = None
    metric: str
    metric_filter: str | None = None
    threshold: F64
    timeout_seconds: U64


class DatasetRequestSource(WireModel):
    """Conversations of a public dataset, cut to fit."""

    kind: Literal["dataset"]
    dataset: BenchDatasetInput
    max_input_tokens: U32
    output_tokens: U32 | None = None
    catalog: BenchDatasetCatalogInput


class BenchCaseInput(WireModel):
    """One load: its shape and its size."""

    load_shape: BenchLoadInput
    request_count: U32
    warmup_request_count: U32 = 0


EvalDefinitionInput: TypeAlias = Annotated[
    OpenAiSmokeDefinition | LmEvalDefinition, Field(discriminator="kind")
]
BenchRequestSourceInput: TypeAlias = Annotated[
    RandomRequestSource | DatasetRequestSource, Field(discriminator="kind")
]


class BenchDatasetPreparationRequest(WireModel):
    """Asks for a population to be made from a dataset, before any case runs."""

    protocol_version: ProtocolVersion
    model: MeasurementModelInput
    request_source: BenchRequestSourceInput
    source_path: str
    required_entries: U32
    seed: U64
    request_body: dict[str, SettingValue] = {}
    artifact_dir: str


class EvalClientRequest(WireModel):
    """One evaluation for the eval client to run."""

    protocol_version: ProtocolVersion
    workspace_root: str
    workspace_source_exclusions: list[str]
    endpoint: ClientEndpointInput
    model: MeasurementModelInput
    definition: EvalDefinitionInput
    case_budget_seconds: F64
    artifact_dir: str


class BenchDefinitionInput(WireModel):
    """What all cases of a benchmark have in common."""

    request_source: BenchRequestSourceInput
    seed: U64
    request_body: dict[str, SettingValue] = {}
    request_slo: BenchRequestSloInput | None = None
    timeout_seconds: U64
    reset_prefix_cache: bool = False


class BenchClientRequest(WireModel):
    """One load case for the bench client to run."""

    protocol_version: ProtocolVersion
    endpoint: ClientEndpointInput
    model: MeasurementModelInput
    definition: BenchDefinitionInput
    population: BenchPopulationInput | None = None
    case: BenchCaseInput
    case_budget_seconds: F64
    artifact_dir: str


class AdapterProtocol(WireModel):
    """All messages in one object. Nothing sends it whole: it is the root the schema hangs from."""

    request: AdapterRequest
    response: AdapterResponse
    eval_client_request: EvalClientRequest | None = None
    eval_client_result: EvalClientResult | None = None
    bench_client_request: BenchClientRequest | None = None
    bench_client_result: BenchClientResult | None = None
    bench_dataset_preparation_request: BenchDatasetPreparationRequest | None = None
    bench_dataset_preparation_result: BenchDatasetPreparationResult | None = None


Model: TypeAlias = AdapterProtocol
