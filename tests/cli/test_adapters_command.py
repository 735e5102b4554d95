"""``oe adapters`` lists what is installed."""

from __future__ import annotations

import json
from unittest.mock import patch

from tests.cli.invoke import oe
from tests.support.adapters import ADAPTERS


def test_every_installed_adapter_is_told_as_data() -> None:
    done = oe("adapters", "--json")
    assert done.code == 0
    found = {entry["framework"]: entry for entry in json.loads(done.out)}
    assert set(found) == {adapter.framework for adapter in ADAPTERS.values()}
    for adapter in ADAPTERS.values():
        entry = found[adapter.framework]
        assert (entry["adapter_id"], entry["adapter_version"]) == (adapter.name, adapter.version)
        assert entry["framework_version"] == adapter.observed_version()
        assert entry["catalogues"] == adapter.recorded_versions()
        assert entry["routing_backends"] == ["builtin", *adapter.routers]


def test_the_table_has_a_line_for_each() -> None:
    done = oe("adapters")
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if "oe-adapter-trtllm" in line)
    assert (
        line.split()
        == (
            "tensorrt-llm oe-adapter-trtllm 0.1.0 unavailable 1.2.1, 1.3.0rc27, 1.4.0rc"
            " single, prefill_decode nixl builtin, trtllm-disaggregated"
        )
        .replace("unavailable", ADAPTERS["tensorrt-llm"].observed_version())
        .split()
    )


def test_without_adapters_it_says_what_to_install() -> None:
    with patch("inferlab_adapters.control.client.entry_points", return_value=[]):
        done = oe("adapters")
    assert (done.code, done.err) == (
        0,
        "oe: no adapter is installed; pip install oe-adapter-vllm, -sglang or -trtllm\n",
    )
