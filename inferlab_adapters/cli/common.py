"""Options that several commands share, and the way from a FILE to what it asks for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from inferlab_adapters.control.client import Client
    from inferlab_adapters.control.inventory import Inventory
    from inferlab_adapters.control.wanted import Wanted

FRAMEWORKS = ("vllm", "sglang", "tensorrt-llm")

file_argument = click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
framework_option = click.option(
    "--framework",
    metavar="NAME",
    help=f"The engine of a wire request: {', '.join(FRAMEWORKS)}. A deployment file names its own.",
)
inventory_option = click.option(
    "--inventory",
    metavar="FILE",
    type=click.Path(),
    help="The machines, see docs/inventory.md; left out, this machine.",
)
engine_env_option = click.option(
    "--engine-env",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The virtual environment that holds the engine: its version counts, and commands run in "
    "it on this machine.",
)
engine_version_option = click.option(
    "--engine-version",
    metavar="X",
    help="Plan for this version of the engine instead of the installed one.",
)
model_option = click.option(
    "--model",
    metavar="PATH",
    help="Where machines have the model, in place of model.path; the inventory's models win.",
)
name_option = click.option("--name", metavar="NAME", help="Its name, instead of the one in FILE.")
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=1800,
    show_default=True,
    metavar="SECONDS",
    help="How long it may take until everything is ready.",
)
grace_option = click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="SECONDS",
    help="How long processes may take to end when asked; then they are killed.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def refuse_inventory(inventory: str | None) -> None:
    """Where a request is placed, machines would change nothing."""
    if inventory:
        raise click.UsageError("A render_serve request is already placed: use no inventory.")


def load_wanted(file: str, framework: str | None, model: str | None = None) -> Wanted:
    """What FILE asks for, with ``model`` as the path of its model. Raises :class:`Refused`."""
    from inferlab_adapters.control import wanted

    found = wanted.load(file, framework=framework, stdin=sys.stdin.buffer)
    if model is None:
        return found
    # A folder as seen from here, not from where the processes run; else the name of a model.
    here = Path(model).expanduser()
    return replace(found, model_path=str(here.absolute()) if here.is_dir() else model)


def load_inventory(file: str | None, engine_env: Path | None) -> Inventory:
    """The machines; ``engine_env`` takes the place of what local ones name.

    Raises :class:`Refused`.
    """
    from inferlab_adapters.control import inventory

    found = inventory.load(file)
    if engine_env is None:
        return found
    folder = str(engine_env.absolute())
    machines = (m if m.ssh else replace(m, engine_env=folder) for m in found.machines)
    return replace(found, machines=tuple(machines))


def connect(wanted: Wanted, inventory: Inventory | None, engine_version: str | None) -> Client:
    """The adapter that FILE needs, for the engine of the first local machine that names one.

    Raises :class:`Refused`.
    """
    from inferlab_adapters.control.client import connect

    machines = inventory.machines if inventory else ()
    named = (machine.engine_env for machine in machines if machine.engine_env and not machine.ssh)
    folder = next(named, None)
    return connect(
        wanted.framework,
        engine_version=engine_version,
        engine_env=Path(folder) if folder else None,
    )
