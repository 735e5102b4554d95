"""Guided output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.generate_options import GUIDED_STOPPING, GUIDES
from inferlab_adapters.openengine.conformance.checks.sequences import texts
from inferlab_adapters.openengine.conformance.checks.stopping import reason
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject

_LENGTH = "FINISH_REASON_LENGTH"
_MALFORMED = {
    "JSON_SCHEMA": {"json_schema": '{"type": '},
    "REGEX": {"regex": "([0-9"},
    "EBNF_GRAMMAR": {"ebnf_grammar": "root ::= ("},
    "STRUCTURAL_TAG": {"structural_tag": "{"},
}


def _json_object(text: str) -> bool:
    return isinstance(json.loads(text), dict)


_ALLOWS: Mapping[str, Callable[[str], bool]] = {
    "JSON_SCHEMA": lambda text: json.loads(text) in ("yes", "no"),
    "REGEX": lambda text: re.fullmatch("[0-9]{3}", text) is not None,
    "EBNF_GRAMMAR": lambda text: text in ("yes", "no"),
    "CHOICE": lambda text: text in ("yes", "no"),
    "JSON_OBJECT": _json_object,
}


@check("R9")
async def malformed_guides(s: Subject) -> None:
    for mode in _modes(s):
        if mode not in _MALFORMED:
            continue
        changes = {"guided": _MALFORMED[mode], "stopping": GUIDED_STOPPING}
        call = await s.generate(s.plain(changes))
        if not call.refused:
            raise Broken(f"a malformed {mode} guide is not refused: {call.told()}")


@check("O25", needs="decode")
async def guided_output(s: Subject) -> None:
    for mode in _modes(s):
        if mode not in _ALLOWS:
            continue
        call = await s.served({"guided": GUIDES[mode], "stopping": GUIDED_STOPPING})
        text = "".join(texts(call))
        # What max_tokens cut off need not be whole.
        if reason(call) != _LENGTH and not _allowed(mode, text):
            raise Broken(f"the {mode} guide gave {text!r}")


def _allowed(mode: str, text: str) -> bool:
    try:
        return _ALLOWS[mode](text)
    except ValueError:
        return False


def _modes(s: Subject) -> list[str]:
    ability = s.generation.guided_decoding
    enum = s.wire.revision.enum("GuidedDecodingMode")
    if not ability.supported:
        raise Skip("guided decoding is not advertised")
    known = dict(enum.items()).values()
    return [
        enum.Name(mode).removeprefix("GUIDED_DECODING_MODE_")
        for mode in ability.modes
        if mode in known
    ]
