"""Blocks of bash hand over exactly what was rendered, whatever it holds."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inferlab_adapters.cli.formats.blocks import Block, File, blocks, in_dependency_order
from inferlab_adapters.cli.formats.shell import block_text, script
from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.types import Json
from tests.cli.prepared import case, cases, prepared

RECORDER = """\
import json, os, sys
told = {"argv": sys.argv[1:], "env": dict(os.environ)}
json.dump(told, open(os.environ["RECORD"], "w", encoding="utf-8", errors="surrogateescape"))
"""

HOSTILE = st.sampled_from(
    ["'", '"', "$HOME", "`id`", "$(id)", "\\", "!", "#", "*", "~", "%s", "é", "😀"]
)
SPACES = st.sampled_from(["\n", "\r", "\t", " ", "\u2028", "\\n", "-n", "--", "=", "&&", "{a,b}"])
ENDS = st.sampled_from(["EOF", "EOF\n", "\nEOF\n", "EOF_\n"])
TEXT = st.lists(
    HOSTILE | SPACES | ENDS | st.text(st.characters(codec="utf-8", exclude_characters="\0"))
).map("".join)
NAMES = st.from_regex(r"OE_T_[A-Z0-9_]{1,8}", fullmatch=True)


def file_of(folder: str, name: str, text: str) -> File:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return File(f"{folder}/launch-files/{digest}/{name}", text, digest)


def block(
    argv: Sequence[str],
    env: Mapping[str, str],
    files: Sequence[File] = (),
    devices: tuple[int, ...] | None = (0, 1),
    **machine: Any,
) -> Block:
    allocation: Json = {
        "process": "server\nrm -rf /",
        "role": "serve",
        "rank": 0,
        "rank_count": 1,
        "devices": [1, 0],
        "endpoint": {"host": "::1", "port": 8000},
        "dependencies": [],
    }
    return Block(
        name=allocation["process"],
        kind="serve",
        argv=tuple(argv),
        env=env,
        files=tuple(files),
        allocation=allocation,
        machine=Machine(name="here", address="::1", devices=devices, ports=(), **machine),
        readiness={"kind": "http", "path": "/health"},
    )


def run(text: str, folder: str) -> dict[str, Any]:
    """What a process was given that bash started by running ``text``."""
    record = Path(folder, "record.json")
    env = {"PATH": os.environ["PATH"], "RECORD": str(record), "HOME": "/home/somebody"}
    subprocess.run(["bash"], input=text.encode(), env=env, cwd=folder, check=True)
    told: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return told


def recorder(folder: str) -> list[str]:
    """The beginning of a command that records the rest of it."""
    program = Path(folder, "recorder.py")
    program.write_text(RECORDER, encoding="utf-8")
    return [sys.executable, "-I", "-S", str(program)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    argv=st.lists(TEXT, max_size=6),
    env=st.dictionaries(NAMES, TEXT, max_size=4),
    texts=st.lists(TEXT, max_size=3),
)
def test_bash_hands_over_argv_env_and_files(
    argv: list[str], env: dict[str, str], texts: list[str]
) -> None:
    with TemporaryDirectory(prefix="it's $HOME ") as folder:
        files = [file_of(folder, f"file {index}.yaml", text) for index, text in enumerate(texts)]
        told = run(block_text(block([*recorder(folder), *argv], env, files)), folder)
        assert told["argv"] == argv
        assert {name: told["env"].get(name) for name in env} == env
        assert told["env"]["CUDA_VISIBLE_DEVICES"] == "1,0"
        assert told["env"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        for file in files:
            assert Path(file.path).read_bytes() == file.text.encode()


def test_files_come_out_byte_for_byte(tmp_path: Path) -> None:
    folder = str(tmp_path / "line\nend\\")
    Path(folder).mkdir()
    texts = ["", "a: 1", "a: 1\n", "EOF\n", "EOF\nEOF_\n", "a\n\n", "\n", "a\r\n"]
    files = [file_of(folder, "options.yaml", text) for text in texts]
    run(block_text(block(recorder(folder), {}, files)), folder)
    assert [Path(file.path).read_bytes() for file in files] == [text.encode() for text in texts]


def test_a_file_that_came_out_wrong_stops_the_block(tmp_path: Path) -> None:
    file = file_of(str(tmp_path), "options.yaml", "a: 1\n")
    text = block_text(block(recorder(str(tmp_path)), {}, [file])).replace("\na: 1\n", "\na: 2\n")
    with pytest.raises(subprocess.CalledProcessError):
        run(text, str(tmp_path))
    assert not (tmp_path / "record.json").exists()


def test_the_engine_environment_comes_first_on_a_path_that_nobody_set(tmp_path: Path) -> None:
    command = block(recorder(str(tmp_path)), {}, engine_env="/opt/my engine")
    assert run(block_text(command), str(tmp_path))["env"]["PATH"] == (
        f"/opt/my engine/bin:{os.environ['PATH']}"
    )
    own = replace(command, env={"PATH": "/own bin"})
    told = run(block_text(own), str(tmp_path))
    assert told["env"]["PATH"] == "/own bin"


def test_a_machine_without_gpus_sets_no_devices(tmp_path: Path) -> None:
    told = run(block_text(block(recorder(str(tmp_path)), {}, devices=None)), str(tmp_path))
    assert "CUDA_VISIBLE_DEVICES" not in told["env"]


def test_a_router_beside_gpus_sees_none_of_them(tmp_path: Path) -> None:
    command = block(recorder(str(tmp_path)), {})
    command = replace(command, allocation={**command.allocation, "devices": []})
    assert run(block_text(command), str(tmp_path))["env"]["CUDA_VISIBLE_DEVICES"] == ""


def test_bash_can_read_every_golden_case() -> None:
    scripts = [script(prepared(framework, golden)) for framework, golden in cases()]
    subprocess.run(["bash", "-n"], input="\n".join(scripts).encode(), check=True)


def test_a_script_says_what_runs_where_and_when() -> None:
    text = script(prepared("vllm", case("vllm", "1p1d-mooncake-vllm-router")))
    router = text[text.index("# router: role router") :]
    assert router.startswith(
        "# router: role router\n# machine: machine-2\n# devices: none\n"
        "# start after: prefill, decode\n# ready once this answers: http://10.0.0.3:8000/readiness"
    )


def test_a_remote_machine_is_named_with_its_ssh_target() -> None:
    text = script(prepared("sglang", case("sglang", "single-ssh")))
    assert "# machine: machine-0; run this block there: ssh gpu-2.cluster\n" in text


def test_processes_come_after_those_they_depend_on() -> None:
    wants = {"c": ["b", "a"], "b": ["a"], "a": [], "d": []}
    allocations = [{"process": name, "dependencies": needs} for name, needs in wants.items()]
    assert [a["process"] for a in in_dependency_order(allocations)] == ["a", "b", "c", "d"]


def test_blocks_carry_the_probe_of_their_rank() -> None:
    found = blocks(prepared("vllm", case("vllm", "two-node-tp16")))
    assert [block.readiness["kind"] for block in found] == ["http", "process_alive"]
