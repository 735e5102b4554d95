"""Broken servers, served and examined."""

from __future__ import annotations

from contextlib import AsyncExitStack

from inferlab_adapters.openengine.conformance.check import active
from inferlab_adapters.openengine.conformance.report import Report
from inferlab_adapters.openengine.conformance.runner import Asked, run
from inferlab_adapters.openengine.conformance.subject import Allowed
from inferlab_adapters.openengine.revisions import REVISIONS
from tests.openengine.conformance import (
    faults_discovery,
    faults_drain,
    faults_kv,
    faults_lifecycle,
    faults_outputs,
    faults_requests,
    faults_streams,
    faults_tasks,
)
from tests.openengine.conformance.faults import EVERYTHING, Broken, Fault
from tests.openengine.conformance.model_server import Hooks, Transport
from tests.openengine.conformance.model_tasks import Model

FAULTS = [
    *faults_requests.FAULTS,
    *faults_streams.FAULTS,
    *faults_outputs.FAULTS,
    *faults_discovery.FAULTS,
    *faults_lifecycle.FAULTS,
    *faults_drain.FAULTS,
    *faults_kv.FAULTS,
    *faults_tasks.FAULTS,
]

TIMEOUT = 20.0
"""Seconds that only a server uses up that hangs."""


def model(
    kind: type[Model], revision: str, role: str, lacks: frozenset[str] = frozenset()
) -> Model:
    """A model server's inside."""
    made = kind(role, lacks)
    made.seed = revision == "seed"
    return made


async def examine(fault: Fault) -> Report:
    """Serve a broken server, with a sound one beside it where the role needs one, and ask it."""
    revision = REVISIONS[fault.revision]
    inner = model(fault.model, fault.revision, fault.role, fault.lacks)
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(Transport(inner, revision, Broken(fault)))
        peer = ""
        if fault.role == "prefill":
            other = model(Model, fault.revision, "decode")
            other.prefill = inner
            peer = (await stack.enter_async_context(Transport(other, revision, Hooks()))).address
        asked = Asked(
            address=served.address,
            peer=peer,
            revisions=(fault.revision,),
            timeout=TIMEOUT,
            allowed=Allowed(drain=True, lora="/adapters/two"),
        )
        everything = EVERYTHING in fault.groups
        checks = [
            check
            for check in active
            if everything
            or check.rule == fault.rule
            or check.run.__module__.rpartition(".")[2] in fault.groups
        ]
        (report,) = await run(asked, checks)
        return report
