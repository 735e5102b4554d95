"""What vLLM lists at ``/v1/models``: its model under each of its names, and LoRA adapters.

Source (vLLM 0.32.0): entrypoints/openai/models/serving.py, ``show_available_models``. Adapters are
the entries with a ``parent``; their ``root`` is their folder.
"""

from __future__ import annotations

import msgspec

from oe_adapter_vllm.backend.http import Http


class Model(msgspec.Struct):
    """One entry. ``parent``: of an adapter, the model that it belongs to."""

    id: str
    root: str | None = None
    parent: str | None = None
    max_model_len: int | None = None


class _Models(msgspec.Struct):
    data: list[Model]


async def listed(http: Http) -> tuple[list[Model], list[Model]]:
    """The model's own entries and those of the adapters, each in vLLM's order."""
    found = msgspec.json.decode(await http.get("/v1/models"), type=_Models).data
    return [m for m in found if not m.parent], [m for m in found if m.parent]
