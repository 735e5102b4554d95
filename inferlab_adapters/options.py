"""One reading of a framework's command line, shared by every check that needs one.

:class:`OptionTable` resolves a spelling (long, short, folded, abbreviated, negated, dotted)
to the option it stands for, exactly as the framework's own parser would; ownership,
duplicates and catalogue checks all go through it, so that no two of them can disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from inferlab_adapters.catalogue import Grammar, Kind, Option, Selection
from inferlab_adapters.errors import did_you_mean

_WHOLE_NUMBER = re.compile(r"-?\d+")
_NEGATIVE_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")


class Removed(NamedTuple):
    """An option that the framework no longer has: the version that dropped it, and what to do."""

    since: str
    fix: str


class Reading(NamedTuple):
    """What one command line token means.

    ``path`` holds the dotted children of a JSON option, ``value`` the text given with ``=``
    or glued to a short option.
    """

    option: Option
    negated: bool = False
    path: tuple[str, ...] = ()
    value: str | None = None


class Use(NamedTuple):
    """One option as it stands in a list of tokens.

    ``reading`` is ``None`` for an option that the table does not know; ``token`` is the
    spelling as written, ``values`` the tokens it takes, ``start`` its place.
    """

    start: int
    token: str
    reading: Reading | None
    values: tuple[str, ...]


class OptionTable:
    """The options of one catalogue, with who owns them and which are gone.

    ``owned`` maps an option's setting name to the field of the request that decides it, or a
    spelling that the parser itself does not list to the reason why it is refused; ``removed``
    maps a long spelling to its fate; ``aliases`` adds spellings that the framework rewrites
    before parsing; ``minimums`` bounds numbers that the parser would take; ``judged`` names the
    options whose values the adapter holds against the shape, so that they must be settings.
    """

    def __init__(
        self,
        selection: Selection,
        *,
        owned: Mapping[str, str],
        removed: Mapping[str, Removed],
        aliases: Mapping[str, str] = MappingProxyType({}),
        minimums: Mapping[str, int] = MappingProxyType({}),
        judged: Set[str] = frozenset(),
    ) -> None:
        self.options = selection.catalogue.options
        self.version = selection.catalogue.version
        self.features = selection.catalogue.features
        self.exact = selection.exact
        self._grammar: Grammar = selection.catalogue.grammar
        self._owned = owned
        self._removed = removed
        self._minimums = minimums
        self.judged = judged
        self._rewritten = aliases

    @cached_property
    def _spellings(self) -> dict[str, tuple[Option, bool]]:
        """Every spelling, folded: the option it names, and whether it switches it off."""
        found: dict[str, tuple[Option, bool]] = {}
        for option in self.options.values():
            for spelling in option.names:
                found[self._fold(spelling)] = (option, False)
            for spelling in option.negative:
                found[self._fold(spelling)] = (option, True)
        for spelling, name in self._rewritten.items():
            if name in self.options:
                found[spelling] = (self.options[name], False)
        return found

    @cached_property
    def _aliases(self) -> dict[str, Option]:
        return {name: option for option in self.options.values() for name in option.all_names}

    def __contains__(self, name: object) -> bool:
        return name in self.options or name in self._aliases

    def __getitem__(self, name: str) -> Option:
        """The option called ``name``, also by a second name; KeyError where there is none."""
        return self.options.get(name) or self._aliases[name]

    def owner(self, option: Option) -> str | None:
        """The request field that decides this option, or ``None`` if settings may."""
        names = (option.name, *option.all_names)
        return next((self._owned[name] for name in names if name in self._owned), None)

    def owners(self) -> Iterator[str]:
        """Everything that decides some option, in the words of refusals."""
        yield from self._owned.values()

    def owner_of_spelling(self, token: str) -> str | None:
        """Why a spelling that the parser does not list is refused all the same.

        What begins several options is none here, but in a version without a catalogue it may be
        just the one that is owned.
        """
        head = self._fold(token.partition("=")[0])
        guess = not self.exact and self._grammar.prefix_matching and len(head) > 2
        if head in self._owned or not guess:
            return self._owned.get(head)
        begun = (option for name, (option, _) in self._spellings.items() if name.startswith(head))
        return next(filter(None, map(self.owner, begun)), None)

    def below_minimum(self, option: Option, value: Any) -> str | None:
        """Why a number, as JSON or as text, is too small for an option."""
        least = self._minimums.get(option.name)
        text = str(value)
        if least is None or not _WHOLE_NUMBER.fullmatch(text) or int(text) >= least:
            return None
        return f"must be at least {least}, got {text}"

    def removed(self, token: str) -> Removed | None:
        """The fate of an option that this or an earlier version dropped."""
        return self._removed.get(token.partition("=")[0].replace("_", "-"))

    def nearest_flag(self, token: str) -> str:
        """A hint with the spelling nearest to ``token``; empty if none is near."""
        return did_you_mean(self._fold(token), self._spellings)

    def read(self, token: str) -> Reading | None:
        """Resolve one token that begins with ``-``; ``None`` if the parser would not know it."""
        head, equals, text = token.partition("=")
        value = text if equals else None
        exact = self._spellings.get(self._fold(head))
        if exact:
            return Reading(exact[0], exact[1], (), value)
        base, dot, children = head.partition(".")
        if dot and self._grammar.dotted_json:
            parent = self._option(base)
            if parent and (parent.kind == "json" or parent.json):
                return Reading(parent, False, tuple(children.split(".")), value)
        if not head.startswith("--"):
            return self._read_short(token, head, value)
        return self._abbreviated(head, value) if self._grammar.prefix_matching else None

    def scan(self, tokens: Sequence[str]) -> Iterator[Use]:
        """Split tokens into options and what each takes, as the parser would.

        A token that belongs to no option comes as a :class:`Use` whose ``token`` does not
        begin with ``-``.
        """
        index = 0
        while index < len(tokens):
            token = tokens[index]
            reading = self.read(token) if token.startswith("-") else None
            end = index + 1
            if self.is_option_like(token):
                limit = _takes(reading)
                greedy = reading is not None and self._grammar.parser == "click"
                while end < len(tokens) and end - index <= limit:
                    if self.is_option_like(tokens[end]) and not greedy:
                        break
                    end += 1
            yield Use(index, token, reading, tuple(tokens[index + 1 : end]))
            index = end

    def unlisted(self, name: str, value: Any) -> Option:
        """How an option that no catalogue knows is written: judged by its value alone."""
        click = self._grammar.parser == "click"
        kinds: dict[type, Kind] = {bool: "switch", list: "list", dict: "json"}
        return Option(
            names=(f"--{name if click else name.replace('_', '-')}",),
            dest=name,
            kind=kinds.get(type(value), "value"),
            style="repeat" if click else "items",
        )

    def find_setting(self, key: str) -> Reading | None:
        """The option that a settings key may mean in any spelling, for refusals and hints."""
        short = self._spellings.get(f"-{key}")
        written = self.read(f"--{key}") or self.read(f"--{key.replace('_', '-')}")
        return written or (Reading(*short) if short else None)

    def is_option_like(self, token: str) -> bool:
        """Whether the parser would take the token for an option rather than a value.

        A negative number is a value, unless it has a point where ``--json.child`` is read.
        """
        if len(token) < 2 or token[0] != "-":
            return False
        number = _NEGATIVE_NUMBER.match(token)
        return not number or (self._grammar.dotted_json and "." in token)

    def _fold(self, spelling: str) -> str:
        folds = spelling.startswith("--") and self._grammar.underscore_folding
        return spelling.replace("_", "-") if folds else spelling

    def _option(self, spelling: str) -> Option | None:
        """The option that a spelling without a value stands for, abbreviated or not."""
        exact = self._spellings.get(self._fold(spelling))
        if exact:
            return exact[0]
        if spelling.startswith("--") and not self._grammar.prefix_matching:
            return None
        reading = self._abbreviated(spelling, None)
        return reading.option if reading else None

    def _read_short(self, token: str, head: str, value: str | None) -> Reading | None:
        # argparse takes "-n2" for "-n 2", and an unambiguous beginning of a single-dash
        # option for that option, even where abbreviations of long options are switched off.
        glued = self._spellings.get(token[:2])
        if glued and len(token) > 2:
            return Reading(glued[0], glued[1], (), token[2:])
        return self._abbreviated(head, value) if self._grammar.parser == "argparse" else None

    def _abbreviated(self, head: str, value: str | None) -> Reading | None:
        start = self._fold(head)
        long = start.startswith("--")
        found = {
            (option.name, negated): Reading(option, negated, (), value)
            for spelling, (option, negated) in self._spellings.items()
            if spelling.startswith(start) and spelling.startswith("--") == long
        }
        return next(iter(found.values())) if len(found) == 1 and head.strip("-") else None


def _takes(reading: Reading | None) -> int:
    """How many tokens may follow an option as its values."""
    many = 1 << 30
    if reading is None:
        return many
    if reading.value is not None or reading.option.kind in ("switch", "negatable"):
        return 0
    if reading.option.kind == "list" and not reading.option.repeats:
        return many
    return 1
