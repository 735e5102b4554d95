"""What is told about the engine, its models and its load, in either revision."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from inferlab_adapters.addresses import host_problem
from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.engine import (
    Abilities,
    Connector,
    EngineFacts,
    KvEventSource,
    Load,
    LogprobAbility,
    Parallelism,
)
from inferlab_adapters.openengine.errors import invalid
from inferlab_adapters.openengine.messages import STRUCT
from inferlab_adapters.openengine.requests import find_model
from inferlab_adapters.openengine.revisions import Revision
from inferlab_adapters.openengine.state import ServerState


def put(message: Any, **values: Any) -> None:
    """Set the fields that are known and that the message's revision has."""
    for name, value in values.items():
        if value is not None and name in message.DESCRIPTOR.fields_by_name:
            setattr(message, name, value)


class Discovery:
    """Makes the messages of one revision."""

    def __init__(self, state: ServerState, revision: Revision) -> None:
        self._state = state
        self._revision = revision

    def _value(self, enum: str, prefix: str, name: str) -> int:
        return self._revision.enum(enum).Value(f"{prefix}_{name.upper()}")

    def fill_identity(self, message: Any, facts: EngineFacts, role_field: str) -> None:
        """What EngineInfo and ServerInfo have alike."""
        put(
            message,
            engine_name=facts.engine_name,
            engine_version=facts.engine_version,
            instance_id=self._state.instance_id,
            schema_revision=self._revision.schema_revision,
            minimum_client_revision=self._revision.minimum_client_revision,
            schema_release=self._revision.schema_release,
        )
        role = self._value("EngineRole", "ENGINE_ROLE", self._state.role.value)
        setattr(message, role_field, role)
        message.supported_models.extend(model.served_name for model in facts.models)
        _fill_parallelism(message.parallelism, facts.parallelism)
        fill_connector(message.kv_connector, facts.connector)

    async def model_info(self, name: str) -> Any:
        """ModelInfo of a model or alias. Raises ``invalid_argument`` or ``model_not_found``."""
        facts = await self._state.facts()
        model = find_model(name, facts)
        message = self._revision.message("ModelInfo")()
        put(
            message,
            model_id=model.model_id,
            served_model_name=model.served_name,
            max_context_length=model.max_context_length,
            max_output_tokens=model.max_output_tokens,
            supports_text_input=model.abilities.text_input,
            supports_token_ids_input=model.abilities.token_ids_input,
            supports_lora=model.abilities.lora,
            supports_multimodal=model.abilities.multimodal,
            reasoning_parser=model.reasoning_parser,
            tool_call_parser=model.tool_call_parser,
            **capacity(facts),
        )
        message.served_model_aliases.extend(model.aliases)
        message.tokenizer_modes.extend(model.tokenizer_modes)
        self._fill_generation(message.generation, model.abilities)
        return message

    def _fill_generation(self, message: Any, abilities: Abilities) -> None:
        self._fill_logprobs(message.prompt_logprobs, abilities.prompt_logprobs)
        self._fill_logprobs(message.output_logprobs, abilities.output_logprobs)
        message.guided_decoding.supported = bool(abilities.guides)
        message.guided_decoding.modes.extend(
            self._value("GuidedDecodingMode", "GUIDED_DECODING_MODE", mode)
            for mode in abilities.guides
        )
        put(
            message,
            max_num_sequences=abilities.max_num_sequences,
            supports_priority=abilities.priority,
            supports_stop_in_output=abilities.stop_in_output,
            supports_cache_salt=abilities.cache_salt,
            supports_prefix_cache_bypass=abilities.prefix_cache_bypass,
        )

    def _fill_logprobs(self, message: Any, ability: LogprobAbility) -> None:
        message.supported = ability.supported
        message.candidate_selection_modes.extend(
            self._value("CandidateTokenSelectionMode", "CANDIDATE_TOKEN_SELECTION_MODE", mode)
            for mode in ability.selections
        )
        put(message, max_top_n=ability.max_top_n)

    async def load_info(self, per_rank: bool) -> Any:
        """LoadInfo at this moment."""
        self._state.check_up()
        load: Load = await self._state.engine.load(per_rank)
        message = self._revision.message("LoadInfo")()
        put(
            message,
            instance_id=self._state.instance_id,
            timestamp_unix_nanos=time.time_ns(),
            running_requests=load.running,
            queued_requests=load.queued,
            active_kv_sessions=await self._state.open_sessions(),
            used_kv_blocks=load.used_kv_blocks,
            total_kv_blocks=load.total_kv_blocks,
            running_tokens=load.running_tokens,
            waiting_tokens=load.waiting_tokens,
        )
        for rank in load.ranks if per_rank else ():
            put(
                message.ranks.add(),
                data_parallel_rank=rank.rank,
                running_requests=rank.running,
                queued_requests=rank.queued,
                used_kv_blocks=rank.used_kv_blocks,
                total_kv_blocks=rank.total_kv_blocks,
            )
        _fill_attributes(message, load.attributes)
        return message

    async def event_sources(self, ranks: Sequence[int]) -> Any:
        """GetKvEventSourcesResponse, of these ranks or of all, without those nobody can reach."""
        check_ranks(ranks, await self._state.facts())
        message = self._revision.message("GetKvEventSourcesResponse")()
        for source in await self._state.engine.kv_event_sources():
            reachable = host_problem(source.endpoint.host) is None
            if reachable and (not ranks or source.data_parallel_rank in ranks):
                _fill_source(message.sources.add(), source)
        return message


