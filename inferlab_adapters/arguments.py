"""The setting ``extra_args``: command line tokens, read as the framework's parser would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from inferlab_adapters import values
from inferlab_adapters.errors import Faults, pointer, shown
from inferlab_adapters.options import OptionTable, Use


class ArgumentReader:
    """Checks tokens against an option table: known, free to set, set once, sound values."""

    def __init__(self, table: OptionTable, faults: Faults, note: Callable[[str], None]) -> None:
        self._table = table
        self._faults = faults
        self._note = note

    def check(self, tokens: list[str], where: str, options: Mapping[str, Any]) -> None:
        """Check ``tokens``, whose JSON pointer is ``where``; ``options`` are set by name."""
        seen: dict[tuple[str, tuple[str, ...]], Use] = {}
        for use in self._table.scan(tokens):
            at = pointer(where, use.start)
            if "\0" in use.token or any("\0" in value for value in use.values):
                self._faults.add(at, "must not contain a NUL character")
            elif not self._table.is_option_like(use.token):
                self._faults.add(at, f"{shown(use.token)} belongs to no option", "remove it")
            elif use.token == "--":
                self._faults.add(at, '"--" ends the options', "remove it")
            elif use.reading is None:
                self._unknown_argument(use, at)
            else:
                self._check_use(use, at, options, seen)

    def check_added(self, tokens: list[str], where: str, added: Set[str]) -> None:
        """Refuse tokens that set what the adapter has added to the settings."""
        for use in self._table.scan(tokens):
            if use.reading and use.reading.option.name in added:
                name = use.reading.option.name
                what = f"{shown(use.token)} sets {name}, which this request needs and adds"
                self._faults.add(pointer(where, use.start), what, f"put {name} into the settings")

    def _unknown_argument(self, use: Use, at: str) -> None:
        name = use.token.partition("=")[0]
        gone = self._table.removed(name)
        reason = self._table.owner_of_spelling(name)
        if reason:
            self._faults.add(at, f"{shown(name)} is refused: {reason}", "remove it")
        elif not self._table.exact:
            tail = f" (removed in {gone.since}: {gone.fix})" if gone else ""
            self._note(f"{at}: {shown(name)} is not in a catalogue; passed on unchecked{tail}")
        elif gone:
            self._faults.add(at, f"{shown(name)} was removed in {gone.since}", gone.fix)
        else:
            hint = self._table.nearest_flag(name)
            what = f"{shown(name)} is no option of version {self._table.version}"
            self._faults.add(at, what, hint)

    def _check_use(
        self,
        use: Use,
        at: str,
        options: Mapping[str, Any],
        seen: dict[tuple[str, tuple[str, ...]], Use],
    ) -> None:
        assert use.reading is not None
        option, path = use.reading.option, use.reading.path
        owner = self._table.owner(option)
        if owner:
            what = f"{shown(use.token)} sets {option.name}, which is decided by {owner}"
            self._faults.add(at, what, "remove it")
            return
        if option.name in options:
            what = f"{shown(use.token)} sets {option.name} a second time"
            had, now = shown(options[option.name]), shown(_value_of(use))
            self._faults.add(at, f"{what}: {had} in the settings, {now} here", "keep one")
        elif option.name in self._table.judged:
            what = f"{shown(use.token)} sets {option.name}, which is held against the shape"
            self._faults.add(at, what, f"put {option.name} into the settings")
        # The parser keeps the last of two, and of a JSON text beside dotted children only those.
        rivals = [(option.dest, path), (option.dest, ())]
        if not path:
            rivals += [key for key in seen if key[0] == option.dest]
        earlier = next((seen[key] for key in rivals if key in seen), None)
        if earlier and not option.repeats:
            what = f"{shown(use.token)} sets {option.name} a second time"
            had, now = shown(_value_of(earlier)), shown(_value_of(use))
            self._faults.add(at, f"{what}: {had} before, {now} here", "keep one")
        seen[option.dest, path] = use
        self._check_values(use, at)

    def _check_values(self, use: Use, at: str) -> None:
        assert use.reading is not None
        option, inline = use.reading.option, use.reading.value
        given = [*([inline] if inline is not None else []), *use.values]
        takes_none = option.kind in ("switch", "negatable")
        if takes_none and given:
            self._faults.add(at, f"{shown(use.token)} takes no value", "remove the value")
        elif not takes_none and not given and not option.optional_value:
            self._faults.add(at, f"{shown(use.token)} needs a value")
        elif not use.reading.path and not takes_none:
            for text in given:
                wrong = values.text_problem(option, text)
                wrong = wrong or self._table.below_minimum(option, text)
                if wrong:
                    self._faults.add(at, f"{shown(use.token)} {wrong}")


def _value_of(use: Use) -> Any:
    assert use.reading is not None
    if use.reading.value is not None:
        return use.reading.value
    if not use.values:
        return not use.reading.negated
    return use.values[0] if len(use.values) == 1 else list(use.values)
