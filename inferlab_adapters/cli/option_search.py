"""Options of an engine by a part of their name, over all its recorded versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inferlab_adapters.catalogue import Option

if TYPE_CHECKING:
    from inferlab_adapters.adapter import Adapter
    from inferlab_adapters.control.types import Json
    from inferlab_adapters.options import Removed
    from inferlab_adapters.settings import OwnSetting


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One option, as the newest version that has it describes it; or a setting of ours.

    ``name`` is its name as a setting. ``owner`` decides it where settings may not; ``removed`` is
    its fate in the newest version; ``meaning`` one sentence, for settings of ours.
    """

    framework: str
    name: str
    spellings: tuple[str, ...]
    kind: str
    type: str | None = None
    choices: tuple[str, ...] = ()
    versions: tuple[str, ...]
    everywhere: bool
    deprecated: bool = False
    owner: str | None = None
    removed: Removed | None = None
    meaning: str = ""

    @property
    def takes(self) -> str:
        """What it takes, in a few words."""
        if self.choices:
            return f"{self.kind}: {' | '.join(self.choices)}"
        return self.kind if self.type is None else f"{self.kind} of {self.type}"

    def remarks(self) -> list[str]:
        """What else a person should know before using it."""
        said = [self.meaning] if self.meaning else []
        said += ["deprecated"] if self.deprecated else []
        said += [f"decided by {self.owner}"] if self.owner else []
        if self.removed:
            said.append(f"removed in {self.removed.since}: {self.removed.fix}")
        return said

    def data(self) -> Json:
        """The same as JSON."""
        removed = self.removed
        return {
            "framework": self.framework,
            "name": self.name,
            "spellings": list(self.spellings),
            "kind": self.kind,
            "type": self.type,
            "choices": list(self.choices),
            "versions": list(self.versions),
            "deprecated": self.deprecated,
            "owner": self.owner,
            "removed": {"since": removed.since, "fix": removed.fix} if removed else None,
            "meaning": self.meaning,
        }


def folded(word: str) -> str:
    """A word as setting names are written."""
    return word.strip().lstrip("-").replace("-", "_").lower()


def names(adapter: Adapter) -> set[str]:
    """Every name that a search can find."""
    tables = (adapter.option_table(version) for version in adapter.recorded_versions())
    options = {name for table in tables for o in table.options.values() for name in _names(o)}
    return options | {setting.name for setting in adapter.own_settings}


def search(adapter: Adapter, word: str, engine_version: str | None) -> Iterator[Found]:
    """What is called like ``word``: settings of ours first, then options in name order.

    Only what ``engine_version`` has, where one is given.
    """
    part, recorded = folded(word), adapter.recorded_versions()
    for setting in adapter.own_settings:
        if part in setting.name:
            yield _own(adapter, setting)
    newest: dict[str, Option] = {}
    having: dict[str, list[str]] = {}
    for version in recorded:
        for option in adapter.option_table(version).options.values():
            if any(part in name for name in _names(option)):
                newest[option.name] = option
                having.setdefault(option.name, []).append(version)
    last = adapter.option_table(recorded[-1])
    only = None if engine_version is None else adapter.option_table(engine_version).options
    for name, option in sorted(newest.items()):
        if only is None or name in only:
            described = option if only is None else only[name]
            versions = having[name]
            yield Found(
                framework=adapter.framework,
                name=name,
                spellings=(*described.names, *described.negative),
                kind=described.kind,
                type=_type(described),
                choices=described.choices,
                versions=tuple(versions),
                everywhere=versions == recorded,
                deprecated=described.deprecated,
                owner=last.owner(described),
                removed=None if name in last else last.removed(described.names[0]),
            )
    spelling = f"--{part.replace('_', '-')}"
    gone = last.removed(spelling)
    if gone and part not in newest and only is None:
        yield Found(
            framework=adapter.framework,
            name=part,
            spellings=(spelling,),
            kind="unknown",
            versions=(),
            everywhere=False,
            removed=gone,
        )


def _own(adapter: Adapter, setting: OwnSetting) -> Found:
    return Found(
        framework=adapter.framework,
        name=setting.name,
        spellings=(),
        kind=setting.kind,
        choices=setting.choices,
        versions=tuple(adapter.recorded_versions()),
        everywhere=True,
        meaning=setting.meaning,
    )


def _names(option: Option) -> set[str]:
    return {folded(name) for name in (*option.names, *option.negative, option.dest)}


def _type(option: Option) -> str | None:
    """What a value must read as; ``None`` where there is no value, or any JSON."""
    return option.type if option.kind in ("value", "list") else None
