"""Prepared deployments for tests: golden cases, placed by the miniature control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inferlab_adapters.adapter import Adapter
from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.wanted import Wanted
from tests.support.adapters import ADAPTERS, golden_cases
from tests.support.control_plane import Json, allocate, ask, output, render_request
from tests.support.golden import Case, supplied


def cases() -> Iterator[tuple[str, Case]]:
    """Every golden deployment: framework and case."""
    for framework in sorted(ADAPTERS):
        for case in golden_cases(framework):
            if isinstance(case, Case):
                yield framework, case


def case_parameters() -> list[object]:
    """The golden deployments as parameters of a test."""
    return [pytest.param(name, case, id=f"{name}-{case.name}") for name, case in cases()]


def case(framework: str, name: str) -> Case:
    """One golden deployment."""
    return next(case for owner, case in cases() if (owner, case.name) == (framework, name))


def machine_of(allocation: Json) -> Machine:
    """A machine with eight GPUs that fits an allocation."""
    return Machine(
        name=allocation["machine"],
        address=allocation["endpoint"]["host"],
        devices=tuple(range(8)),
        ports=(),
        ssh=allocation["launch"].get("target"),
    )


def prepared(
    framework: str, case: Case, change: Callable[[Machine], Machine] = lambda machine: machine
) -> Prepared:
    """A golden case, prepared; ``change`` makes its machines other ones."""
    adapter: Adapter = ADAPTERS[framework]
    plan = output(ask(adapter, case.request, case.version))
    allocations = allocate(plan, case.placement)
    request = render_request(case.request, plan, allocations)
    if case.files:
        request["input"]["render_inputs"] = supplied(case.files)
    rendered = output(ask(adapter, request, case.version))
    machines = {a["machine"]: change(machine_of(a)) for a in allocations}
    last = allocations[-1]["endpoint"]
    return Prepared(
        wanted=Wanted(
            name="golden",
            framework=framework,
            request=case.request,
            model_path=None,
            workspace=Path(),
            pointers={},
            source="golden.yaml",
        ),
        request=case.request,
        plan=plan,
        allocations=allocations,
        render_request=request,
        rendered=rendered,
        machines=machines,
        notes=(),
        endpoint=(last["host"], last["port"]),
    )


def together(case: Case) -> Case:
    """The case with every process on one machine."""
    return replace(case, placement=replace(case.placement, together=True))
