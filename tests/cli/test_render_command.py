"""``oe render``: table and json; the other formats have tests of their own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from inferlab_adapters.openengine.launch import unwrapped
from tests.cli.invoke import oe
from tests.support.control_plane import output
from tests.support.schema import check_response

ROOT = Path(__file__).parents[2]
PAIR = ROOT / "examples" / "deployments" / "vllm-prefill-decode.yaml"
RENDER = ROOT / "examples" / "render-single.json"


def test_the_table_has_a_block_a_process() -> None:
    done = oe("render", PAIR, "--engine-version", "0.32.0")
    assert done.code == 0
    blocks = done.out.strip().split("\n\n")
    names = [block.partition(":")[0] for block in blocks]
    assert names == ["prefill-000", "prefill-001", "decode", "router"]
    assert "after prefill-000, prefill-001, decode" in blocks[3].splitlines()[0]
    assert "  env   VLLM_NIXL_SIDE_CHANNEL_PORT=" in blocks[0]


def test_what_the_table_shows_is_the_command() -> None:
    shown = oe("render", PAIR).out
    answered = output(json.loads(oe("render", PAIR, "--format", "json").out))
    for process in answered["processes"]:
        block = shown[shown.index(f"{process['process']}: ") :].split("\n\n")[0]
        command = [line for line in block.splitlines()[1:] if not line.startswith("  env")]
        assert shlex.split(" ".join(command)) == process["command"]["argv"]


def test_json_is_the_response_on_the_wire() -> None:
    done = oe("render", PAIR, "--format", "json")
    check_response(json.loads(done.out))
    assert done.code == 0


def test_a_placed_request_is_rendered_as_it_is() -> None:
    done = oe("render", RENDER, "--framework", "vllm", "--format", "json")
    (process,) = output(json.loads(done.out))["processes"]
    assert unwrapped(process["command"]["argv"])[:2] == ["vllm", "serve"]
    table = oe("render", RENDER, "--framework", "vllm")
    assert table.out.startswith("server: on ")
    assert "-- vllm serve /models/qwen3-235b" in table.out
    for more in (["--format", "shell"], ["--inventory", "x.yaml"]):
        refused = oe("render", RENDER, "--framework", "vllm", *more)
        assert refused.code == 2
        assert "already placed" in refused.err


def test_a_placed_request_that_is_refused(tmp_path: Path) -> None:
    request = json.loads(RENDER.read_text())
    request["input"]["allocations"][0]["devices"] = [0]
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request))
    done = oe("render", file, "--framework", "vllm", "--format", "json")
    assert done.code == 1
    assert json.loads(done.out)["error"]["code"] == "invalid_request"
    assert "needs 8 devices" in oe("render", file, "--framework", "vllm").err


def test_machines_come_from_the_inventory(tmp_path: Path) -> None:
    inventory = tmp_path / "machines.yaml"
    inventory.write_text(
        "machines:\n"
        "- {name: small, address: 10.0.0.1, devices: 1, ports: 9000-9009}\n"
        "- {name: large, address: 10.0.0.2, devices: 4, ports: 9100-9109,"
        " launch: {ssh: ops@large}, models: {qwen3-8b: /data/qwen}}\n"
    )
    done = oe("render", PAIR, "--inventory", inventory)
    assert done.code == 0
    heads = [line for line in done.out.splitlines() if line and line[0] != " "]
    assert "on small, devices 0, 10.0.0.1 port 9000" in heads[0]
    assert "on large, devices 1,2, " in heads[2]
    assert "vllm serve /data/qwen" in done.out
    refused = oe(
        "render",
        "-",
        "--inventory",
        inventory,
        stdin=PAIR.read_text().replace("tensor: 2", "tensor: 8"),
    )
    assert refused.code == 1
    assert "needs 8 devices" in refused.err


def test_the_files_of_a_plan_are_read_from_the_workspace(tmp_path: Path) -> None:
    deployment = tmp_path / "trt.yaml"
    deployment.write_text(
        "framework: tensorrt-llm\nmodel: {id: m, path: /m}\n"
        "settings: {extra_llm_api_options: options.yaml}\n"
    )
    missing = oe("render", deployment)
    assert missing.code == 1
    assert "cannot read .inferlab/options.yaml" in missing.err
    folder = tmp_path / ".inferlab"
    folder.mkdir()
    (folder / "options.yaml").write_bytes(b"\xff")
    assert "is not UTF-8 at byte 0" in oe("render", deployment).err
    (folder / "options.yaml").write_text("enable_chunked_prefill: true\n")
    done = oe("render", deployment)
    assert done.code == 0
    assert "        enable_chunked_prefill: true" in done.out


@pytest.mark.parametrize("option", ["--machine", "--image"])
def test_options_of_compose_are_not_ignored(option: str) -> None:
    assert oe("render", PAIR, option, "x").code == 2
