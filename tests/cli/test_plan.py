"""``oe plan``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invoke import oe
from tests.support.control_plane import output
from tests.support.schema import check_response

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = ROOT / "examples" / "deployments"
PAIR = DEPLOYMENTS / "vllm-prefill-decode.yaml"


def test_the_table_says_roles_replicas_ports_and_links() -> None:
    done = oe("plan", PAIR, "--engine-version", "0.32.0")
    assert (done.code, done.err) == (0, "")
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == "vllm 0.32.0, planned by oe-adapter-vllm 0.1.0:"
    assert any(line.startswith("decode decode 1 2 tp 2, attention tp 2,") for line in lines)
    assert "prefill-001 prefill 1 openengine, side_channel master GET /v1/models" in lines
    assert "side_channel prefill decode port side_channel" in lines
    assert "kv_transfer prefill decode nixl" in lines
    assert "routing the engine's own router, role router, round_robin" in lines
    assert "chat /v1/chat/completions" in lines


def test_a_registry_and_a_reset_are_said() -> None:
    pair = (
        "framework: sglang\nmodel: m\nkv_transfer: nixl\nrouting: sglang-router\n"
        "roles: {prefill: , decode: }"
    )
    done = oe("plan", "-", stdin=pair)
    assert "GET /readiness, all servers healthy in /workers" in done.out
    single = "framework: vllm\nmodel: m\nsettings: {dev_endpoints: true}"
    assert "POST /reset_prefix_cache" in oe("plan", "-", stdin=single).out


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_json_is_the_response_on_the_wire(engine: str) -> None:
    file = ROOT / "examples" / f"{engine}-cpu-single.json"
    done = oe("plan", file, "--framework", engine, "--json")
    assert done.code == 0
    response = json.loads(done.out)
    check_response(response)
    assert output(response)["replicas"][0]["id"] == "server"


def test_a_refusal_on_the_wire_is_still_json() -> None:
    text = "framework: vllm\nmodel: m\nsettings: {nothing: 1}"
    done = oe("plan", "-", "--json", "--engine-version", "0.33.0", stdin=text)
    assert (done.code, done.err) == (1, "")
    response = json.loads(done.out)
    check_response(response)
    assert response["error"]["code"] == "invalid_settings"


def test_a_fault_is_named_at_its_place_in_the_file() -> None:
    text = PAIR.read_text().replace("max_num_seqs", "max_num_seqz")
    done = oe("plan", "-", "--engine-version", "0.33.0", stdin=text)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("oe: stdin: /roles/decode/settings/max_num_seqz: ")
    assert 'did you mean "max_num_seqs"?' in done.err


def test_one_common_fault_of_two_roles_is_one_line() -> None:
    text = PAIR.read_text().replace("gpu_memory_utilization: 0.9\n", "gpu_memory_utilization: x\n")
    text = text.replace("      gpu_memory_utilization: 0.85\n", "")
    done = oe("plan", "-", stdin=text)
    assert done.err.count("/settings/gpu_memory_utilization: must be a number") == 1


def test_a_request_needs_its_framework_and_a_plan() -> None:
    request = ROOT / "examples" / "vllm-cpu-single.json"
    assert "add --framework" in oe("plan", request).err
    assert "did you mean" in oe("plan", request, "--framework", "vlm").err
    render = ROOT / "examples" / "render-single.json"
    done = oe("plan", render, "--framework", "vllm")
    assert done.code == 1
    assert "/operation: is already planned" in done.err


def test_an_engine_version_chooses_the_catalogue() -> None:
    text = "framework: vllm\nmodel: m\nsettings: {no_such_thing: 1}"
    assert (
        "no option of version 0.32.0"
        in oe("plan", "-", "--engine-version", "0.32.0", stdin=text).err
    )
    done = oe("plan", "-", "--engine-version", "0.99.0", stdin=text)
    assert done.code == 0
    assert "not in the catalogue" in done.err


def test_an_engine_environment_says_its_version(tmp_path: Path) -> None:
    text = "framework: vllm\nmodel: m"
    done = oe("plan", "-", "--engine-env", tmp_path, stdin=text)
    assert done.code == 1
    assert "is no virtual environment" in done.err
    metadata = tmp_path / "lib/python3.11/site-packages/vllm-0.33.1.dist-info/METADATA"
    metadata.parent.mkdir(parents=True)
    assert "vllm unavailable" in oe("plan", "-", "--engine-env", tmp_path, stdin=text).out
    metadata.write_text("Name: vllm\nVersion: 0.33.1\n")
    assert "vllm 0.33.1" in oe("plan", "-", "--engine-env", tmp_path, stdin=text).out


def test_without_an_engine_it_says_whose_options_count() -> None:
    done = oe("plan", "-", stdin="framework: vllm\nmodel: m")
    assert done.code == 0
    assert "oe: no vllm is installed here, so that the options of 0.33.0 count" in done.err
    assert (
        "oe:"
        not in oe("plan", "-", "--engine-version", "0.33.0", stdin="framework: vllm\nmodel: m").err
    )
