"""``oe render``: the command of every process, in several forms."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json
from inferlab_adapters.control.types import Json

if TYPE_CHECKING:
    from inferlab_adapters.control.client import Client

FORMATS = ("table", "json", "shell", "compose")


@click.command("render")
@common.file_argument
@common.framework_option
@common.inventory_option
@common.model_option
@common.engine_version_option
@common.engine_env_option
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="table: a block a process. json: the response of the adapter, as it is on the wire. "
    "shell: a script to copy from. compose: a Compose file.",
)
@click.option("--machine", metavar="NAME", help="Only the processes of this machine (compose).")
@click.option("--image", metavar="IMAGE", help="The container image of the servers (compose).")
def command(
    file: str,
    framework: str | None,
    inventory: str | None,
    model: str | None,
    engine_version: str | None,
    engine_env: Path | None,
    form: str,
    machine: str | None,
    image: str | None,
) -> int:
    """Place a deployment on machines and print the command of every process.

    Nothing is started. FILE may also be a whole render_serve request, which is already placed:
    then there is no inventory, and the format is table or json.

    \b
    Examples:
      oe render deployment.yaml
      oe render deployment.yaml --inventory machines.yaml --format shell > start.sh
      oe render deployment.yaml --format compose --image my/vllm:latest > compose.yaml
      oe render request.json --framework sglang --format json
    """
    if form != "compose" and (machine or image):
        raise click.UsageError("--machine and --image are for --format compose.")
    wanted = common.load_wanted(file, framework, model)
    if wanted.placed:
        if form not in ("table", "json") or inventory:
            what = "A render_serve request is already placed"
            raise click.UsageError(f"{what}: use no inventory, and --format table or json.")
        return _placed(wanted.request, common.connect(wanted, None, engine_version), form)
    from inferlab_adapters.control.prepare import prepare

    machines = common.load_inventory(inventory, engine_env)
    client = common.connect(wanted, machines, engine_version)
    prepared = prepare(wanted, client, machines)
    for text in prepared.notes:
        note(text)
    if form == "json":
        print_json(client.ask(prepared.render_request))
    elif form == "shell":
        from inferlab_adapters.cli.formats.shell import script

        click.echo(script(prepared), nl=False)
    elif form == "compose":
        from inferlab_adapters.cli.formats.compose import compose

        click.echo(compose(prepared, machine=machine, image=image), nl=False)
    else:
        show(prepared.allocations, prepared.rendered)
    return 0


def show(allocations: list[Json], rendered: Json) -> None:
    """Print a block a process."""
    for allocation, process in zip(allocations, rendered["processes"], strict=True):
        click.secho(f"{process['process']}: {where(allocation)}", bold=True)
        for line in lines(process["command"]["argv"]):
            click.echo(f"  {line}")
        for name, value in process["command"]["env"].items():
            click.echo(f"  env   {name}={shlex.quote(value)}")
        for file in process["launch_files"]:
            click.echo(f"  file  {allocation['cache'].rstrip('/')}/{file['relative_path']}")
            for line in file["text"].splitlines():
                click.echo(f"        {line}")
        click.echo()


def where(allocation: Json) -> str:
    """Rank, machine, devices and address of a process."""
    parts = []
    if allocation["rank_count"] > 1:
        parts.append(f"rank {allocation['rank']} of {allocation['rank_count']}")
    parts.append(f"on {allocation['machine']}")
    if allocation["devices"]:
        parts.append("devices " + ",".join(map(str, allocation["devices"])))
    endpoint = allocation.get("endpoint")
    if endpoint:
        parts.append(f"{endpoint['host']} port {endpoint['port']}")
    if allocation["dependencies"]:
        parts.append("after " + ", ".join(allocation["dependencies"]))
    return ", ".join(parts)


def lines(argv: list[str]) -> list[str]:
    """A command for reading: the program, then a line an option; quoted as a shell would."""
    found: list[str] = []
    for token in argv:
        if found and not token.startswith("--"):
            found[-1] += f" {shlex.quote(token)}"
        else:
            found.append(("  " if found else "") + shlex.quote(token))
    return found


def _placed(request: Json, client: Client, form: str) -> int:
    if form == "json":
        response = client.ask(request)
        print_json(response)
        return int(response["status"] != "ok")
    rendered = client.render(request)
    for text in client.notes:
        note(text)
    show(request["input"]["allocations"], rendered)
    return 0
