"""What people see: coloured and boxed on a terminal, plain text everywhere else."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console


def is_terminal() -> bool:
    """Whether standard output is looked at by a person."""
    return sys.stdout.isatty()


def console() -> Console:
    """Standard output through rich, which obeys NO_COLOR; for terminals."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not is_terminal())


def note(text: str) -> None:
    """A warning for people, beside whatever goes to standard output."""
    click.echo(f"oe: {text}", err=True)


def print_json(value: Any) -> None:
    """One JSON document, indented, in the order of its keys."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: boxed on a terminal, else columns of plain text that nothing cuts or wraps."""
    if is_terminal():
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, title_justify="left", header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console().print(table)
        return
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    click.echo(f"{title}:")
    for row in (columns, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  " + "  ".join(cells).rstrip())
