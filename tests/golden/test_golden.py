"""Every golden case answers exactly what its folders hold."""

from __future__ import annotations

import shutil

import pytest

from tests.support.adapters import ADAPTERS, golden_cases
from tests.support.golden import GOLDEN, Case, Refusal, exchanges, folders, read, write
from tests.support.schema import check_request, validator

ALL = [
    pytest.param(framework, case, id=f"{framework}-{case.name}")
    for framework in sorted(ADAPTERS)
    for case in golden_cases(framework)
]


@pytest.mark.parametrize(("framework", "case"), ALL)
def test_the_answer_is_the_pinned_one(
    framework: str, case: Case | Refusal, request: pytest.FixtureRequest
) -> None:
    for exchange in exchanges(ADAPTERS[framework], case):
        validator("AdapterResponse").validate(exchange.response)
        folder = GOLDEN / framework / exchange.name
        if request.config.getoption("--update-golden"):
            write(folder / "request.json", exchange.request)
            write(folder / "response.json", exchange.response)
        assert read(folder / "request.json") == exchange.request
        assert read(folder / "response.json") == exchange.response


@pytest.mark.parametrize("framework", sorted(ADAPTERS))
def test_no_folder_without_a_case(framework: str, request: pytest.FixtureRequest) -> None:
    expected = set()
    for case in golden_cases(framework):
        for exchange in exchanges(ADAPTERS[framework], case):
            expected.add(exchange.name)
            if case.name != "refused-null-in-setting":
                check_request(exchange.request)
    extra = folders(framework).keys() - expected
    if request.config.getoption("--update-golden"):
        for name in extra:
            shutil.rmtree(GOLDEN / framework / name)
    assert expected == folders(framework).keys()
