"""Every adapter that is installed, found the way the core finds them."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from inferlab_adapters.adapter import Adapter
from tests.support.golden import Case, Refusal

ADAPTERS: dict[str, Adapter] = {
    point.name: point.load() for point in entry_points(group="inferlab_adapters.adapters")
}


def golden_cases(framework: str) -> list[Case | Refusal]:
    """The table of golden cases of a framework."""
    module = import_module(f"tests.golden.{framework.replace('-', '_')}.cases")
    return [*module.CASES, *module.REFUSALS]
