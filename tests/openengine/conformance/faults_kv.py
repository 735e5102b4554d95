"""Broken in sessions and KV events."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.openengine.conformance.faults import Fault, inside
from tests.openengine.conformance.model_server import Data
from tests.openengine.conformance.model_tasks import Model

_SEED = "seed"
_CONNECTOR = {"enabled": True, "transfer_backend": "another"}
_KV: Any = {"groups": ("kv_sources", "kv_events")}
_ROLE: Any = {"role": "prefill", "groups": ("discovery", "prefill", "decode")}


class _ForgetsSessions(Model):
    """A prefill server that never frees one."""

    def _events(self, request: Any, aborted: asyncio.Event) -> Any:
        self.leaked = getattr(self, "leaked", 0) + 1
        return super()._events(request, aborted)

    async def GetLoad(self, request: Any, metadata: Any) -> Data:
        data = await super().GetLoad(request, metadata)
        return {**data, "active_kv_sessions": getattr(self, "leaked", 0)}


def _batch(field: str, value: Any) -> Any:
    return lambda request, data: [inside(data, f"batch.{field}", value)]


def _session(field: str, value: Any) -> Any:
    path = f"prefill_ready.kv_session.{field}"
    return lambda request, data: [inside(data, path, value)]


def _all_sources(request: Any) -> None:
    request.ClearField("data_parallel_ranks")


def _no_snapshot(request: Any) -> None:
    request.include_snapshot = False


def _from_next(request: Any) -> None:
    if request.start_sequence_number:
        request.start_sequence_number += 1


def _orphans(request: Any, data: Data) -> list[Data]:
    stranger = {"value": b"stranger", "encoding": "bytes"}
    event = inside(data["batch"]["events"][0], "block_stored.parent_block_hash", stranger)
    return [inside(data, "batch.events", [event])]


FAULTS = [
    Fault(
        rule="K2",
        name="a wildcard",
        method="GetKvEventSources",
        **_KV,
        reply=lambda r, d: {
            "sources": [inside(one, "endpoint_addr.host", "0.0.0.0") for one in d["sources"]]
        },
    ),
    Fault(rule="K3", name="all ranks", method="GetKvEventSources", request=_all_sources, **_KV),
    Fault(
        rule="K5",
        name="one number",
        method="SubscribeKvEvents",
        **_KV,
        stream=_batch("sequence_number", 1),
    ),
    Fault(
        rule="K6",
        name="a later start",
        method="SubscribeKvEvents",
        request=_from_next,
        **_KV,
    ),
    Fault(
        rule="K7",
        name="no time",
        method="SubscribeKvEvents",
        **_KV,
        stream=_batch("timestamp_unix_nanos", 0),
    ),
    Fault(
        rule="K8",
        name="a strange parent",
        method="SubscribeKvEvents",
        stream=_orphans,
        **_KV,
    ),
    Fault(
        rule="K9",
        name="no snapshot",
        method="SubscribeKvEvents",
        request=_no_snapshot,
        **_KV,
    ),
    Fault(
        rule="K1",
        name="two connectors",
        method="GetKvConnectorInfo",
        revision=_SEED,
        reply=lambda r, d: _CONNECTOR,
        **_KV,
    ),
    Fault(
        rule="P1",
        name="tokens of a prefill",
        **_ROLE,
        stream=lambda r, d: [
            {"request_id": d["request_id"], "token": {"output_index": 0, "text": "a"}},
            d,
        ],
        related=frozenset({"I5"}),
    ),
    Fault(
        rule="P2",
        name="no session id",
        **_ROLE,
        stream=_session("session_id", ""),
        related=frozenset({"P3", "P7", "P10", "A7"}),
    ),
    Fault(
        rule="P7",
        name="sessions for ever",
        **_ROLE,
        model=_ForgetsSessions,
        related=frozenset({"A7"}),
    ),
    Fault(
        rule="P8",
        name="a number too large",
        **_ROLE,
        stream=_session("attributes_struct.number", 2.0**60),
    ),
    Fault(
        rule="P9",
        name="a wildcard",
        **_ROLE,
        stream=_session("endpoints", [{"host": "0.0.0.0", "port": 5600}]),
    ),
]
