"""docs/support.md says what golden cases, parser tests and smoke tests show, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.adapters import ADAPTERS, golden_cases
from tests.support.control_plane import Json, Placement, ask, refused, serve
from tests.support.engines import ROOT
from tests.support.evidence import (
    CAPABILITIES,
    EVIDENCE,
    PARSERS,
    Absent,
    Deployment,
    Refused,
    Shown,
    golden_deployment,
    state,
)
from tests.support.golden import Case, read

CELLS = [
    pytest.param(framework, capability, id=f"{framework}-{capability}")
    for framework in EVIDENCE
    for capability in CAPABILITIES
]
every_cell = pytest.mark.parametrize(("framework", "capability"), CELLS)


def newest(framework: str) -> str:
    return ADAPTERS[framework].recorded_versions()[-1]


def deployed(framework: str, request: Json, placement: Placement) -> Deployment:
    plan, allocations, rendered = serve(ADAPTERS[framework], request, placement, newest(framework))
    return Deployment(
        request=request, plan=plan, allocations=allocations, processes=rendered["processes"]
    )


def test_every_capability_of_every_engine_is_answered() -> None:
    assert EVIDENCE.keys() == ADAPTERS.keys()
    for cells in EVIDENCE.values():
        assert list(cells) == list(CAPABILITIES)


# -- golden cases ------------------------------------------------------------------------------


@every_cell
def test_what_is_named_shows_it(framework: str, capability: str) -> None:
    cell, shows = EVIDENCE[framework][capability], CAPABILITIES[capability]
    if not isinstance(cell, Shown):
        return
    assert cell.cases or cell.others
    for name in cell.cases:
        assert shows(golden_deployment(framework, name)), name
    for case in cell.others:
        assert shows(deployed(framework, case.request, case.placement)), case.name


@every_cell
def test_what_has_a_dash_is_refused_and_shown_nowhere(framework: str, capability: str) -> None:
    cell, shows = EVIDENCE[framework][capability], CAPABILITIES[capability]
    if isinstance(cell, Shown):
        return
    assert state(framework, capability) == "-"
    for case in golden_cases(framework):
        if isinstance(case, Case):
            assert not shows(golden_deployment(framework, case.name)), case.name
    if isinstance(cell, Absent):
        assert cell.why
        return
    assert isinstance(cell, Refused)
    code, _ = refused(ask(ADAPTERS[framework], cell.request, newest(framework)))
    assert code == "invalid_settings"


# -- parser tests ------------------------------------------------------------------------------


def module_of(test: str) -> ModuleType:
    return import_module(test.partition("::")[0].removesuffix(".py").replace("/", "."))


@every_cell
def test_what_is_checked_went_through_the_parser(framework: str, capability: str) -> None:
    """The named case's command line, with the token that says it, is one that the test gives."""
    cell = EVIDENCE[framework][capability]
    if not isinstance(cell, Shown) or not cell.token:
        assert state(framework, capability) != "checked"
        return
    module = module_of(PARSERS[framework])
    assert callable(getattr(module, PARSERS[framework].partition("::")[2]))
    given = [
        token
        for name, process in module.GOLDEN.items()
        if name.partition(":")[0] in {f"{case}-render" for case in cell.cases}
        for token in process["command"]["argv"]
    ]
    assert any(cell.token in token for token in given)


def test_only_parser_tests_of_real_parsers_count() -> None:
    """TensorRT-LLM's command line is rebuilt from its catalogue: that is no parser of its own."""
    assert PARSERS.keys() == {
        path.stem.removeprefix("test_").removesuffix("_parser")
        for path in (ROOT / "tests" / "engine").glob("test_*_parser.py")
    }


# -- smoke tests -------------------------------------------------------------------------------


class Launched(Exception):
    """Carries what a smoke test was about to launch out of it."""

    def __init__(self, request: Json, ranks: int) -> None:
        super().__init__()
        self.request, self.ranks = request, ranks


def launches(
    module: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Deployment]]:
    """What every test of a smoke module launches: (test id, deployment)."""

    def drive(request: Path, folder: Path, ranks: int = 1, **rest: Any) -> None:
        raise Launched(read(request), ranks)

    monkeypatch.setattr(module, "drive", drive)
    framework = module.__name__.rpartition("test_")[2]
    for name, function in vars(module).items():
        if not name.startswith("test_"):
            continue
        for suffix, arguments in variants(function):
            if "tmp_path" in signature(function).parameters:
                arguments["tmp_path"] = folder
            with pytest.raises(Launched) as caught:
                function(**arguments)
            request, ranks = caught.value.request, caught.value.ranks
            roles = [item["id"] for item in request["input"]["roles"]]
            placement = Placement(
                ranks=dict.fromkeys(roles, ranks), hosts=lambda index: "127.0.0.1", together=True
            )
            test = f"{module.__name__.replace('.', '/')}.py::{name}{suffix}"
            yield test, deployed(framework, request, placement)


def variants(function: Callable[..., object]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The id and the arguments of a test for each of its parameters."""
    marks = [m for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
    if not marks:
        yield "", {}
        return
    (mark,) = marks
    name, values = mark.args
    for label, value in zip(mark.kwargs["ids"], values, strict=True):
        yield f"[{label}]", {name: value}


def smoke_modules() -> list[str]:
    named = {
        test.partition("::")[0]
        for cells in EVIDENCE.values()
        for cell in cells.values()
        if isinstance(cell, Shown)
        for test in cell.runs
    }
    return sorted(named)


@pytest.mark.parametrize("file", smoke_modules())
def test_what_was_run_is_what_the_smoke_tests_launch(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell names exactly the smoke tests whose deployment shows it."""
    module = module_of(file)
    framework = module.__name__.rpartition("test_")[2]
    launched = dict(launches(module, tmp_path, monkeypatch))
    assert launched
    for capability, cell in EVIDENCE[framework].items():
        shown = {
            test for test, deployment in launched.items() if CAPABILITIES[capability](deployment)
        }
        named = cell.runs if isinstance(cell, Shown) else ()
        assert {test for test in named if test.startswith(file)} == shown, capability


def test_every_smoke_module_counts() -> None:
    """A new one must be named, or the table would say less than was run.

    CI has no GPUs, so that nothing is shown by what only runs on them; what looks at OpenEngine
    launches the same deployments once more.
    """
    folder = ROOT / "tests" / "smoke"
    found = {path.relative_to(ROOT).as_posix() for path in folder.glob("test_*.py")}
    aside = {"tests/smoke/test_gpu.py", *(path for path in found if "/test_openengine_" in path)}
    assert found - aside == set(smoke_modules())
