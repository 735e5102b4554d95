"""``oe logs``: what the processes of a deployment print."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import click

_POLL_SECONDS = 0.2


@click.command("logs")
@click.argument("name")
@click.argument("process", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until the deployment ends.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="How many lines of each process to begin with.",
)
def command(name: str, process: str | None, follow: bool, lines: int) -> int:
    """Show what the processes of a deployment print.

    Of one that is down, what they printed when it was up last. With several processes, each line
    begins with the name of its process.

    \b
    Examples:
      oe logs deployment
      oe logs deployment decode-001 -f -n 20
    """
    from inferlab_adapters.control.logs import tail
    from inferlab_adapters.control.state import StateRoot

    deployment = StateRoot.default().deployment(name)
    chosen = _choose(deployment.log_files(), name, process)
    width = max(map(len, chosen)) if len(chosen) > 1 else 0
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for label, path in chosen.items():
            # Where to go on is settled before the end is read: no line is lost in between.
            files[label] = stack.enter_context(open(path, "rb"))
            end = files[label].seek(0, 2)
            for line in tail(path, lines, end=end):
                _print(label, line, width)
        while follow:
            last = not deployment.supervised()
            for label, file in files.items():
                _print_new(label, file, width, last=last)
            if last:
                break
            time.sleep(_POLL_SECONDS)
    return 0


def _choose(logs: dict[str, Path], name: str, process: str | None) -> dict[str, Path]:
    from inferlab_adapters.control.refusal import Refused
    from inferlab_adapters.errors import Fault, did_you_mean, one_of

    if not logs:
        raise Refused(Fault("", f"there are no logs of {name}", "oe ps lists the deployments"))
    if process is None:
        return logs
    if process not in logs:
        hint = did_you_mean(process, logs) or f"it has {one_of(logs)}"
        raise Refused(Fault("", f"{name} has no process {process}", hint))
    return {process: logs[process]}


def _print_new(label: str, file: BinaryIO, width: int, *, last: bool) -> None:
    """The whole lines since the last time; at the end also a line without its end."""
    start = file.tell()
    data = file.read()
    if not last:
        whole = data.rfind(b"\n") + 1
        file.seek(start + whole)
        data = data[:whole]
    for line in data.decode(errors="replace").splitlines():
        _print(label, line, width)


def _print(label: str, line: str, width: int) -> None:
    click.echo(f"{label.ljust(width)} | {line}" if width else line)
