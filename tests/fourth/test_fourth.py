"""A fourth adapter, for an engine that does not exist, built from docs/adding-an-adapter.md alone.

The page holds the adapter's files as they are here, so that it cannot drift. The adapter goes
through the property tests in tests/properties; it is not installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.fourth.cases import CASES, REFUSALS
from tests.fourth.toy.oe_adapter_toy import ADAPTER as TOY
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    argv_of,
    check_plan,
    check_render,
    env_of,
    output,
    render_request,
    serve,
)
from tests.support.engines import ROOT
from tests.support.golden import Case, Refusal, exchanges
from tests.support.schema import check_request, check_response

HERE = Path(__file__).parent
PAGE = (ROOT / "docs" / "adding-an-adapter.md").read_text(encoding="utf-8")
PROJECT = HERE / "toy"
FILES = {
    f"integrations/toy/{path.relative_to(PROJECT).as_posix()}": path
    for path in sorted(PROJECT.rglob("*"))
    if path.suffix in (".py", ".toml", ".json")
} | {"tests/golden/toy/cases.py": HERE / "cases.py"}
"""The files of the example, by the place that the page gives them."""

SIX = ("settings", "parallelism", "options", "plan", "render", "kv_transfer")


# -- the adapter -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [*CASES, *REFUSALS], ids=lambda case: str(case.name))
def test_every_case_goes_through_the_edge_and_the_control_plane(case: Case | Refusal) -> None:
    for exchange in exchanges(TOY, case):
        check_request(exchange.request)


def test_a_pair_is_rendered_as_the_page_says() -> None:
    case = next(case for case in CASES if case.name.startswith("1p1d"))
    plan, allocations, rendered = serve(TOY, case.request, case.placement, case.version)
    assert plan["routing"]["implementation"] == "vllm_nixl"
    assert argv_of(rendered, "prefill") == [
        *("toy", "serve", "/models/llama", "--served-name", "llama-8b"),
        *("--host", "10.0.0.1", "--port", "8000", "--tensor-size", "2"),
        *("--transfer-role", "prefill"),
    ]
    env = env_of(rendered, "decode")
    assert env["TOY_SIDE_CHANNEL_HOST"] == "10.0.0.2"
    assert env["TOY_SIDE_CHANNEL_PORT"] == str(allocations[1]["ports"]["side_channel"]["port"])
    assert env["UCX_TLS"].startswith("tcp")


def test_two_ranks_meet_at_rank_0() -> None:
    case = next(case for case in CASES if case.name.startswith("two-node"))
    _, _, rendered = serve(TOY, case.request, case.placement, case.version)
    tail = ["--tensor-size", "4", "--rank", "1", "--ranks", "2", "--master", "10.0.0.1:8001"]
    assert argv_of(rendered, "server-rank-001")[5:] == tail


def test_it_runs_as_a_program(tmp_path: Path) -> None:
    metadata = tmp_path / "toy_engine-1.0.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: toy-engine\nVersion: 1.0.0\n")
    path = os.pathsep.join([str(PROJECT), str(tmp_path)])

    def ask(request: Json) -> Json:
        done = subprocess.run(
            [sys.executable, "-m", "oe_adapter_toy"],
            input=json.dumps(request).encode(),
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
        response: Json = json.loads(done.stdout)
        check_response(response)
        return output(response)

    for case in CASES:
        plan = ask(case.request)
        assert plan["integration"]["framework_version"] == "1.0.0"
        check_plan(case.request, plan, "toy")
        allocations = allocate(plan, Placement(ranks=case.placement.ranks))
        rendered = ask(render_request(case.request, plan, allocations))
        check_render(plan, allocations, rendered)


def test_its_project_would_install_what_a_control_plane_looks_for() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == TOY.name
    assert project["version"] == TOY.version
    main = "oe_adapter_toy.__main__:main"
    assert project["scripts"] == {TOY.name: main, f"inferlab-adapter-{TOY.framework}": main}
    group = project["entry-points"]["inferlab_adapters.adapters"]
    assert group == {TOY.framework: "oe_adapter_toy:ADAPTER"}


# -- the page ----------------------------------------------------------------------------------


def test_the_page_holds_the_files_as_they_are() -> None:
    blocks = re.findall(r"^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == PAGE.count("\n```") // 2
    assert dict(blocks) == {
        place: path.read_text(encoding="utf-8") for place, path in FILES.items()
    }


def test_the_page_counts_honestly() -> None:
    lines = {
        place: len(path.read_text(encoding="utf-8").splitlines()) for place, path in FILES.items()
    }
    six = sum(lines[f"integrations/toy/oe_adapter_toy/{name}.py"] for name in SIX)
    stated = re.search(r"six files have (\d+) lines, the whole example (\d+)", PAGE)
    assert stated is not None
    assert tuple(map(int, stated.groups())) == (six, sum(lines.values()))


def test_the_page_names_files_and_folders_that_exist() -> None:
    folders = "inferlab_adapters|tests|scripts|docs|integrations"
    named = set(re.findall(rf"`((?:{folders})/[^`<> ]*)`", PAGE)) - FILES.keys()
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
