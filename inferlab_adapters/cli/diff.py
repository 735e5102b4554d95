"""``oe diff``: what differs between two deployments, engine versions or engines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING

import click

from inferlab_adapters.catalogue import UNAVAILABLE
from inferlab_adapters.cli import common, diff_text
from inferlab_adapters.cli.output import console, is_terminal, note, print_json
from inferlab_adapters.control.inventory import Inventory, Machine
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.errors import Fault

if TYPE_CHECKING:
    from inferlab_adapters.control.wanted import Wanted

_PORTS = tuple(range(8000, 32000))
_STYLES = {"-": "red", "+": "green", "@": "cyan"}


@click.command("diff")
@click.argument("files", metavar="FILE [FILE]", nargs=-1, type=click.Path(allow_dash=True))
@common.framework_option
@common.inventory_option
@common.engine_version_option
@click.option("--versions", nargs=2, metavar="X Y", help="Compare two engine versions of FILE.")
@click.option("--frameworks", nargs=2, metavar="A B", help="Compare two engines for FILE.")
@common.json_option
def command(
    files: tuple[str, ...],
    framework: str | None,
    inventory: str | None,
    engine_version: str | None,
    versions: tuple[str, str] | None,
    frameworks: tuple[str, str] | None,
    as_json: bool,
) -> int:
    """Compare two deployments, two engine versions of one, or two engines for one.

    Shows what changes in the plan and in each process. Roles, processes and options are paired by
    what they are, not by name or position. Without --inventory all is placed on one imagined
    machine of any size. What only one side refuses is a difference: with --frameworks, settings
    that an engine refuses are told and left out. Differences are no failure: the exit code is 0.

    \b
    Examples:
      oe diff before.yaml after.yaml
      oe diff deployment.yaml --versions 0.32.0 0.33.0
      oe diff deployment.yaml --frameworks vllm sglang
    """
    _check_usage(files, framework, engine_version, versions, frameworks)
    machines = common.load_inventory(inventory, None) if inventory else None
    pairs: list[tuple[str, Wanted, str | None]]
    if frameworks:
        wanted = _either(files[0], frameworks[0])
        pairs = [(name, replace(wanted, framework=name), None) for name in frameworks]
    elif versions:
        wanted = common.load_wanted(files[0], framework)
        pairs = [(version, wanted, version) for version in versions]
    else:
        pairs = [(file, common.load_wanted(file, framework), engine_version) for file in files]
    before, after = (_side(*pair, machines, translate=bool(frameworks)) for pair in pairs)
    if before.prepared is None and after.prepared is None:
        raise Refused(*(Fault("", f"{s.title}: {r}") for s in (before, after) for r in s.refusals))
    comparison = None
    if before.prepared and after.prepared:
        from inferlab_adapters.control.compare import compare

        comparison = compare(before.prepared, after.prepared)
    if as_json:
        print_json(diff_text.data(before, after, comparison))
    else:
        _print(diff_text.lines(before, after, comparison))
    return 0


def _check_usage(
    files: Sequence[str],
    framework: str | None,
    engine_version: str | None,
    versions: tuple[str, str] | None,
    frameworks: tuple[str, str] | None,
) -> None:
    if versions and frameworks:
        raise click.UsageError("--versions and --frameworks exclude each other.")
    takes = 1 if versions or frameworks else 2
    if len(files) != takes:
        what = "one FILE with --versions or --frameworks, two without"
        raise click.UsageError(f"Takes {what}; got {len(files)}.")
    if files.count("-") > 1:
        raise click.UsageError("Only one FILE can be standard input.")
    if engine_version and (versions or frameworks):
        raise click.UsageError("--engine-version is for two files.")
    if framework and frameworks:
        raise click.UsageError("--framework is said by --frameworks.")


def _either(file: str, framework: str) -> Wanted:
    """What FILE asks for, whether it names an engine or leaves that to the command line."""
    from inferlab_adapters.control import wanted

    raw = sys.stdin.buffer.read() if file == "-" else b""
    try:
        return wanted.load(file, framework=None, stdin=BytesIO(raw))
    except Refused as refused:
        try:
            return wanted.load(file, framework=framework, stdin=BytesIO(raw))
        except Refused as again:
            raise min(refused, again, key=lambda error: len(error.faults)) from None


def _side(
    title: str,
    wanted: Wanted,
    engine_version: str | None,
    inventory: Inventory | None,
    *,
    translate: bool,
) -> diff_text.Side:
    from inferlab_adapters.control.acceptable import acceptable
    from inferlab_adapters.control.prepare import prepare

    client = common.connect(wanted, inventory, engine_version)
    if translate and client.framework_version == UNAVAILABLE:
        # Without a version nothing is refused, least of all the settings of another engine.
        client = common.connect(wanted, inventory, client.adapter.recorded_versions()[-1])
    asked, refused = acceptable(wanted, client) if translate else (wanted, ())
    try:
        prepared = prepare(asked, client, inventory or _imagined(asked))
    except Refused as refusal:
        return diff_text.Side(title, None, tuple(map(str, refusal.faults)))
    for text in prepared.notes:
        note(f"{title}: {text}")
    return diff_text.Side(title, prepared, tuple(map(str, refused)))


def _imagined(wanted: Wanted) -> Inventory:
    """One machine that has room for anything, at an address that is nobody's (RFC 5737)."""
    model = wanted.request.get("input", {}).get("model", {}).get("id", "")
    machine = Machine(
        name="imagined",
        address="192.0.2.1",
        devices=None,
        ports=_PORTS,
        models={model: wanted.model_path or model},
    )
    return Inventory(machines=(machine,))


def _print(lines: Iterable[str]) -> None:
    if not is_terminal():
        click.echo("\n".join(lines))
        return
    from rich.text import Text

    for line in lines:
        console().print(Text(line, _STYLES.get(line[:1], "")))
