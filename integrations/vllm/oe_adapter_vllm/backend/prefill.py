"""A prefill at vLLM, which ends with a KV session in place of tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from inferlab_adapters.openengine.engine import EngineFault, Event, PrefillDone
from oe_adapter_vllm.backend.connector import VllmConnector
from oe_adapter_vllm.backend.events import Outputs
from oe_adapter_vllm.backend.http import Http
from oe_adapter_vllm.backend.stream import Whole


class Prefill(Whole):
    """A request that ends with a session."""

    def __init__(
        self,
        http: Http,
        body: dict[str, Any],
        headers: Mapping[str, str],
        outputs: Outputs,
        connector: VllmConnector,
        token_ids: Sequence[int],
    ) -> None:
        super().__init__(http, body, headers, outputs)
        self._connector = connector
        self._token_ids = token_ids

    async def __aiter__(self) -> AsyncIterator[Event]:
        answer = await self.answer()
        self._outputs.count_unseen(answer.usage)
        if any(choice.finish_reason == "abort" for choice in answer.choices):
            raise EngineFault("cancelled", "vLLM aborted the request")
        session = await self._connector.session(
            self.request,
            self._token_ids,
            self._body["kv_transfer_params"],
            answer.kv_transfer_params,
        )
        yield PrefillDone(session)
