"""The suite can fail: each broken server is caught by the rule that it breaks, and by no other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from inferlab_adapters.openengine.conformance.report import Report
from tests.openengine.conformance.broken import FAULTS
from tests.openengine.conformance.faults import Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_its_rule(fault: Fault, broken: Mapping[str, Report]) -> None:
    outcomes = {one.rule: one for one in broken[fault.id].outcomes if one.state == "failed"}
    assert fault.rule in outcomes
    others = {rule: one.message for rule, one in outcomes.items() if rule != fault.rule}
    assert set(others) <= fault.related, others
    assert outcomes[fault.rule].message
    assert "the check broke" not in outcomes[fault.rule].message


def test_there_are_many_faults() -> None:
    assert len(FAULTS) >= 25
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)