def check_ranks(ranks: Sequence[int], facts: EngineFacts) -> None:
    """Refuse ranks that the engine has not, where that is known."""
    size, first = facts.parallelism.data, facts.parallelism.data_start_rank or 0
    for rank in ranks:
        if size is not None and not first <= rank < first + size:
            what = f"must be from {first} to {first + size - 1} ({rank})"
            raise invalid(f"data_parallel_ranks: {what}")


def capacity(facts: EngineFacts) -> Mapping[str, int | None]:
    """The limits of the deployment, by the names that both revisions give them."""
    return {
        "kv_block_size": facts.kv_block_size,
        "total_kv_blocks": facts.total_kv_blocks,
        "max_running_requests": facts.max_running_requests,
        "max_batched_tokens": facts.max_batched_tokens,
        "max_loras": facts.max_loras,
    }


def fill_connector(message: Any, connector: Connector | None) -> None:
    """KvConnectorInfo; of a server that takes no part it says just that."""
    message.enabled = connector is not None
    if connector is None:
        return
    put(
        message,
        transfer_backend=connector.transfer_backend,
        supports_remote_prefill=connector.remote_prefill,
        supports_decode_pull=connector.decode_pull,
        supports_abort_cleanup=connector.abort_cleanup,
        supports_drain=connector.drain,
        schema_version=connector.schema_version,
    )
    for endpoint in connector.local_endpoints:
        message.local_endpoints.add(
            host=endpoint.host, port=endpoint.port, protocol=endpoint.protocol
        )
    message.supported_protocols.extend(connector.supported_protocols)


def _fill_parallelism(message: Any, parallelism: Parallelism) -> None:
    message.SetInParent()
    put(
        message,
        tensor_parallel_size=parallelism.tensor,
        pipeline_parallel_size=parallelism.pipeline,
        data_parallel_size=parallelism.data,
        data_parallel_rank=parallelism.data_rank,
        data_parallel_start_rank=parallelism.data_start_rank,
        decode_context_parallel_size=parallelism.decode_context,
    )


def _fill_attributes(message: Any, attributes: Mapping[str, float | str]) -> None:
    """A map of strings in the seed revision, a Struct in v0.1.0."""
    if not attributes:
        return
    if message.DESCRIPTOR.fields_by_name["attributes"].message_type.full_name == STRUCT:
        structs.fill(message.attributes, attributes)
    else:
        message.attributes.update({name: f"{value}" for name, value in attributes.items()})


def _fill_source(message: Any, source: KvEventSource) -> None:
    put(
        message,
        transport=source.transport,
        topic=source.topic,
        replay_endpoint=source.replay_endpoint,
        data_parallel_rank=source.data_parallel_rank,
        encoding=source.encoding,
        schema_version=source.schema_version,
        buffer_steps=source.buffer_steps,
        hwm=source.hwm,
        max_queue_size=source.max_queue_size,
    )
    put(
        message.endpoint_addr,
        host=source.endpoint.host,
        port=source.endpoint.port,
        protocol=source.endpoint.protocol,
    )
