"""The rules that a server is held to, each with the revisions that know it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from inferlab_adapters.openengine.conformance import rule_table

SEED = "seed"
V0_1_0 = "v0.1.0"
REVISIONS = (SEED, V0_1_0)

_REVISIONS = {"S": (SEED,), "V": (V0_1_0,), "B": REVISIONS, "-": REVISIONS}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One demand. ``served``: some server serves what it is about, so that it can be checked."""

    id: str
    revisions: tuple[str, ...]
    text: str
    served: bool = True


@cache
def rules() -> dict[str, Rule]:
    """Every rule by its id, in the order of reports."""
    found = {}
    for line in f"{rule_table.INFERENCE}{rule_table.CONTROL}{rule_table.TASKS}".splitlines():
        if line.strip():
            id, revisions, text = line.split(maxsplit=2)
            found[id] = Rule(
                id=id, revisions=_REVISIONS[revisions], text=text, served=revisions != "-"
            )
    return found


def of(revision: str) -> list[Rule]:
    """The rules of one revision, in the order of reports."""
    return [rule for rule in rules().values() if revision in rule.revisions]
