"""How a vLLM server takes part in prefill and decode: its connector, and sessions through it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from inferlab_adapters.openengine.engine import (
    Connector,
    Endpoint,
    EngineFault,
    GenerateRequest,
    KvSession,
    Role,
)
from oe_adapter_vllm.backend.arguments import EngineArguments
from oe_adapter_vllm.backend.http import Http
from oe_adapter_vllm.backend.kv_params import MOONCAKE, NIXL, WILDCARDS, Transfer
from oe_adapter_vllm.backend.metrics import Metrics
from oe_adapter_vllm.backend.transfer import decode_parameters, open_session, prompt_digest

_TRANSFERS: Mapping[str, Transfer] = {"NixlConnector": NIXL, "MooncakeConnector": MOONCAKE}
_NIXL_LEASE = 30.0
"""nixl/base_scheduler.py, kv_lease_duration, in seconds."""
_MOONCAKE_LEASE = 480.0
"""envs.py, VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT, in seconds."""
_PREFILL = {"do_remote_decode": True, "do_remote_prefill": False}


class _Engine(msgspec.Struct):
    engine_id: str


class VllmConnector:
    """The connector of one server, as its command line and its environment say.

    Without a command line, NIXL is known by its measures (:meth:`recognize`).
    """

    def __init__(
        self, url: str, arguments: EngineArguments, environment: Mapping[str, str]
    ) -> None:
        self._host = urlsplit(url).hostname or ""
        self._environment = environment
        self._known = arguments.known
        self._config = arguments.mapping("kv_transfer_config")
        self.transfer = _TRANSFERS.get(str(self._config.get("kv_connector", "")))

    def recognize(self, metrics: Metrics) -> None:
        """Learn the connector of an engine whose command line nobody told."""
        if not self._known and metrics.measures("vllm:nixl_xfer_time_seconds"):
            self.transfer = NIXL

    def described(self, role: Role) -> Connector | None:
        """What a client learns; ``None`` without a connector."""
        if self.transfer is None:
            return None
        local = self._local(role)
        return Connector(
            transfer_backend=self.transfer.backend,
            local_endpoints=(local,) if local is not None else (),
            supported_protocols=(self.transfer.backend,),
            remote_prefill=role is Role.DECODE,
            decode_pull=True,
            # Only the end of their lease frees the blocks of a prefill nobody fetches.
            abort_cleanup=False,
        )

    def needed(self) -> Transfer:
        """The connector, or ``failed_precondition``."""
        if self.transfer is None:
            what = "vLLM runs without a KV connector that is known here (NixlConnector or"
            raise EngineFault("failed_precondition", f"{what} MooncakeConnector)")
        return self.transfer

    def prefill_parameters(self) -> dict[str, Any]:
        """What a prefill is asked with."""
        if self.needed() is MOONCAKE:
            # Whoever drives the pair names the transfer.
            return {**_PREFILL, "transfer_id": uuid4().hex}
        return dict(_PREFILL)

    async def session(
        self,
        request: GenerateRequest,
        token_ids: Sequence[int],
        asked: Mapping[str, Any],
        answered: Mapping[str, Any] | None,
    ) -> KvSession:
        """The session of a finished prefill that was asked with ``asked``."""
        transfer = self.needed()
        dp_rank = request.dp_rank or 0
        parameters = answered
        if transfer is MOONCAKE:
            parameters = await self._mooncake(str(asked["transfer_id"]), dp_rank)
        ends_at = time.time() + self._lease()
        digest = prompt_digest(token_ids, request.lora_name)
        return open_session(transfer, parameters, digest, dp_rank, ends_at)

    def decode_parameters(
        self, session: KvSession, token_ids: Sequence[int], lora_name: str
    ) -> dict[str, Any]:
        """A session's parameters for this server, checked."""
        return decode_parameters(self.needed(), session, prompt_digest(token_ids, lora_name))

    def _lease(self) -> float:
        if self.transfer is MOONCAKE:
            text = self._environment.get("VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", "")
            return float(text) if text.isdigit() else _MOONCAKE_LEASE
        extra = self._config.get("kv_connector_extra_config")
        lease = extra.get("kv_lease_duration") if isinstance(extra, Mapping) else None
        if isinstance(lease, bool) or not isinstance(lease, int | float):
            return _NIXL_LEASE
        return float(lease)

    def _local(self, role: Role) -> Endpoint | None:
        if self.transfer is NIXL:
            host = self._environment.get("VLLM_NIXL_SIDE_CHANNEL_HOST", "")
            port = self._environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT", "")
        elif role is Role.PREFILL:
            host, port = self._bootstrap()
        else:
            return None
        if host in WILDCARDS or not port.isdigit():
            return None
        assert self.transfer is not None
        return Endpoint(host=host, port=int(port), protocol=self.transfer.backend)

    def _bootstrap(self) -> tuple[str, str]:
        host = self._environment.get("VLLM_HOST_IP") or self._host
        return host, self._environment.get("VLLM_MOONCAKE_BOOTSTRAP_PORT", "8998")

    async def _mooncake(self, transfer_id: str, dp_rank: int) -> dict[str, Any]:
        """Read, not run: the bootstrap server tells the ids of the engines by their ranks."""
        host, port = self._bootstrap()
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        http = Http(address)
        try:
            engines = msgspec.json.decode(await http.get("/query"), type=dict[str, _Engine])
        except msgspec.MsgspecError as error:
            what = f"Mooncake's bootstrap server at {address} answers in another shape: {error}"
            raise EngineFault("kv_transfer_failed", what) from error
        finally:
            await http.close()
        if str(dp_rank) not in engines:
            what = f"Mooncake's bootstrap server at {address} knows no engine of rank {dp_rank}"
            raise EngineFault("kv_transfer_failed", what)
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "transfer_id": transfer_id,
            "remote_engine_id": engines[str(dp_rank)].engine_id,
            "remote_bootstrap_addr": address,
        }
