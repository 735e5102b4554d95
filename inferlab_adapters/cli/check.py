"""``oe check``: everything that would be refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault

if TYPE_CHECKING:
    from inferlab_adapters.control.client import Client
    from inferlab_adapters.control.wanted import Wanted


@click.command("check")
@common.file_argument
@common.framework_option
@common.inventory_option
@common.model_option
@common.engine_version_option
@click.option(
    "--against",
    metavar="ENGINE_ENV",
    type=click.Path(path_type=Path),
    help="Also ask the engine's own parser in this virtual environment, whose version counts.",
)
@common.json_option
def command(
    file: str,
    framework: str | None,
    inventory: str | None,
    model: str | None,
    engine_version: str | None,
    against: Path | None,
    as_json: bool,
) -> int:
    """Find everything that plan and render would refuse.

    Each fault is a line: where in FILE, what is wrong, what to do. Faults of a placed deployment
    (addresses, files, what the engine's own parser says) show once the plan itself is sound.

    \b
    Examples:
      oe check deployment.yaml
      oe check deployment.yaml --engine-version 0.33.0
      oe check deployment.yaml --against .engines/vllm
    """
    from inferlab_adapters.control.refusal import Refused

    if against is not None and engine_version is not None:
        raise click.UsageError("--against brings its own engine version: leave one out.")
    faults: list[Fault] = []
    processes: list[Json] = []
    notes: list[str] = []
    client = None
    try:
        wanted = common.load_wanted(file, framework, model)
        client = _client(wanted, engine_version, against)
        processes = _rendered(wanted, client, inventory)
        if against is not None:
            said, asides = _engine_says(client, against, processes)
            faults += said
            notes += asides
    except Refused as refused:
        faults += refused.faults
    notes = [*(client.notes if client else ()), *notes]
    if as_json:
        print_json(
            {
                "framework": client.adapter.framework if client else None,
                "framework_version": client.framework_version if client else None,
                "processes": [process["process"] for process in processes],
                "faults": [
                    {"pointer": fault.pointer, "what": fault.what, "fix": fault.hint}
                    for fault in faults
                ],
                "notes": notes,
            }
        )
        return int(bool(faults))
    for text in notes:
        note(text)
    if faults:
        raise Refused(*faults, source="stdin" if file == "-" else file)
    assert client is not None
    version = f"{client.adapter.framework} {client.framework_version}"
    how = "and its own parser takes" if against else "would start"
    count = f"{len(processes)} process{'es' if len(processes) != 1 else ''}"
    click.echo(f"{file}: fine for {version}, {how} {count}")
    return 0


def _client(wanted: Wanted, engine_version: str | None, against: Path | None) -> Client:
    from inferlab_adapters.control.client import connect

    return connect(wanted.framework, engine_version=engine_version, engine_env=against)


def _rendered(wanted: Wanted, client: Client, inventory: str | None) -> list[Json]:
    if wanted.placed:
        common.refuse_inventory(inventory)
        rendered = client.render(wanted.request)
    else:
        from inferlab_adapters.control.prepare import prepare

        machines = common.load_inventory(inventory, None)
        rendered = prepare(wanted, client, machines).rendered
    processes: list[Json] = rendered["processes"]
    return processes


def _engine_says(
    client: Client, against: Path, processes: list[Json]
) -> tuple[list[Fault], list[str]]:
    from inferlab_adapters.control.real_parser import ask

    argvs = [process["command"]["argv"] for process in processes]
    faults, notes = [], []
    for process, answer in zip(processes, ask(client.adapter, against, argvs), strict=True):
        name = process["process"]
        if "error" in answer:
            faults.append(Fault("", f"the engine refuses the command of {name}: {answer['error']}"))
        if "note" in answer:
            notes.append(f"{name}: {answer['note']}")
    return faults, notes
