"""vLLM's ``kv_transfer_params`` as KV sessions, and sessions as parameters that cannot hurt.

Seen with NIXL: parameters without the remote fields end the decode server, and so does a session
of a shorter prompt. A session that has run out (a prefill server keeps blocks for
``kv_lease_duration`` seconds, 30) is read all the same: wrong tokens, and no error. So a session
carries the digest of its prompt and its own end, and both are checked.
"""

from __future__ import annotations

import array
import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from inferlab_adapters.openengine.engine import EngineFault, KvSession
from oe_adapter_vllm.backend.kv_params import Odd, Transfer

_MARGIN_SECONDS = 2.0
"""A session ends this much before its blocks may go, for the way to the decode server."""

_VLLM = "vllm"
_PROMPT = "vllm_prompt"
_ENDS = "vllm_ends_at"


def open_session(
    transfer: Transfer,
    parameters: Mapping[str, Any] | None,
    prompt: str,
    dp_rank: int,
    ends_at: float,
) -> KvSession:
    """The session of a finished prefill of ``prompt``, a digest.

    ``ends_at``: when vLLM may give its blocks to others, in Unix seconds.

    Raises ``kv_transfer_failed`` where vLLM left no cache behind.
    """
    try:
        checked = transfer.check(parameters or {})
    except Odd as odd:
        what = f"vLLM finished the prefill but left no KV cache to fetch: {odd}"
        raise EngineFault("kv_transfer_failed", what) from odd
    return KvSession(
        session_id=uuid4().hex,
        transfer_backend=transfer.backend,
        endpoints=(transfer.locate(checked),),
        dp_rank=dp_rank,
        attributes={
            _VLLM: _exact(checked),
            _PROMPT: prompt,
            _ENDS: round(ends_at - _MARGIN_SECONDS, 3),
        },
    )


def decode_parameters(transfer: Transfer, session: KvSession, prompt: str) -> dict[str, Any]:
    """A session's parameters for a decode server that was asked for ``prompt``, a digest.

    Refuses all that vLLM would not survive: ``invalid_argument``, ``kv_session_not_found`` or
    ``kv_transfer_failed``.
    """
    if session.transfer_backend != transfer.backend:
        what = f"the session was made for {session.transfer_backend!r}, this server fetches by "
        raise EngineFault("kv_transfer_failed", what + repr(transfer.backend))
    attributes = session.attributes
    parameters = attributes.get(_VLLM)
    try:
        if not isinstance(parameters, Mapping):
            raise Odd("attributes hold no vLLM parameters")
        checked = transfer.check(parameters)
        ends = attributes.get(_ENDS)
        if isinstance(ends, bool) or not isinstance(ends, int | float):
            raise Odd(f"{_ENDS} must be a number, got {ends!r}")
        where = transfer.locate(checked)
        if not any((e.host, e.port) == (where.host, where.port) for e in session.endpoints):
            raise Odd(f"{where.host}:{where.port} is none of its endpoints")
    except Odd as odd:
        raise EngineFault(
            "invalid_argument", f"the KV session is not one of vLLM's: {odd}"
        ) from odd
    if ends <= time.time():
        raise EngineFault("kv_session_not_found", "the KV session has expired; prefill again")
    if attributes.get(_PROMPT) != prompt:
        raise EngineFault("invalid_argument", "the KV session belongs to another prompt")
    return checked


def prompt_digest(token_ids: Sequence[int], lora_name: str) -> str:
    """What a KV cache was computed from: the tokens and the adapter."""
    digest = hashlib.sha256(array.array("Q", token_ids).tobytes())
    digest.update(lora_name.encode())
    return digest.hexdigest()


_EXACT = 2**53


def _exact(value: Any) -> Any:
    """Integers that a double cannot hold, as strings; :func:`_whole` takes them back."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT else str(value)
    if isinstance(value, Mapping):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return value
