"""``oe catalogue``: the recorded options of the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json, print_table
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.errors import Fault, did_you_mean, one_of, shown

if TYPE_CHECKING:
    from inferlab_adapters.adapter import Adapter
    from inferlab_adapters.cli.option_search import Found

_COLUMNS = ("framework", "setting", "option", "takes", "versions", "remarks")


@click.group("catalogue")
def command() -> None:
    """List and search the recorded options of the engines.

    A catalogue holds the options that one engine version's own parser accepts.

    \b
    Examples:
      oe catalogue list
      oe catalogue search prefix --framework sglang
    """


@command.command("list")
@common.json_option
def list_versions(as_json: bool) -> None:
    """List the engine versions with a catalogue.

    \b
    Examples:
      oe catalogue list
      oe catalogue list --json
    """
    found = [
        {
            "framework": adapter.framework,
            "version": version,
            "options": len(adapter.option_table(version).options),
        }
        for adapter in _adapters(None)
        for version in adapter.recorded_versions()
    ]
    if as_json:
        print_json(found)
        return
    columns = ("framework", "version", "options")
    print_table("catalogues", columns, [tuple(map(str, entry.values())) for entry in found])


# WORD may begin with dashes.
@command.command("search", context_settings={"ignore_unknown_options": True})
@click.argument("word", metavar="WORD")
@click.option("--framework", metavar="NAME", help="Only this engine.")
@click.option("--engine-version", metavar="X", help="Only options that this version has.")
@common.json_option
def search(word: str, framework: str | None, engine_version: str | None, as_json: bool) -> None:
    """Find options by a part of their name.

    WORD may be written as an option or as a setting: -, _ and capitals make no difference. Shown
    are the name as a setting, what it takes, which versions have it, who decides it where settings
    may not, and what became of it.

    \b
    Examples:
      oe catalogue search max-num-seqs
      oe catalogue search parallel --framework vllm
      oe catalogue search attention --framework sglang --engine-version 0.5.23 --json
    """
    from inferlab_adapters.cli import option_search

    if engine_version is not None and framework is None:
        raise click.UsageError("--engine-version needs --framework: engines count differently.")
    adapters = _adapters(framework)
    if engine_version is not None:
        for adapter in adapters:
            if not adapter.option_table(engine_version).exact:
                read = adapter.option_table(engine_version).version
                note(
                    f"{adapter.framework} {engine_version} has no catalogue; {read} is the nearest"
                )
    found = [
        entry
        for adapter in adapters
        for entry in option_search.search(adapter, word, engine_version)
    ]
    if as_json:
        print_json([entry.data() for entry in found])
    elif found:
        print_table(f"options like {shown(word)}", _COLUMNS, [_row(entry) for entry in found])
    if not found:
        names = {name for adapter in adapters for name in option_search.names(adapter)}
        hint = did_you_mean(option_search.folded(word), names)
        note(f"no option is called like {shown(word)}" + (f"; {hint}" if hint else ""))


def _adapters(framework: str | None) -> list[Adapter]:
    from inferlab_adapters.control.client import installed_adapters

    installed = installed_adapters()
    if framework is None:
        return list(installed.values())
    if framework not in installed:
        what = f"no adapter is installed for framework {shown(framework)}"
        hint = did_you_mean(framework, installed) or f"installed: {one_of(installed)}"
        raise Refused(Fault("", what, hint))
    return [installed[framework]]


def _row(found: Found) -> tuple[str, ...]:
    versions = "all" if found.everywhere else ", ".join(found.versions) or "none"
    return (
        found.framework,
        found.name,
        ", ".join(found.spellings) or "-",
        found.takes,
        versions,
        "; ".join(found.remarks()) or "-",
    )
