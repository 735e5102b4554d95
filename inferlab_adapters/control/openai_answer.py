"""What an OpenAI endpoint answered, whole or as a stream, checked for what the API promises.

Source: the OpenAI API reference, completions and chat completions with ``stream_options``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from inferlab_adapters.control.openai_http import Reply, beginning, events
from inferlab_adapters.errors import AdapterError, Fault, pointer, shown, typed
from inferlab_adapters.strict_json import decode

Api = Literal["completions", "chat"]

_TEXT = ("reasoning_content", "reasoning", "content")
"""Where a chat message holds text. A model that thinks first may never come to its content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What came back. ``first_text`` is the offset in the body where the first text had come."""

    text: str
    completion_tokens: int
    first_text: int


class Malformed(Exception):
    """The answer is not what the API promises: where in it, and what."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))


def whole(reply: Reply, api: Api, *, model: str, max_tokens: int) -> Completion:
    """Read one JSON document. Raises :class:`Malformed`."""
    node = _document(reply.body, "the answer")
    _check_model(node, model)
    choice = _only_choice(node)
    message = choice if api == "completions" else _object(choice, "/choices/0", "message")
    if api == "completions":
        text = _text(choice, "text", "/choices/0")
    else:
        text = _message_text(message, "/choices/0/message")
    _finish_reason(choice)
    return _completion(text, _usage(node, max_tokens), len(reply.body))


def streamed(reply: Reply, api: Api, *, model: str, max_tokens: int) -> Completion:
    """Read a stream of events up to its ``[DONE]``. Raises :class:`Malformed`."""
    if reply.content_type != "text/event-stream":
        what = f'must be "text/event-stream", got {shown(reply.content_type)}'
        raise Malformed(Fault("content type", what))
    reading = _Stream(api, model)
    done = False
    try:
        for end, data in events(reply.body):
            if done:
                raise Malformed(Fault("", f"the stream goes on after [DONE]: {shown(data)}"))
            if data == "[DONE]":
                done = True
            else:
                reading.chunk(end, data)
    except UnicodeDecodeError as error:
        raise Malformed(Fault("", f"the stream is not UTF-8: {error.reason}")) from None
    if not done:
        last = beginning(reply.body[-200:])
        raise Malformed(Fault("", f"the stream ends without [DONE], its end is {shown(last)}"))
    if not reading.finished:
        raise Malformed(Fault("", "no chunk of the stream has a finish_reason"))
    if reading.usage is None:
        raise Malformed(Fault("", "no chunk of the stream has the usage that was asked for"))
    return _completion(
        "".join(reading.texts), _usage(reading.usage, max_tokens), reading.first_text
    )


class _Stream:
    """Takes up chunk after chunk."""

    def __init__(self, api: Api, model: str) -> None:
        self.texts: list[str] = []
        self.first_text = 0
        self.finished = False
        self.usage: dict[str, Any] | None = None
        self._api = api
        self._model = model
        self._chunks = 0

    def chunk(self, end: int, data: str) -> None:
        self._chunks += 1
        node = _document(data.encode(), f"chunk {self._chunks}")
        _check_model(node, self._model)
        if node.get("usage") is not None:
            self.usage = node
        choices = _get(node, "", "choices", list, "an array")
        if not choices:
            return
        choice = _only_choice(node)
        text = self._text(choice)
        if text and not self.first_text:
            self.first_text = end
        self.texts.append(text)
        if choice.get("finish_reason") is not None:
            _finish_reason(choice)
            self.finished = True

    def _text(self, choice: dict[str, Any]) -> str:
        if self._api == "completions":
            return _text(choice, "text", "/choices/0")
        return _message_text(_object(choice, "/choices/0", "delta"), "/choices/0/delta")


def _completion(text: str, completion_tokens: int, first_text: int) -> Completion:
    if not text:
        raise Malformed(Fault("", f"the text is empty, of {completion_tokens} tokens"))
    return Completion(text=text, completion_tokens=completion_tokens, first_text=first_text)


def _document(raw: bytes, source: str) -> dict[str, Any]:
    try:
        document = decode(raw, source)
    except AdapterError as error:
        what = f"{error.message}: {beginning(raw)}" if raw else error.message
        raise Malformed(Fault("", what)) from None
    if not isinstance(document, dict):
        raise Malformed(Fault("", f"{source} must be an object, got {typed(document)}"))
    if "error" in document and "choices" not in document:
        raise Malformed(Fault("/error", f"{source} is an error: {shown(document['error'])}"))
    return document


def _check_model(node: dict[str, Any], wanted: str) -> None:
    got = node.get("model")
    if got != wanted:
        raise Malformed(Fault("/model", f"must be {shown(wanted)}, got {typed(got)}"))


def _only_choice(node: dict[str, Any]) -> dict[str, Any]:
    choices = _get(node, "", "choices", list, "an array")
    if len(choices) != 1 or not isinstance(choices[0], dict):
        raise Malformed(Fault("/choices", f"must hold one object, got {shown(choices)}"))
    choice: dict[str, Any] = choices[0]
    return choice


def _message_text(message: dict[str, Any], at: str) -> str:
    given = [name for name in _TEXT if message.get(name) is not None]
    return "".join(_text(message, name, at) for name in given)


def _finish_reason(choice: dict[str, Any]) -> None:
    _text(choice, "finish_reason", "/choices/0")


def _usage(node: dict[str, Any], max_tokens: int) -> int:
    """The completion tokens, once all counts fit together."""
    usage = _object(node, "", "usage")
    prompt, completion, total = (
        _get(usage, "/usage", name, int, "an integer")
        for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    if not 0 < completion <= max_tokens:
        what = f"must be 1 to {max_tokens} as asked for, got {completion}"
        raise Malformed(Fault("/usage/completion_tokens", what))
    if prompt < 1:
        raise Malformed(Fault("/usage/prompt_tokens", f"must be at least 1, got {prompt}"))
    if total != prompt + completion:
        what = f"must be the sum {prompt + completion}, got {total}"
        raise Malformed(Fault("/usage/total_tokens", what))
    return int(completion)


def _object(node: dict[str, Any], at: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = _get(node, at, name, dict, "an object")
    return found


def _text(node: dict[str, Any], name: str, at: str) -> str:
    return str(_get(node, at, name, str, "a string"))


def _get(node: dict[str, Any], at: str, name: str, kind: type, words: str) -> Any:
    if name not in node:
        raise Malformed(Fault(pointer(at, name), "is missing"))
    value = node[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Malformed(Fault(pointer(at, name), f"must be {words}, got {typed(value)}"))
    return value
