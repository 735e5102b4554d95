"""KV transfer between prefill and decode: what the LLM API options of either role must say.

The peers meet in band: NIXL chooses its ports and hands its addresses over with the request.
Source: tensorrt_llm/_torch/pyexecutor/kv_cache_transceiver.py and CacheTransceiverConfig in
tensorrt_llm/llmapi/llm_args.py, 1.2.1 to 1.4.0rc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from inferlab_adapters.deployment import Mechanism, Scope
from inferlab_adapters.protocol import KvTransferMechanism, ServeRoleKind

KeyPath: TypeAlias = tuple[str, ...]

MECHANISMS: dict[KvTransferMechanism, Mechanism] = {
    "nixl": Mechanism(builtin="trtllm", link=None, port=None),
}

TRANSCEIVER = "cache_transceiver_config"
RUNTIME: KeyPath = (TRANSCEIVER, "transceiver_runtime")

AGREED: Mapping[KeyPath, Any] = {
    RUNTIME: None,
    ("kv_cache_config", "tokens_per_block"): 32,
    ("kv_cache_config", "dtype"): "auto",
}
"""Keys that both roles must hold alike, with what the engine takes where there is none."""

# The value is case-sensitive in every version, and without it disaggregation is off.
_BOTH: dict[KeyPath, tuple[Any, str]] = {
    (TRANSCEIVER, "backend"): ("NIXL", "kv_transfer of the request is nixl"),
    ("kv_cache_config", "enable_block_reuse"): (
        False,
        "no reset of the prefix cache can be offered, so it stays off with prefill and decode",
    ),
}
# Up to 1.2 the engine refuses requests for the context alone while overlap is on.
_PREFILL: dict[KeyPath, tuple[Any, str]] = {
    ("disable_overlap_scheduler",): (True, "prefill serves the context alone"),
}


def required(scope: Scope, kind: ServeRoleKind) -> Mapping[KeyPath, tuple[Any, str]]:
    """The values that a role must have, each with the reason."""
    if scope.mechanism is None:
        return {}
    return {**_BOTH, **_PREFILL} if kind == "prefill" else _BOTH
