"""Recorded option lists: what one framework version's own parser accepts.

A catalogue is committed data (``catalogue/<version>.json`` in an integration), written by
``scripts/record_catalogue.py`` from the real parser. Nothing here imports the framework.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

UNAVAILABLE = "unavailable"
"""The framework version reported when the framework is not installed."""

Kind = Literal["switch", "negatable", "value", "list", "json"]


class Option(NamedTuple):
    """One option of a framework's command line.

    ``names`` are the spellings that set it, the preferred one first; ``negative`` those
    that switch it off. ``type`` is what a value must read as: ``int``, ``float``, ``str``,
    ``human_int`` (``4k``, ``1.5M``) or ``human_int_or_auto``. ``json`` marks a value that
    may also be a JSON text, ``shape`` what a JSON option holds. ``style`` says whether a list
    follows one flag (``items``) or repeats it (``repeat``). ``none`` marks a value that may be
    the word None, ``optional_value`` one that may be left out.
    """

    names: tuple[str, ...]
    dest: str
    kind: Kind
    negative: tuple[str, ...] = ()
    type: str = "str"
    choices: tuple[str, ...] = ()
    json: bool = False
    shape: str = "any"
    style: Literal["items", "repeat"] = "items"
    none: bool = False
    optional_value: bool = False
    deprecated: bool = False

    @property
    def name(self) -> str:
        """The option's name as a setting: ``max_num_seqs`` for ``--max-num-seqs``."""
        return self.names[0].lstrip("-").replace("-", "_")

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every long spelling that sets the option, as a setting name; ``name`` is the first."""
        long = (spelling for spelling in self.names if spelling.startswith("--"))
        return tuple(spelling.lstrip("-").replace("-", "_") for spelling in long)

    @property
    def off(self) -> str:
        """The negative spelling to write: ``--no-…`` where there is one, as ever."""
        return next((name for name in self.negative if name.startswith("--no-")), self.negative[0])

    @property
    def repeats(self) -> bool:
        """Whether the option may stand several times, each adding to the list."""
        return self.kind == "list" and self.style == "repeat"


class Grammar(NamedTuple):
    """How a framework's parser reads a token, as found by really parsing.

    ``prefix_matching``: an unambiguous beginning of a long option stands for it.
    ``underscore_folding``: ``_`` and ``-`` are the same in long options.
    ``dotted_json``: ``--json-option.child value`` sets one member of a JSON option.
    ``parser``: argparse stops the values of an option at what looks like another one and knows
    unambiguous beginnings of single-dash options; click does neither.
    """

    prefix_matching: bool
    underscore_folding: bool
    dotted_json: bool
    parser: Literal["argparse", "click"] = "argparse"


class Catalogue(NamedTuple):
    """The options of one recorded framework version, by their setting name.

    ``features`` names what the version can do that no option shows.
    """

    version: str
    grammar: Grammar
    options: dict[str, Option]
    features: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether this version has the option called ``name``."""
        return name in self.options


@lru_cache(maxsize=8)
def load(path: Path) -> Catalogue:
    """Read one catalogue file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    options = (_option(entry) for entry in data["options"])
    return Catalogue(
        version=data["version"],
        grammar=Grammar(
            prefix_matching=data["prefix_matching"],
            underscore_folding=data["underscore_folding"],
            dotted_json=data["dotted_json"],
            parser=data.get("parser", "argparse"),
        ),
        features=frozenset(data.get("features", ())),
        options={option.name: option for option in options},
    )


def _option(entry: dict[str, object]) -> Option:
    fields = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
    return Option(**fields)  # type: ignore[arg-type]


class Selection(NamedTuple):
    """The catalogue used for a framework version, and whether it speaks for that version.

    ``exact`` is true when a catalogue of the same major and minor version exists: then an
    unknown option is refused, otherwise it is let through with a warning.
    """

    catalogue: Catalogue
    exact: bool


def recorded(folder: Path) -> list[str]:
    """The versions that have a catalogue in ``folder``, oldest first."""
    return sorted((file.stem for file in folder.glob("*.json")), key=release)


@lru_cache(maxsize=8)
def select(folder: Path, framework_version: str) -> Selection:
    """Choose the catalogue in ``folder`` for an observed framework version.

    Among those of the same major and minor version if there are any, else among all: the newest
    one that is not newer, else the oldest. When the version is unavailable, or cannot be read as
    a version, the newest applies.
    """
    versions = recorded(folder)
    wanted = release(framework_version)
    same_minor = [version for version in versions if release(version)[:2] == wanted[:2]]
    if not wanted:
        chosen = versions[-1]
    else:
        candidates = same_minor or versions
        older = [version for version in candidates if release(version) <= wanted]
        chosen = older[-1] if older else candidates[0]
    return Selection(load(folder / f"{chosen}.json"), exact=chosen in same_minor)


def release(version: str) -> tuple[int, ...]:
    """The release numbers of a version, without dev, rc and local parts; empty if none."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(number) for number in match[1].split(".")) if match else ()
