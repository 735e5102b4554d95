"""What the server needs of an engine, in words of no revision and no engine.

A backend is an :class:`Engine`. The server checks a request against what the backend describes,
asks it to :meth:`~Engine.accept` the request, and turns the events that follow into the messages
of the revision that the client speaks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

Code = Literal[
    "invalid_argument",
    "unsupported_feature",
    "role_mismatch",
    "model_not_found",
    "overloaded",
    "request_not_found",
    "duplicate_request",
    "kv_session_not_found",
    "kv_transfer_failed",
    "cancelled",
    "draining",
    "internal",
    "not_ready",
    "already_exists",
    "not_found",
    "failed_precondition",
    "unimplemented",
]
"""Why something is refused or failed; each revision has its own numbers for them."""


class EngineFault(Exception):
    """A refusal before acceptance, or a failure after it.

    ``retryable``: the unchanged request may succeed later. ``retry_after_ms`` only beside it.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        retryable: bool = False,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code: Code = code
        self.message = message
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms


class Role(Enum):
    """What a server does with a request."""

    AGGREGATED = "aggregated"
    PREFILL = "prefill"
    DECODE = "decode"


# -- a request -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How tokens are drawn; ``None`` leaves it to the engine's default for the model."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    num_sequences: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Stopping:
    """When an output ends. Counts are tokens of one output."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    stop_texts: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_in_output: bool = False


SelectionMode = Literal["top_n", "token_ids", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which candidates are reported beside each token: the best n, some by id, or all."""

    mode: SelectionMode
    top_n: int = 0
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Returned:
    """What is reported beside the tokens. ``prompt_start``: the first prompt position wanted."""

    prompt_logprobs: bool = False
    prompt_candidates: Selection | None = None
    prompt_start: int = 0
    output_logprobs: bool = False
    output_candidates: Selection | None = None


