"""``oe adapters``: which engines this installation can plan for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from inferlab_adapters.adapter import Adapter
    from inferlab_adapters.control.types import Json

_COLUMNS = ("framework", "adapter", "engine", "catalogues", "topologies", "KV transfer", "routers")


@click.command("adapters")
@common.json_option
def command(as_json: bool) -> None:
    """List the installed adapters.

    "engine" is the version of the engine installed beside the adapter, or "unavailable".

    \b
    Examples:
      oe adapters
      oe adapters --json
    """
    from inferlab_adapters.control.client import installed_adapters

    found = [_about(adapter) for adapter in installed_adapters().values()]
    if as_json:
        print_json(found)
        return
    if not found:
        note("no adapter is installed; pip install oe-adapter-vllm, -sglang or -trtllm")
    print_table("adapters", _COLUMNS, [_row(about) for about in found])


def _about(adapter: Adapter) -> Json:
    from inferlab_adapters.deployment import BUILTIN

    mechanisms = list(adapter.mechanisms)
    return {
        "framework": adapter.framework,
        "adapter_id": adapter.name,
        "adapter_version": adapter.version,
        "framework_version": adapter.observed_version(),
        "catalogues": adapter.recorded_versions(),
        "topologies": ["single", *(["prefill_decode"] if mechanisms else [])],
        "kv_transfer": mechanisms,
        "routing_backends": [*([BUILTIN] if mechanisms else []), *adapter.routers],
    }


def _row(about: Json) -> tuple[str, ...]:
    lists = ("catalogues", "topologies", "kv_transfer", "routing_backends")
    return (
        about["framework"],
        f"{about['adapter_id']} {about['adapter_version']}",
        about["framework_version"],
        *(", ".join(about[name]) or "-" for name in lists),
    )
