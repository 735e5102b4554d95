"""Golden cases: what is asked, and the whole answer as it is pinned in a folder.

A framework keeps a table of :class:`Case` in ``tests/golden/<framework>/cases.py``; each case
owns the folders ``<name>-plan`` and ``<name>-render`` (or just ``<name>`` for a refusal), with
``request.json`` and ``response.json``. ``pytest --update-golden`` writes them anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferlab_adapters.adapter import Adapter
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    ask,
    check_plan,
    check_render,
    output,
    plan_request,
    refused,
    render_request,
    role,
)

GOLDEN = Path(__file__).parent.parent / "golden"


INV, REQ = "invalid_settings", "invalid_request"
SSH = {"kind": "ssh", "target": "gpu-2.cluster"}


def pair(
    prefill: Json | None = None, decode: Json | None = None, kv: str = "nixl", **fields: Any
) -> Json:
    """A prefill/decode plan request."""
    return plan_request(
        prefill or role("prefill"), decode or role("decode"), kv_transfer=kv, **fields
    )


def single(**settings: Any) -> Json:
    """A plan request for one server with these settings."""
    return plan_request(role(settings=settings))


def put(path: str, value: Any) -> Callable[[Json], None]:
    """Put ``value`` at a path of the render input; ``None`` removes what is there."""

    def spoil(render: Json) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
        node: Any = render
        for part in parents:
            node = node[part]
        if value is None:
            del node[last]
        else:
            node[last] = value

    return spoil


def hosts(value: str) -> Callable[[Json], None]:
    """Give the first allocation another host, in its endpoint and all its ports."""

    def spoil(render: Json) -> None:
        allocation = render["allocations"][0]
        for address in (allocation["endpoint"], *allocation["ports"].values()):
            address["host"] = value

    return spoil


@dataclass(kw_only=True)
class Case:
    """A deployment that plans and renders, given the texts of ``files`` by their path."""

    name: str
    request: Json
    placement: Placement = field(default_factory=Placement)
    files: Mapping[str, str] = field(default_factory=dict)
    version: str = "0.32.0"


@dataclass(kw_only=True)
class Refusal:
    """A request that is refused with ``code``.

    With ``spoil``, the request is planned, allocated and then changed by ``spoil`` before it is
    rendered; without, the plan request itself is refused.
    """

    name: str
    request: Json
    code: str
    placement: Placement = field(default_factory=Placement)
    files: Mapping[str, str] = field(default_factory=dict)
    spoil: Callable[[Json], None] | None = None
    version: str = "0.32.0"


@dataclass(frozen=True)
class Exchange:
    """One folder: a request and the answer it must get."""

    name: str
    request: Json
    response: Json


def exchanges(adapter: Adapter, case: Case | Refusal) -> Iterator[Exchange]:
    """Run a case and yield what its folders must hold."""
    request = case.request
    response = ask(adapter, request, case.version)
    if isinstance(case, Refusal) and case.spoil is None:
        assert refused(response)[0] == case.code
        yield Exchange(case.name, request, response)
        return
    plan = output(response)
    check_plan(request, plan, adapter.framework)
    allocations = allocate(plan, case.placement)
    render = render_request(request, plan, allocations)
    if case.files:
        render["input"]["render_inputs"] = supplied(case.files)
    if isinstance(case, Refusal):
        assert case.spoil is not None
        render = json.loads(json.dumps(render))
        case.spoil(render["input"])
        answer = ask(adapter, render, case.version)
        assert refused(answer)[0] == case.code
        yield Exchange(case.name, render, answer)
        return
    answer = ask(adapter, render, case.version)
    check_render(plan, allocations, output(answer))
    yield Exchange(f"{case.name}-plan", request, response)
    yield Exchange(f"{case.name}-render", render, answer)


def supplied(files: Mapping[str, str]) -> list[Json]:
    """Render inputs, as a control plane sends them that has read these files."""
    return [
        {
            "source_path": path,
            "text": text,
            "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest(),
        }
        for path, text in files.items()
    ]


def folders(framework: str) -> Mapping[str, Path]:
    """The golden folders of a framework, by name."""
    return {path.parent.name: path.parent for path in (GOLDEN / framework).glob("*/request.json")}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def rendered_processes(framework: str) -> Iterator[tuple[str, Json]]:
    """Every process of every golden render: (test id, process)."""
    for name, folder in sorted(folders(framework).items()):
        response = read(folder / "response.json")
        if response["status"] == "ok" and response["result"]["operation"] == "render_serve":
            for process in response["result"]["output"]["processes"]:
                yield f"{name}:{process['process']}", process
