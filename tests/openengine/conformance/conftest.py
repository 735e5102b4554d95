"""Runs of the suite that several tests look at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from inferlab_adapters.openengine.conformance.report import Report
from tests.openengine.conformance.broken import FAULTS, examine
from tests.openengine.conformance.faults import Fault


@pytest.fixture(scope="session")
def broken() -> Mapping[str, Report]:
    """What the suite says of every broken server, by the fault's id."""
    return asyncio.run(_all())


async def _all() -> dict[str, Report]:
    # Most of a run is waiting; more at once would only make each other late.
    places = asyncio.Semaphore(8)

    async def one(fault: Fault) -> Report:
        async with places:
            return await examine(fault)

    reports = await asyncio.gather(*(one(fault) for fault in FAULTS))
    return {fault.id: report for fault, report in zip(FAULTS, reports, strict=True)}
