"""A role's settings: the framework's options by name, and a few settings of ours."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from inferlab_adapters import values
from inferlab_adapters.arguments import ArgumentReader
from inferlab_adapters.environment import check_extra_env
from inferlab_adapters.errors import Faults, did_you_mean, one_of, pointer, shown
from inferlab_adapters.options import OptionTable

_SNAKE = re.compile(r"[a-z][a-z0-9_]*")


class OwnSetting(NamedTuple):
    """A setting that is ours and not an option of the framework.

    ``default`` fills it in where a request leaves it out; ``None`` leaves it out of the
    effective settings too. ``meaning`` is the one sentence shown to people.
    """

    name: str
    kind: Literal["boolean", "string", "integer", "object", "arguments", "environment"]
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None


EXTRA_ARGS = OwnSetting(
    name="extra_args",
    kind="arguments",
    meaning="Command line tokens added after all others, one string a token.",
    default=[],
)
EXTRA_ENV = OwnSetting(
    name="extra_env",
    kind="environment",
    meaning="Environment variables added to those that the adapter sets.",
    default={},
)


class Reserved(NamedTuple):
    """Environment variables that settings may not touch: by name, and by how they begin."""

    names: Mapping[str, str]
    prefixes: Mapping[str, str] = MappingProxyType({})


class Settings(NamedTuple):
    """The complete settings of a role, checked.

    ``own`` holds our settings, ``options`` the framework's by setting name, ``pointer``
    where they stand in the request.
    """

    pointer: str
    own: dict[str, Any]
    options: dict[str, Any]

    @property
    def extra_args(self) -> list[str]:
        args: list[str] = self.own["extra_args"]
        return args

    @property
    def extra_env(self) -> dict[str, str]:
        env: dict[str, str] = self.own["extra_env"]
        return env

    def at(self, name: str) -> str:
        """The JSON pointer of one setting."""
        return pointer(self.pointer, name)

    def to_wire(self) -> dict[str, Any]:
        """The effective settings: everything that reaches argv or env, in name order."""
        return dict(sorted({**self.options, **self.own}.items()))

    def argv(self, table: OptionTable, leave_out: frozenset[str] = frozenset()) -> list[str]:
        """Options in name order, then the extra arguments; without those called ``leave_out``."""
        argv: list[str] = []
        for name in sorted(self.options.keys() - leave_out):
            value = self.options[name]
            option = table.options.get(name) or table.unlisted(name, value)
            argv += values.tokens(option, value)
        if not leave_out:
            return argv + self.extra_args
        for use in table.scan(self.extra_args):
            if use.reading is None or use.reading.option.name not in leave_out:
                argv += [use.token, *use.values]
        return argv


class SettingsReader:
    """Checks and completes the settings of roles against one option table."""

    def __init__(
        self,
        table: OptionTable,
        own: Sequence[OwnSetting],
        reserved: Reserved,
        faults: Faults,
        note: Callable[[str], None],
    ) -> None:
        self._table = table
        self._own = {setting.name: setting for setting in own}
        self._reserved = reserved
        self._faults = faults
        self._note = note
        self._arguments = ArgumentReader(table, faults, note)

    def read(self, raw: Mapping[str, Any], where: str, absent: Mapping[str, str]) -> Settings:
        """Check ``raw``, whose JSON pointer is ``where``, and fill in our defaults.

        ``absent`` names settings of ours that do not apply here, with the reason.
        """
        own: dict[str, Any] = {
            name: setting.default
            for name, setting in self._own.items()
            if setting.default is not None and name not in absent
        }
        options: dict[str, Any] = {}
        for name, value in raw.items():
            at = pointer(where, name)
            if name in absent:
                self._faults.add(at, f"does not apply: {absent[name]}", "remove it")
            elif name in self._own:
                self._check_own(self._own[name], value, at)
                own[name] = value
            else:
                self._check_option(name, value, at)
                options[name] = value
        if _is_strings(own["extra_args"]):
            self._arguments.check(own["extra_args"], pointer(where, "extra_args"), options)
        return Settings(pointer=where, own=own, options=options)

    def check_added(self, asked: Settings, done: Settings) -> None:
        """Refuse extra arguments that set what the adapter has added to the settings."""
        added = done.options.keys() - asked.options.keys()
        self._arguments.check_added(asked.extra_args, asked.at("extra_args"), added)

    def _check_own(self, setting: OwnSetting, value: Any, at: str) -> None:
        if setting.kind == "environment":
            check_extra_env(value, at, self._reserved.names, self._reserved.prefixes, self._faults)
            return
        wanted, legal = {
            "boolean": (isinstance(value, bool), "true or false"),
            "string": (isinstance(value, str), "a string"),
            "integer": (isinstance(value, int) and not isinstance(value, bool), "an integer"),
            "object": (isinstance(value, dict), "an object"),
            "arguments": (_is_strings(value), "an array of strings"),
        }[setting.kind]
        if not wanted:
            self._faults.add(at, f"must be {legal}, got {shown(value)}")
        elif setting.choices and value not in setting.choices:
            self._faults.add(at, f"must be {one_of(setting.choices)}, got {shown(value)}")
        elif setting.minimum is not None and value < setting.minimum:
            self._faults.add(at, f"must be at least {setting.minimum}, got {value}")

    def _check_option(self, name: str, value: Any, at: str) -> None:
        option = self._table.options.get(name)
        if option is None:
            self._unknown_setting(name, value, at)
            return
        owner = self._table.owner(option)
        if owner:
            self._faults.add(at, f"is decided by {owner}", "remove it")
            return
        wrong = (
            values.problem(option, value) or _nul(value) or self._table.below_minimum(option, value)
        )
        if wrong:
            self._faults.add(at, wrong)
        elif option.deprecated:
            self._note(f"{at}: the framework calls this option deprecated")

    def _unknown_setting(self, name: str, value: Any, at: str) -> None:
        gone = self._table.removed(f"--{name}")
        reading = self._table.find_setting(name)
        written = f"--{name}"
        reason = self._table.owner_of_spelling(written) or self._table.owner_of_spelling(
            written.replace("_", "-")
        )
        if reading:
            owner = self._table.owner(reading.option)
            if owner:
                self._faults.add(at, f"is decided by {owner}", "remove it")
            elif reading.path:
                self._faults.add(at, "is a dotted name", f"give {reading.option.name} an object")
            elif reading.negated:
                self._faults.add(at, "is a negative form", f"write {reading.option.name}: false")
            else:
                self._faults.add(at, "is another spelling", f'write "{reading.option.name}"')
        elif reason:
            self._faults.add(at, f"is refused: {reason}", "remove it")
        elif gone and self._table.exact:
            self._faults.add(at, f"was removed in {gone.since}", gone.fix)
        elif self._table.exact or not _SNAKE.fullmatch(name):
            known = [*self._table.options, *self._own]
            hint = did_you_mean(name, known)
            self._faults.add(at, f"is no option of version {self._table.version}", hint)
        elif value is False:
            hint = "put its negative form into extra_args"
            self._faults.add(at, "cannot be switched off: the option is not in a catalogue", hint)
        else:
            self._note(
                f"{at}: not in the catalogue of version {self._table.version}; passed on unchecked"
            )


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _nul(value: Any) -> str | None:
    """argv cannot hold a NUL; inside JSON it is escaped and harmless."""
    texts = value if isinstance(value, list) else [value]
    if any(isinstance(text, str) and "\0" in text for text in texts):
        return "must not contain a NUL character"
    return None
