"""Deviations that are known: rules that a server may break, each with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

from inferlab_adapters import strict_json, yaml_text
from inferlab_adapters.errors import AdapterError, did_you_mean, one_of, shown, typed
from inferlab_adapters.openengine.conformance.outcome import Outcome
from inferlab_adapters.openengine.conformance.report import Report
from inferlab_adapters.openengine.conformance.rules import REVISIONS, rules

_AROUND = "deviations"
_LINE = re.compile("^line ([0-9]+):")
_KEYS = ("rule", "reason", "revision")


class BadDeviations(Exception):
    """The file cannot be used; the message says where and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deviation:
    """``revision`` is empty where it holds in both."""

    rule: str
    reason: str
    revision: str = ""


def read(path: Path) -> list[Deviation]:
    """The deviations in a YAML or JSON file; raises :class:`BadDeviations`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise BadDeviations(f"cannot be read ({reason})") from None
    try:
        if text.lstrip().startswith("["):
            document = strict_json.decode(text.encode(), "the text")
        else:
            document = _yaml(text)
    except yaml_text.Unreadable as error:
        raise BadDeviations(_LINE.sub(_one_less, error.what)) from None
    except AdapterError as error:
        raise BadDeviations(str(error.faults[0])) from None
    # A file with nothing but comments knows of no deviation.
    if document is None:
        return []
    if not isinstance(document, Sequence) or isinstance(document, str):
        raise BadDeviations(f"must be a list, got {typed(document)}")
    return [_deviation(number, item) for number, item in enumerate(document)]


def _yaml(text: str) -> Any:
    """A YAML list. The reader reads mappings alone, so that one is put around it."""
    document = yaml_text.read(f"{_AROUND}:\n{indent(text, ' ')}")
    return document[_AROUND] if len(document) == 1 else document


def _one_less(found: re.Match[str]) -> str:
    return f"line {max(int(found[1]) - 1, 1)}:"


def apply(report: Report, deviations: Sequence[Deviation]) -> None:
    """Turn failures that are known into that, and note what is known and is no failure."""
    reasons = {d.rule: d.reason for d in deviations if d.revision in ("", report.revision)}
    outcomes = []
    for outcome in report.outcomes:
        reason = reasons.get(outcome.rule)
        if reason is not None and outcome.state == "failed":
            message = f"{reason} ({outcome.message})"
            outcome = Outcome(rule=outcome.rule, state="known", message=message)
        elif reason is not None and outcome.state == "passed":
            report.stale.append(outcome.rule)
        outcomes.append(outcome)
    report.outcomes = outcomes


def _deviation(number: int, item: Any) -> Deviation:
    where = f"/{number}"
    if not isinstance(item, Mapping):
        raise BadDeviations(f"{where}: must be an object, got {typed(item)}")
    for key in item:
        if key not in _KEYS:
            raise BadDeviations(f"{where}/{key}: is unknown; use {one_of(_KEYS)}")
    for key in ("rule", "reason"):
        if not isinstance(item.get(key), str) or not item[key].strip():
            raise BadDeviations(f"{where}/{key}: must be text; say which rule, and why it is known")
    rule, revision = item["rule"], item.get("revision", "")
    if rule not in rules():
        hint = did_you_mean(rule, rules())
        raise BadDeviations(
            f"{where}/rule: is no rule ({shown(rule)})" + (f"; {hint}" * bool(hint))
        )
    if revision and revision not in REVISIONS:
        what = f"{where}/revision: is none ({shown(revision)}); use {one_of(REVISIONS)}"
        raise BadDeviations(what)
    return Deviation(rule=rule, reason=item["reason"], revision=revision)
