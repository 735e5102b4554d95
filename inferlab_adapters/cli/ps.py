"""``oe ps``: the deployments that there are."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from inferlab_adapters.control.records import State
    from inferlab_adapters.control.state import Deployment


@click.command("ps")
@common.json_option
def command(as_json: bool) -> int:
    """List the deployments that are up, that failed, and that a crash left.

    "crashed" is one whose oe was killed: "oe down" cleans it. "failed" is one that was stopped
    because something went wrong: "oe down" forgets it.

    \b
    Examples:
      oe ps
      oe ps --json | jq '.[] | select(.status == "ready") | .endpoint'
    """
    from inferlab_adapters.control.state import StateRoot

    found = StateRoot.default().deployments()
    if as_json:
        print_json([{**asdict(state), "status": _status(at, state)} for at, state in found])
        return 0
    if not found:
        click.echo("no deployment is up")
        return 0
    rows = [_row(at, state) for at, state in found]
    print_table("deployments", ("name", "status", "processes", "endpoint", "age"), rows)
    for _, state in found:
        for text in filter(None, (state.reason, *state.left)):
            note(f"{state.name}: {text}")
    return 0


def _status(deployment: Deployment, state: State) -> str:
    if state.status == "failed" or deployment.supervised():
        return state.status
    return "crashed"


def _row(deployment: Deployment, state: State) -> tuple[str, ...]:
    from inferlab_adapters.addresses import url_host

    host, port = state.endpoint
    names = " ".join(process.name for process in state.processes)
    url = f"http://{url_host(host)}:{port}"
    return state.name, _status(deployment, state), names, url, age(time.time() - state.created)


def age(seconds: float) -> str:
    """A duration as people say it: ``12 s``, ``3 min``, ``5 h``, ``2 d``."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds / size)} {unit}"
    return f"{max(0, int(seconds))} s"
