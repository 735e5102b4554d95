"""From events to the bytes of GenerateResponse messages.

The messages of a stream have the same fields in both revisions. Those with tokens and nothing
about them, which are nearly all, are written here byte by byte: with message objects, each token
would cost one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inferlab_adapters.openengine import structs
from inferlab_adapters.openengine.engine import (
    EngineFault,
    FinishedEvent,
    KvSession,
    TokenDetail,
    Usage,
)
from inferlab_adapters.openengine.errors import fill_error
from inferlab_adapters.openengine.revisions import Revision

_REQUEST_ID = b"\x0a"  # GenerateResponse.request_id = 1
_TOKEN = b"\x1a"  # GenerateResponse.token = 3
_INDEX = b"\x08"  # TokenOutput.output_index = 1
_TOKENS = b"\x12"  # TokenOutput.tokens = 2
_TEXT = b"\x1a"  # TokenOutput.text = 3
_TOKEN_ID = b"\x08"  # TokenInfo.token_id = 1

_KEPT = 1 << 18
"""How many tokens' bytes are kept, which is more than vocabularies have."""


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


class _TokenBytes(dict[int, bytes]):
    """A token id as one element of ``TokenOutput.tokens``, made once."""

    def __missing__(self, token_id: int) -> bytes:
        if not 0 <= token_id < 1 << 32:
            raise EngineFault("internal", f"the engine gave {token_id} as a token id")
        info = _TOKEN_ID + _varint(token_id) if token_id else b""
        made = _TOKENS + _varint(len(info)) + info
        if len(self) < _KEPT:
            self[token_id] = made
        return made


_LENGTHS = tuple(_varint(number) for number in range(4096))
_token_bytes = _TokenBytes().__getitem__


def _length(number: int) -> bytes:
    return _LENGTHS[number] if number < 4096 else _varint(number)


def response_head(request_id: str) -> bytes:
    """What every message of a stream begins with, up to the event of a token message."""
    name = request_id.encode()
    return _REQUEST_ID + _varint(len(name)) + name + _TOKEN


def output_head(index: int) -> bytes:
    """What every TokenOutput of an output begins with; the index is there even if it is 0."""
    return _INDEX + _varint(index)


def token_response(head: bytes, output: bytes, token_ids: Iterable[int], text: str) -> bytes:
    """A message with tokens of which nothing but the id is told."""
    body = output + b"".join(map(_token_bytes, token_ids))
    if text:
        raw = text.encode("utf-8", "replace")
        body += _TEXT + _length(len(raw)) + raw
    return head + _length(len(body)) + body


class Responses:
    """Makes the messages of one revision. Its methods give serialized GenerateResponses."""

    def __init__(self, revision: Revision) -> None:
        self._revision = revision
        self._response = revision.message("GenerateResponse")
        reasons = revision.enum("FinishReason")
        self._reasons = {
            reason: reasons.Value(f"FINISH_REASON_{reason.upper()}")
            for reason in ("stop", "length", "cancelled")
        }

    def prompt(self, request_id: str, tokens: Sequence[TokenDetail], start: int) -> bytes:
        """The prompt's tokens; the first of a prompt has no score, whatever the engine says."""
        message = self._response(request_id=request_id)
        message.prompt.SetInParent()
        for position, token in enumerate(tokens, start):
            info = message.prompt.tokens.add()
            if position:
                _fill_token(info, token)
            else:
                info.token_id, info.token = token.token_id, _text(token.text)
        return _bytes(message)

    def tokens(
        self, request_id: str, output: int, tokens: Sequence[TokenDetail], text: str
    ) -> bytes:
        """New tokens of an output with their scores and candidates."""
        message = self._response(request_id=request_id)
        token = message.token
        token.output_index = output
        token.text = _text(text)
        for detail in tokens:
            _fill_token(token.tokens.add(), detail)
        return _bytes(message)

    def finished(self, request_id: str, event: FinishedEvent, usage: Usage | None) -> bytes:
        """The end of an output; with ``usage`` it ends the stream."""
        message = self._response(request_id=request_id)
        finished = message.finished
        finished.output_index = event.output
        finished.reason = self._reasons[event.reason]
        finished.message = _text(event.message)
        stop = event.stop
        if event.reason == "stop" and stop is not None:
            if stop.kind == "text":
                finished.stop_match.stop_text = _text(stop.text)
            elif stop.kind == "token":
                finished.stop_match.stop_token_id = stop.token_id
            else:
                finished.stop_match.eos_token_id = stop.token_id
        if usage is not None:
            _fill_usage(message.usage, usage)
        return _bytes(message)

    def prefill_ready(self, request_id: str, session: KvSession, usage: Usage) -> bytes:
        """The end of a prefill."""
        message = self._response(request_id=request_id)
        fill_session(message.prefill_ready.kv_session, session)
        _fill_usage(message.usage, usage)
        return _bytes(message)

    def error(self, request_id: str, fault: EngineFault, usage: Usage | None) -> bytes:
        """The failure of a request."""
        message = self._response(request_id=request_id)
        fill_error(message.error, fault, self._revision)
        if usage is not None:
            _fill_usage(message.usage, usage)
        return _bytes(message)


def fill_session(message: Any, session: KvSession) -> None:
    """Write a session into a KvSessionRef message."""
    message.session_id = session.session_id
    message.transfer_backend = session.transfer_backend
    message.dp_rank = session.dp_rank
    for endpoint in session.endpoints:
        message.endpoints.add(host=endpoint.host, port=endpoint.port, protocol=endpoint.protocol)
    structs.fill(message.attributes_struct, session.attributes)


def _fill_token(info: Any, token: TokenDetail) -> None:
    info.token_id = token.token_id
    info.token = _text(token.text)
    if token.logprob is not None:
        info.logprob = token.logprob
    if token.rank is not None:
        info.rank = token.rank
    for other in token.candidates:
        candidate = info.candidates.add(
            token_id=other.token_id, logprob=other.logprob, token=_text(other.text)
        )
        if other.rank is not None:
            candidate.rank = other.rank


def _fill_usage(message: Any, usage: Usage) -> None:
    message.SetInParent()
    message.prompt_tokens = usage.prompt_tokens
    message.completion_tokens = usage.completion_tokens
    message.total_tokens = usage.prompt_tokens + usage.completion_tokens
    if usage.cached_prompt_tokens is not None:
        message.cached_prompt_tokens = min(usage.cached_prompt_tokens, usage.prompt_tokens)
    if usage.reasoning_tokens is not None:
        message.reasoning_tokens = min(usage.reasoning_tokens, usage.completion_tokens)


def _text(text: str) -> str:
    """A text that protobuf takes: lone surrogates become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
