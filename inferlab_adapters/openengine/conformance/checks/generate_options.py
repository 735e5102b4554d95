"""Every option whose support discovery reports: what to send to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferlab_adapters.openengine.conformance.subject import PROMPT, TOKEN_IDS, Subject
from inferlab_adapters.openengine.conformance.wire import Metadata, Proto

GUIDES: Mapping[str, Any] = {
    "JSON_SCHEMA": {"json_schema": '{"enum": ["yes", "no"]}'},
    "REGEX": {"regex": "[0-9]{3}"},
    "EBNF_GRAMMAR": {"ebnf_grammar": 'root ::= "yes" | "no"'},
    "STRUCTURAL_TAG": {
        "structural_tag": '{"structures": [{"begin": "<x>", "schema": {"type": "object"}, '
        '"end": "</x>"}], "triggers": ["<x>"]}'
    },
    "CHOICE": {"choice": {"choices": ["yes", "no"]}},
    "JSON_OBJECT": {"json_object": {}},
}
"""A guide of each mode, by the end of the mode's name."""

SELECTIONS: Mapping[str, Any] = {
    "TOP_N": {"top_n": 1},
    "TOKEN_IDS": {"token_ids": {"ids": list(TOKEN_IDS[:3])}},
    "ALL": {"all": {}},
}
"""A candidate selection of each mode, by the end of the mode's name."""

GUIDED_STOPPING = {"max_tokens": 64, "ignore_eos": False}
_PRIORITY = "openengine-priority"


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """``advertised`` is ``None`` where discovery does not say."""

    name: str
    advertised: bool | None
    changes: Mapping[str, Any] = field(default_factory=dict)
    metadata: Metadata = ()


def options(s: Subject) -> list[Option]:
    """Every option that this server reports on, or could."""
    return [*_inputs(s), *_logprobs(s), *_guides(s), *_others(s)]


def _said(message: Proto, name: str) -> bool | None:
    return bool(getattr(message, name)) if message.HasField(name) else None


def _inputs(s: Subject) -> Iterator[Option]:
    yield Option(
        name="text input",
        advertised=_said(s.model_info, "supports_text_input"),
        changes={"token_ids": None, "prompt": PROMPT},
    )
    yield Option(
        name="token ids input",
        advertised=_said(s.model_info, "supports_token_ids_input"),
        changes={"prompt": None, "token_ids": {"ids": list(TOKEN_IDS)}},
    )


def _logprobs(s: Subject) -> Iterator[Option]:
    for side in ("prompt", "output"):
        reported = s.generation.HasField(f"{side}_logprobs")
        ability = getattr(s.generation, f"{side}_logprobs")
        supported = _said(ability, "supported") if reported else None
        wanted = {f"return_{side}_logprobs": True}
        yield Option(name=f"{side} logprobs", advertised=supported, changes={"response": wanted})
        modes = s.wire.revision.enum("CandidateTokenSelectionMode")
        listed = list(ability.candidate_selection_modes)
        for mode, selection in SELECTIONS.items():
            number = modes.Value(f"CANDIDATE_TOKEN_SELECTION_MODE_{mode}")
            yield Option(
                name=f"{side} candidates {mode}",
                advertised=None if supported is None else supported and number in listed,
                changes={"response": {**wanted, f"{side}_candidates": selection}},
            )


def _guides(s: Subject) -> Iterator[Option]:
    reported = s.generation.HasField("guided_decoding")
    ability = s.generation.guided_decoding
    supported = _said(ability, "supported") if reported else None
    modes = s.wire.revision.enum("GuidedDecodingMode")
    for mode, guide in GUIDES.items():
        number = modes.Value(f"GUIDED_DECODING_MODE_{mode}")
        yield Option(
            name=f"guide {mode}",
            advertised=None if supported is None else supported and number in ability.modes,
            changes={"guided": guide, "stopping": GUIDED_STOPPING},
        )


def _others(s: Subject) -> Iterator[Option]:
    generation = s.generation
    yield Option(
        name="priority",
        advertised=_said(generation, "supports_priority"),
        changes={"priority": 1} if s.seed else {},
        metadata=() if s.seed else ((_PRIORITY, "1"),),
    )
    yield Option(
        name="include_stop_in_output",
        advertised=_said(generation, "supports_stop_in_output"),
        changes={
            "stopping": {"conditions": [{"stop_text": "~#~"}], "include_stop_in_output": True}
        },
    )
    yield Option(
        name="cache_salt",
        advertised=_said(generation, "supports_cache_salt"),
        changes={"kv": {"cache_salt": "conformance"}},
    )
    yield Option(
        name="bypass_prefix_cache",
        advertised=_said(generation, "supports_prefix_cache_bypass"),
        changes={"kv": {"bypass_prefix_cache": True}},
    )
    most = generation.max_num_sequences
    yield Option(
        name="num_sequences=2",
        advertised=True
        if s.decodes and generation.HasField("max_num_sequences") and most > 1
        else None,
        changes={"sampling": {"num_sequences": 2, "temperature": 1.0}},
    )
