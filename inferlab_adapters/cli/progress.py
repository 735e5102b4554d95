"""What a launch reports, as people see it: a live table on a terminal, else a line an event."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli.output import console, is_terminal
from inferlab_adapters.control.events import Event, Report

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {"ready": "green", "up": "bold green", "waiting": "yellow", "stopping": "magenta"}


@contextmanager
def progress() -> Iterator[Report]:
    """Show events until the end of the block."""
    if not is_terminal():
        yield lambda event: click.echo(str(event))
        return
    from rich.live import Live
    from rich.text import Text

    board = _Board()
    with Live(console=console(), get_renderable=board.table, refresh_per_second=4) as live:

        def report(event: Event) -> None:
            board.note(event)
            live.refresh()
            if not event.process:
                live.console.print(Text(str(event), style=_STYLES.get(event.stage, "")))

        yield report


class _Board:
    """The last event of every process."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._last: dict[str, Event] = {}

    def note(self, event: Event) -> None:
        if event.process:
            self._last[event.process] = event
        elif event.stage == "stopped":
            self._last.clear()

    def table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for name, event in self._last.items():
            style = _STYLES.get(event.stage, "")
            table.add_row(Text(name, style="bold"), Text(event.text, style=style))
        if any(event.stage in ("starting", "started", "waiting") for event in self._last.values()):
            table.add_row("", Text(f"{time.monotonic() - self._begin:.0f} s", style="dim"))
        return table
