"""The table of rules, and that every rule has its check."""

from __future__ import annotations

import pytest

from inferlab_adapters.openengine.conformance.check import active, watches
from inferlab_adapters.openengine.conformance.rules import REVISIONS, of, rules
from inferlab_adapters.openengine.conformance.runner import UNASKED
from tests.openengine.conformance.broken import FAULTS

_COUNTS = {
    "G": 17, "R": 13, "O": 25, "P": 10, "I": 9, "M": 10, "L": 4, "K": 9, "H": 5, "A": 7, "D": 7,
    "LO": 7, "X": 3, "T": 17, "E": 6, "C": 5, "SC": 10, "Z": 20,
}  # fmt: skip


def _group(rule: str) -> str:
    return rule.rstrip("0123456789")


def test_every_group_is_whole() -> None:
    for group, count in _COUNTS.items():
        numbers = [rule for rule in rules() if _group(rule) == group]
        assert numbers == [f"{group}{number}" for number in range(1, count + 1)]
    assert set(map(_group, rules())) == set(_COUNTS)


def test_every_served_rule_is_checked_or_says_why_not() -> None:
    asked = {check.rule for check in active} | {watch.rule for watch in watches}
    served = {rule.id for rule in rules().values() if rule.served}
    assert asked | set(UNASKED) == served
    assert not asked & set(UNASKED)


def test_every_rule_is_a_sentence() -> None:
    for rule in rules().values():
        assert rule.text.endswith("."), rule.id
        assert len(rule.text) <= 110, rule.id


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_has_its_own_rules(revision: str) -> None:
    found = {rule.id for rule in of(revision)}
    only_seed, only_release = {"D1", "T1", "SC6", "K1", "G7"}, {"G11", "I8", "L4", "LO7"}
    mine, others = (only_seed, only_release) if revision == "seed" else (only_release, only_seed)
    assert mine <= found
    assert not others & found


def test_faults_break_rules_of_every_group() -> None:
    assert set(_COUNTS) - {_group(fault.rule) for fault in FAULTS} == {"Z"}
