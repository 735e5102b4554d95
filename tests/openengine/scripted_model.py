"""A language model for tests: it draws letters, and honours everything that a request can ask."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from inferlab_adapters.openengine.engine import (
    Candidate,
    EngineFault,
    Event,
    FinishedEvent,
    GenerateRequest,
    Guide,
    PromptEvent,
    Selection,
    StopMatch,
    TokenDetail,
    TokenEvent,
)
from tests.openengine.scripted_regex import shortest_match

VOCABULARY = 1000
EOS = 0
NATURAL_LENGTH = 24
"""After so many tokens the model ends by itself."""
_FIRST_LETTER = ord("a") - 31


def text_of(token_id: int) -> str:
    """Ids 1 to 95 are the printable ASCII characters, those above are words."""
    if token_id == EOS:
        return ""
    return chr(31 + token_id) if token_id < 96 else f" w{token_id}"


def tokens_of(text: str) -> list[int]:
    """One token a character."""
    return [ord(c) - 31 if 32 <= ord(c) < 127 else 96 + ord(c) % (VOCABULARY - 96) for c in text]


def prompt_ids(request: GenerateRequest) -> list[int]:
    """The prompt as the model sees it."""
    if request.token_ids is not None:
        return list(request.token_ids)
    return tokens_of(request.prompt or "")


def answer(request: GenerateRequest) -> Iterator[Event]:
    """What the model says: prompt details first, then the outputs in turn."""
    prompt = prompt_ids(request)
    if request.returned.prompt_logprobs:
        yield PromptEvent(_prompt_details(request, prompt))
    for index in range(request.sampling.num_sequences):
        yield from _output(request, prompt, index)


def _output(request: GenerateRequest, prompt: Sequence[int], index: int) -> Iterator[Event]:
    tokens, reason, stop = _tokens(request, prompt, index)
    details = request.returned.output_logprobs
    for start in range(0, len(tokens), 3):
        part = tokens[start : start + 3]
        text = "".join(map(text_of, part))
        chosen = request.returned.output_candidates
        yield TokenEvent(index, part, text, [detail(t, chosen) for t in part] if details else None)
    yield FinishedEvent(index, reason, stop)


def _tokens(
    request: GenerateRequest, prompt: Sequence[int], index: int
) -> tuple[list[int], Any, StopMatch | None]:
    stopping = request.stopping
    limit = stopping.max_tokens if stopping.max_tokens is not None else 16
    wanted = guided(request.guide) if request.guide is not None else None
    drawn = iter(tokens_of(wanted)) if wanted is not None else _letters(request, prompt, index)
    tokens: list[int] = []
    text = ""
    while len(tokens) < limit:
        early = len(tokens) < (stopping.min_tokens or 0)
        token = next(drawn, EOS)
        if len(tokens) >= NATURAL_LENGTH and wanted is None:
            token = EOS
        if token == EOS and (wanted is not None or not (early or stopping.ignore_eos)):
            return tokens, "stop", StopMatch("eos", token_id=EOS)
        token = token or _FIRST_LETTER
        if token in stopping.stop_token_ids and not early:
            kept = [token] if stopping.include_stop_in_output else []
            return tokens + kept, "stop", StopMatch("token", token_id=token)
        tokens.append(token)
        text += text_of(token)
        hit = next((s for s in stopping.stop_texts if text.endswith(s) and not early), None)
        if hit is not None:
            kept = tokens if stopping.include_stop_in_output else tokens[: -len(hit)]
            return kept, "stop", StopMatch("text", text=hit)
    return tokens, "length", None


def _letters(request: GenerateRequest, prompt: Sequence[int], index: int) -> Iterator[int]:
    sampling = request.sampling
    key: tuple[Any, ...] = (tuple(prompt), request.lora_name)
    if sampling.temperature:
        number = random.random() if sampling.seed is None else sampling.seed
        key += (number, index)
    draw = random.Random(blake2b(repr(key).encode()).digest())
    while True:
        yield _FIRST_LETTER + draw.randrange(26)


def detail(token_id: int, selection: Selection | None) -> TokenDetail:
    """A token that was the likeliest, and the others beside it in a made-up order."""
    candidates: tuple[Candidate, ...] = ()
    if selection is not None:
        ids: Sequence[int] = selection.token_ids
        if selection.mode == "top_n":
            ids = [(token_id + i) % VOCABULARY for i in range(selection.top_n)]
        elif selection.mode == "all":
            ids = range(VOCABULARY)
        candidates = tuple(_candidate(token_id, other) for other in ids)
    return TokenDetail(token_id, text_of(token_id), -0.1, 1, candidates)


def _candidate(chosen: int, other: int) -> Candidate:
    rank = (other - chosen) % VOCABULARY + 1
    return Candidate(other, -0.1 * rank, text_of(other), rank)


def _prompt_details(request: GenerateRequest, prompt: Sequence[int]) -> list[TokenDetail]:
    start = request.returned.prompt_start
    chosen = request.returned.prompt_candidates
    details = [detail(t, chosen) for t in prompt[start:]]
    if start == 0:
        details[0] = TokenDetail(prompt[0], text_of(prompt[0]))
    return details


def guided(guide: Guide) -> str:
    """The shortest text that a guide allows; ``invalid_argument`` for one that is broken."""
    if guide.mode == "choice":
        return guide.choices[0]
    if guide.mode == "json_object":
        return "{}"
    if guide.mode == "regex":
        try:
            return shortest_match(guide.text)
        except ValueError as error:
            raise EngineFault("invalid_argument", f"guided.regex: {error}") from None
    return json.dumps(_instance(json.loads(guide.text)))


def _instance(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return None
    if "enum" in schema:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _instance(properties.get(name)) for name in schema.get("required", ())}
    if kind == "array":
        return [_instance(schema.get("items"))] * int(schema.get("minItems", 0))
    plain = {"string": "a" * int(schema.get("minLength", 1)), "boolean": True, "null": None}
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    if kind not in plain:
        raise EngineFault("invalid_argument", f"guided.json_schema: no such type {kind!r}")
    return plain[kind]
