"""What planning for vLLM adds and refuses, where a golden case would not look."""

from __future__ import annotations

from typing import Any

import pytest
from oe_adapter_vllm import ADAPTER

from tests.support.control_plane import (
    Json,
    allocate,
    ask,
    output,
    plan_request,
    refused,
    render_request,
    role,
)


def profiled(**settings: Any) -> Json:
    return plan_request(role(settings=settings), profiling=True)


@pytest.mark.parametrize("profiler", [None, [], {}, ["cuda"], 1, "", "nsys"])
def test_a_profiler_that_vllm_lacks_is_refused(profiler: Any) -> None:
    config = {} if profiler is None else {"profiler": profiler}
    code, message = refused(ask(ADAPTER, profiled(profiler_config=config)))
    assert code == "invalid_settings"
    assert message.startswith("/input/roles/0/settings/profiler_config: ")


@pytest.mark.parametrize(
    "extra_args",
    [
        ["--profiler-config.profiler", "cuda"],
        ["--profiler-config", '{"profiler":"cuda"}'],
        ["--profiler_conf", '{"profiler":"cuda"}'],
    ],
)
def test_what_planning_adds_may_not_stand_in_the_extra_arguments_too(
    extra_args: list[str],
) -> None:
    request = profiled(extra_args=extra_args)
    response = ask(ADAPTER, request)
    if response["status"] == "ok":
        plan = output(response)
        output(ask(ADAPTER, render_request(request, plan, allocate(plan))))
    else:
        code, message = refused(response)
        assert code == "invalid_settings"
        assert message.startswith("/input/roles/0/settings/extra_args/0: ")
