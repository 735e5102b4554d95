"""``oe explain``: why a command is as it is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json, print_table
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault, did_you_mean, shown

if TYPE_CHECKING:
    from inferlab_adapters.control.asked import Reason
    from inferlab_adapters.control.wanted import Wanted
    from inferlab_adapters.origins import Origin, ProcessTrace, Traced

_COLUMNS = ("what", "from", "where", "why")


@click.command("explain")
@common.file_argument
@common.framework_option
@common.inventory_option
@common.model_option
@common.engine_version_option
@common.engine_env_option
@click.option("--process", metavar="P", help="Only this process, by its name.")
@common.json_option
def command(
    file: str,
    framework: str | None,
    inventory: str | None,
    model: str | None,
    engine_version: str | None,
    engine_env: Path | None,
    process: str | None,
    as_json: bool,
) -> int:
    """Say where every token, variable and line of a file comes from, and why.

    "from" is the request, the parallelism (a size, or what follows from sizes), a setting, the
    allocation (what placement gave the process), the adapter itself, or one of its defaults.
    "where" is the place in FILE.

    \b
    Examples:
      oe explain deployment.yaml
      oe explain deployment.yaml --process decode-001
    """
    wanted = common.load_wanted(file, framework, model)
    traces: list[ProcessTrace] = []
    if wanted.placed:
        common.refuse_inventory(inventory)
        client = common.connect(wanted, None, engine_version)
        client.render(wanted.request, traces.append)
        request, allocations = wanted.request, wanted.request["input"]["allocations"]
    else:
        from inferlab_adapters.control.prepare import prepare

        machines = common.load_inventory(inventory, engine_env)
        client = common.connect(wanted, machines, engine_version)
        prepared = prepare(wanted, client, machines, trace=traces.append)
        request, allocations = prepared.request, prepared.allocations
    for text in client.notes:
        note(text)
    explained = [
        _explained(trace, _reasons(wanted, request, allocations))
        for trace in _chosen(traces, process)
    ]
    if as_json:
        print_json(explained)
    else:
        for item in explained:
            show(item)
    return 0


def show(explained: Json) -> None:
    """Print the explanation of one process; tokens of one reason share a row."""
    for title, rows in (
        (f"{explained['process']}: argv", explained["argv"]),
        (f"{explained['process']}: env", explained["env"]),
        *((file["path"], file["lines"]) for file in explained["files"]),
    ):
        if rows:
            joined = shlex.join if rows is explained["argv"] else "\n".join
            print_table(title, _COLUMNS, _rows(rows, joined))


def _rows(items: list[Json], joined: Callable[[list[str]], str]) -> list[Sequence[str]]:
    def same(item: Json) -> tuple[str, ...]:
        return item["from"], item["where"], item["why"]

    if joined is not shlex.join:
        return [(item["text"], *same(item)) for item in items]
    return [(joined([item["text"] for item in group]), *key) for key, group in groupby(items, same)]


def _reasons(wanted: Wanted, request: Json, allocations: list[Json]) -> Callable[[Origin], Reason]:
    from inferlab_adapters.control.asked import reason

    return lambda origin: reason(origin, wanted, request, allocations)


def _explained(trace: ProcessTrace, reason: Callable[[Origin], Reason]) -> Json:
    def told(items: Sequence[Traced]) -> list[Json]:
        found = []
        for item in items:
            why = reason(item.origin)
            found.append(
                {"text": item.text, "from": why.source, "where": why.place, "why": why.why}
            )
        return found

    return {
        "process": trace.process,
        "argv": told(trace.argv),
        "env": told(trace.env),
        "files": [{"path": file.path, "lines": told(file.lines)} for file in trace.files],
    }


def _chosen(traces: list[ProcessTrace], process: str | None) -> list[ProcessTrace]:
    if process is None:
        return traces
    found = [trace for trace in traces if trace.process == process]
    if not found:
        from inferlab_adapters.control.refusal import Refused

        names = [trace.process for trace in traces]
        hint = did_you_mean(process, names) or f"there are {', '.join(names)}"
        raise Refused(Fault("", f"no process is called {shown(process)}", hint))
    return found
