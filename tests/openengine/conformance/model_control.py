"""Everything of the model server but inference."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.openengine.conformance.model_generate import BACKEND, BLOCK, Generating, now
from tests.openengine.conformance.model_requests import (
    MAX_SEQUENCES,
    MAX_TOP_N,
    NAMES,
    bad,
    check_model,
)
from tests.openengine.conformance.model_server import Data, Refusal

Metadata = Mapping[str, list[str]]

_MODES = ("TOP_N", "TOKEN_IDS", "ALL")
_GUIDES = ("JSON_SCHEMA", "REGEX", "CHOICE", "JSON_OBJECT")
_TICK_SECONDS = 0.005


class Controlling(Generating):
    """Discovery, health, load, aborts, drains, adapters, KV events."""

    seed = True
    with_lora = True

    def info(self) -> Data:
        role = f"ENGINE_ROLE_{self.role.upper()}"
        data: Data = {
            "engine_name": "model",
            "engine_version": "1",
            "instance_id": "instance-1",
            "supported_models": [NAMES[0]],
            "parallelism": {"tensor_parallel_size": 1, "data_parallel_size": 1},
            "schema_revision": 1,
            "minimum_client_revision": 1,
            "schema_release": "d0f29fec31f31db5cfd49cf3e0f67da84d10c709",
        }
        if self.role != "aggregated":
            data["kv_connector"] = {
                "enabled": True,
                "transfer_backend": BACKEND,
                "supports_abort_cleanup": True,
            }
        if self.seed:
            return {**data, "role": role}
        data["parallelism"]["decode_context_parallel_size"] = 1
        return {**data, "engine_role": role, "capacity": {**self.capacity(), "max_loras": 2}}

    def capacity(self) -> Data:
        return {"kv_block_size": BLOCK, "total_kv_blocks": 1000, "max_running_requests": 64}

    async def GetEngineInfo(self, request: Any, metadata: Metadata) -> Data:
        return self.info()

    async def GetServerInfo(self, request: Any, metadata: Metadata) -> Data:
        return self.info()

    async def GetKvConnectorInfo(self, request: Any, metadata: Metadata) -> Data:
        connector: Data = self.info().get("kv_connector", {"enabled": False})
        return connector

    async def GetModelInfo(self, request: Any, metadata: Metadata) -> Data:
        check_model(request.model)
        modes = [f"CANDIDATE_TOKEN_SELECTION_MODE_{mode}" for mode in _MODES]
        logprobs = {
            "supported": True,
            "candidate_selection_modes": modes,
            "max_top_n": MAX_TOP_N,
        }
        guides = [f"GUIDED_DECODING_MODE_{mode}" for mode in _GUIDES]
        return {
            "model_id": "org/model-a",
            "served_model_name": NAMES[0],
            "served_model_aliases": list(NAMES[1:]),
            "max_context_length": 1024,
            "supports_text_input": True,
            "supports_token_ids_input": True,
            "supports_lora": self.with_lora,
            "supports_multimodal": False,
            "generation": {
                "prompt_logprobs": logprobs,
                "output_logprobs": logprobs,
                "guided_decoding": {"supported": True, "modes": guides},
                "max_num_sequences": MAX_SEQUENCES,
                "supports_priority": self.seed,
                "supports_stop_in_output": True,
                "supports_cache_salt": "cache_salt" not in self.lacks,
                "supports_prefix_cache_bypass": True,
            },
            **({**self.capacity(), "tasks": self.tasks()} if self.seed else {}),
        }

    def tasks(self) -> Data | None:
        return None

    async def GetLoad(self, request: Any, metadata: Metadata) -> Data:
        rank = {"data_parallel_rank": 0, "running_requests": len(self.running)}
        return {
            "instance_id": "instance-1",
            "running_requests": len(self.running),
            "queued_requests": 0,
            "active_kv_sessions": len(self.sessions),
            "used_kv_blocks": sum(map(len, self.cached.values())),
            "total_kv_blocks": 1000,
            "ranks": [rank] if request.include_per_rank else [],
            "attributes": {"steps": "1" if self.seed else 1},
        }

    async def Health(self, request: Any, metadata: Metadata) -> Data:
        state = "DRAINING" if self.draining else "READY"
        checks = [{"name": "grpc", "state": "HEALTH_STATE_READY"}]
        if request.include_inference_probe:
            checks.append({"name": "inference_probe", "state": "HEALTH_STATE_READY"})
            number = ("aggregated", "prefill", "decode").index(self.role) + 1
            if request.model not in ("", *NAMES) or request.role not in (0, number):
                state = "NOT_READY"
        return {"state": f"HEALTH_STATE_{state}", "checks": checks}

    async def Abort(self, request: Any, metadata: Metadata) -> Data:
        target = request.WhichOneof("target")
        if target is None:
            raise bad("target: must be set")
        if target == "kv_session":
            if request.kv_session.session_id not in self.sessions:
                raise Refusal("NOT_FOUND", "kv_session: is unknown")
            self.sessions.discard(request.kv_session.session_id)
        elif target == "all_requests":
            for aborted in self.running.values():
                aborted.set()
        elif request.request_id in self.running:
            self.running[request.request_id].set()
        elif request.request_id in self.finished:
            return {"status": "ABORT_STATUS_ALREADY_FINISHED"}
        else:
            raise Refusal("NOT_FOUND", "request_id: is unknown")
        return {"status": "ABORT_STATUS_ABORTED"}

    async def Drain(self, request: Any, metadata: Metadata) -> AsyncIterator[Data]:
        self.draining = self.draining or request.stop_accepting_new_requests
        yield self._drained("STARTED")
        until = asyncio.get_running_loop().time() + request.deadline_ms / 1000
        while self.running:
            late = asyncio.get_running_loop().time() >= until
            if request.HasField("deadline_ms") and late:
                if not request.abort_after_deadline:
                    break
                for aborted in self.running.values():
                    aborted.set()
            await asyncio.sleep(_TICK_SECONDS)
        yield self._drained("IN_PROGRESS")
        yield self._drained("COMPLETE")

    def _drained(self, state: str) -> Data:
        return {"state": f"DRAIN_STATE_{state}", "in_flight_requests": len(self.running)}

    def _need_lora(self) -> None:
        if not self.with_lora:
            raise Refusal("FAILED_PRECONDITION", "there are no adapters here")

    async def ListLoras(self, request: Any, metadata: Metadata) -> Data:
        self._need_lora()
        return {"adapters": list(self.loras.values())}

    async def LoadLora(self, request: Any, metadata: Metadata) -> Data:
        self._need_lora()
        asked = request.adapter
        if asked.lora_id <= 0 or not asked.lora_name or not asked.source_path.startswith("/"):
            raise bad("adapter: is incomplete")
        data = {
            "lora_id": asked.lora_id,
            "lora_name": asked.lora_name,
            "source_path": asked.source_path,
        }
        same = [old for old in self.loras.values() if any(old[k] == data[k] for k in data)]
        if same and same != [data]:
            raise Refusal("ALREADY_EXISTS", "adapter: clashes")
        self.loras[asked.lora_name] = data
        return {"adapter": data, "already_loaded": bool(same)}

    async def UnloadLora(self, request: Any, metadata: Metadata) -> Data:
        self._need_lora()
        if request.lora_name not in self.loras:
            raise Refusal("NOT_FOUND", "lora_name: is unknown")
        return {"adapter": self.loras.pop(request.lora_name)}

    async def GetKvEventSources(self, request: Any, metadata: Metadata) -> Data:
        source = {
            "transport": "zmq",
            "endpoint_addr": {"host": "127.0.0.1", "port": 5557, "protocol": "tcp"},
        }
        asked = list(request.data_parallel_ranks) or [0, 1]
        ranks = [rank for rank in (0, 1) if rank in asked]
        return {"sources": [{**source, "data_parallel_rank": rank} for rank in ranks]}

    async def SubscribeKvEvents(self, request: Any, metadata: Metadata) -> AsyncIterator[Data]:
        start = request.start_sequence_number
        begin = max(start - 1, 0) if start or request.include_snapshot else len(self.batches)
        async for number, batch in self.follow(self.batches, begin):
            yield {
                "batch": {
                    "sequence_number": number,
                    "timestamp_unix_nanos": now(),
                    "data_parallel_rank": 0,
                    **batch,
                }
            }

    async def SubscribeRuntimeEvents(self, request: Any, metadata: Metadata) -> AsyncIterator[Data]:
        batch = 2
        async for number, event in self.follow(self.runtime, len(self.runtime)):
            if not request.types or batch in request.types:
                yield {
                    "runtime_event": {
                        "event_id": str(number),
                        "timestamp_unix_nanos": now(),
                        **event,
                    }
                }