GuideMode = Literal[
    "json_schema", "regex", "ebnf_grammar", "structural_tag", "choice", "json_object"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Guide:
    """What the output must be. ``text`` of all modes but choice and json_object."""

    mode: GuideMode
    text: str = ""
    choices: tuple[str, ...] = ()
    backend: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where something can be reached; never a wildcard."""

    host: str
    port: int
    protocol: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KvSession:
    """A KV cache that a prefill server keeps for a decode server.

    ``attributes`` is plain JSON data; integers above 2**53 travel as strings.
    """

    session_id: str
    transfer_backend: str
    endpoints: tuple[Endpoint, ...] = ()
    dp_rank: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)


MediaSource = Literal["url", "data_uri", "raw_bytes"]
Modality = Literal["image", "video", "audio"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Media:
    """One input that is not text; ``data`` as its source says."""

    modality: Modality
    source: MediaSource
    data: str | bytes
    mime_type: str = ""
    uuid: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateRequest:
    """A checked request. Just one of ``prompt`` and ``token_ids`` is given.

    ``priority``: larger runs sooner. ``trace``: traceparent and tracestate, to be passed on.
    ``prefill_only``: a prefill server was asked; it ends with :class:`PrefillDone`.
    """

    request_id: str
    model: str
    prompt: str | None
    token_ids: Sequence[int] | None
    sampling: Sampling = field(default_factory=Sampling)
    stopping: Stopping = field(default_factory=Stopping)
    returned: Returned = field(default_factory=Returned)
    guide: Guide | None = None
    media: tuple[Media, ...] = ()
    lora_name: str = ""
    priority: int | None = None
    session: KvSession | None = None
    dp_rank: int | None = None
    bypass_prefix_cache: bool = False
    cache_salt: str | None = None
    prefill_only: bool = False
    trace: Mapping[str, str] = field(default_factory=dict)


# -- what comes back -------------------------------------------------------------------------
# Named tuples: thousands are made a second.


class Candidate(NamedTuple):
    """A token that could have stood there. ``rank`` counts from 1."""

    token_id: int
    logprob: float
    text: str = ""
    rank: int | None = None


class TokenDetail(NamedTuple):
    """A token with all that was asked for about it."""

    token_id: int
    text: str = ""
    logprob: float | None = None
    rank: int | None = None
    candidates: tuple[Candidate, ...] = ()


class PromptEvent(NamedTuple):
    """The prompt's tokens, from ``prompt_start`` on; at most once and first."""

    tokens: Sequence[TokenDetail]


class TokenEvent(NamedTuple):
    """New tokens and new text of one output. ``details`` where logprobs were asked for."""

    output: int
    token_ids: Sequence[int]
    text: str
    details: Sequence[TokenDetail] | None = None


class StopMatch(NamedTuple):
    """What ended an output: a stop token, a stop text or the model's end token."""

    kind: Literal["token", "text", "eos"]
    token_id: int = 0
    text: str = ""


class FinishedEvent(NamedTuple):
    """The end of one output."""

    output: int
    reason: Literal["stop", "length", "cancelled"]
    stop: StopMatch | None = None
    message: str = ""


class PrefillDone(NamedTuple):
    """The end of a prefill: decode may attach."""

    session: KvSession


class Usage(NamedTuple):
    """Token counts over all outputs, so far. ``None`` is unknown."""

    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int | None = None
    reasoning_tokens: int | None = None


Event: TypeAlias = PromptEvent | TokenEvent | FinishedEvent | PrefillDone


class Generation(Protocol):
    """A request that the engine has accepted and works on.

    Iterating yields its events; it raises :class:`EngineFault` where the engine fails. ``usage``
    is complete once the last event came, and as far as known before. ``close`` ends the engine's
    work, whatever its state, and may be called twice.
    """

    def __aiter__(self) -> AsyncIterator[Event]: ...
    @property
    def usage(self) -> Usage: ...
    async def close(self) -> None: ...


# -- what an engine can do -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class LogprobAbility:
    """Whether logprobs can be had, with which selections, and how many at most."""

    supported: bool
    selections: tuple[SelectionMode, ...] = ()
    max_top_n: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Abilities:
    """What the model's server does for a request; what is not here is refused."""

    text_input: bool = True
    token_ids_input: bool = True
    prompt_logprobs: LogprobAbility = LogprobAbility(supported=False)
    output_logprobs: LogprobAbility = LogprobAbility(supported=False)
    guides: tuple[GuideMode, ...] = ()
    max_num_sequences: int | None = None
    priority: bool = False
    stop_in_output: bool = False
    cache_salt: bool = False
    prefix_cache_bypass: bool = False
    lora: bool = False
    multimodal: bool = False
    dp_rank_choice: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Parallelism:
    """How the engine is spread; ``None`` is unknown."""

    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    data_rank: int | None = None
    data_start_rank: int | None = None
    decode_context: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Connector:
    """How KV caches go from prefill to decode; ``None`` of a server that takes no part."""

    transfer_backend: str
    local_endpoints: tuple[Endpoint, ...] = ()
    supported_protocols: tuple[str, ...] = ()
    remote_prefill: bool | None = None
    decode_pull: bool | None = None
    abort_cleanup: bool | None = None
    drain: bool | None = None
    schema_version: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """One model as served. ``vocabulary``: ids below it are legal."""

    model_id: str
    served_name: str
    aliases: tuple[str, ...] = ()
    max_context_length: int | None = None
    max_output_tokens: int | None = None
    vocabulary: int | None = None
    tokenizer_modes: tuple[str, ...] = ()
    reasoning_parser: str = ""
    tool_call_parser: str = ""
    abilities: Abilities = field(default_factory=Abilities)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name under which requests may ask for it."""
        return tuple(dict.fromkeys((self.served_name, *self.aliases)))


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineFacts:
    """What is known once the engine is up. ``None`` is unknown."""

    engine_name: str
    engine_version: str
    models: tuple[ModelFacts, ...]
    parallelism: Parallelism = field(default_factory=Parallelism)
    connector: Connector | None = None
    kv_block_size: int | None = None
    total_kv_blocks: int | None = None
    max_running_requests: int | None = None
    max_batched_tokens: int | None = None
    max_loras: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankLoad:
    """The load of one data parallel rank."""

    rank: int
    running: int | None = None
    queued: int | None = None
    used_kv_blocks: int | None = None
    total_kv_blocks: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """The load at this moment; ``None`` is not measured, 0 is none."""

    running: int | None = None
    queued: int | None = None
    used_kv_blocks: int | None = None
    total_kv_blocks: int | None = None
    running_tokens: int | None = None
    waiting_tokens: int | None = None
    ranks: tuple[RankLoad, ...] = ()
    attributes: Mapping[str, float | str] = field(default_factory=dict)


HealthState = Literal["starting", "ready", "degraded", "draining", "not_ready"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: HealthState
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lora:
    """An adapter; ``path`` is an absolute folder that the engine sees."""

    lora_id: int
    name: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KvEventSource:
    """Where an engine publishes its KV events itself."""

    transport: str
    endpoint: Endpoint
    topic: str = ""
    replay_endpoint: str = ""
    data_parallel_rank: int | None = None
    encoding: str = ""
    schema_version: int | None = None
    buffer_steps: int | None = None
    hwm: int | None = None
    max_queue_size: int | None = None


class BlockHash(NamedTuple):
    """The key of a KV block; ``encoding`` is int64, string, bytes or engine_specific."""

    value: bytes
    encoding: str


class BlocksStored(NamedTuple):
    """Blocks that are in the cache now."""

    hashes: Sequence[BlockHash]
    parent: BlockHash | None
    token_ids: Sequence[int]
    block_size: int
    lora_id: int | None = None
    lora_name: str = ""
    medium: Literal["gpu", "cpu_pinned", "disk", "external", ""] = ""
    extra_keys: Sequence[Sequence[str]] = ()
    group: int = 0
    spec_kind: str = ""
    sliding_window: int = 0


class BlocksRemoved(NamedTuple):
    """Blocks that are there no more."""

    hashes: Sequence[BlockHash]
    medium: Literal["gpu", "cpu_pinned", "disk", "external", ""] = ""
    group: int = 0


class BlocksCleared(NamedTuple):
    """No block is there any more."""


KvEvent: TypeAlias = BlocksStored | BlocksRemoved | BlocksCleared


class KvBatch(NamedTuple):
    """Events of one rank; ``sequence`` rises strictly."""

    sequence: int
    timestamp_ns: int
    rank: int
    events: Sequence[KvEvent]


class Engine(Protocol):
    """One engine behind the server.

    Every method raises :class:`EngineFault`; one that the engine has not, with ``unimplemented``
    (LoRA methods of an engine without LoRA: ``failed_precondition``).
    """

    role: Role

    async def facts(self) -> EngineFacts:
        """What it is; raises ``not_ready`` while it loads. Read once it is up, then remembered."""
        ...

    async def checks(self, probe: bool) -> Sequence[Check]:
        """Its health, with a tiny inference where ``probe``; never raises."""
        ...

    async def accept(self, request: GenerateRequest) -> Generation:
        """Begin to work on a request, or refuse it; the engine has checked it when this returns."""
        ...

    async def abort_session(self, session: KvSession) -> None:
        """Free what a session holds here; ``kv_session_not_found`` where it holds nothing."""
        ...

    async def load(self, per_rank: bool) -> Load:
        """The load at this moment."""
        ...

    async def open_sessions(self) -> int | None:
        """How many KV sessions wait for their decode; ``None`` if unknown."""
        ...

    async def list_loras(self) -> Mapping[str, str]:
        """The adapters that it has now, whoever loaded them: name to folder."""
        ...

    async def load_lora(self, lora: Lora) -> None:
        """Make an adapter usable."""
        ...

    async def unload_lora(self, lora: Lora) -> None:
        """Make it unusable."""
        ...

    async def kv_event_sources(self) -> Sequence[KvEventSource]:
        """Where it publishes KV events."""
        ...

    def kv_events(
        self, ranks: Sequence[int], *, start: int, snapshot: bool
    ) -> AsyncIterator[KvBatch]:
        """Its KV events of these ranks (all, if empty), from sequence ``start`` on."""
        ...

    async def close(self) -> None:
        """Let go of its connections."""
        ...
