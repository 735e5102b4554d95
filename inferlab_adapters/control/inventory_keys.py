"""What the keys of a machine may hold: each value read, or refused in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from inferlab_adapters.addresses import host_problem
from inferlab_adapters.errors import shown, typed

MAX_DEVICES = 1024
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class WrongValue(Exception):
    """A value that a key cannot hold: what is wrong, what to do, and where below the key."""

    def __init__(self, what: str, hint: str = "", *path: str | int) -> None:
        super().__init__(what, hint, *path)
        self.what = what
        self.hint = hint
        self.path = path


def is_name(text: str) -> bool:
    """Whether a text may name a machine: letters, digits and ``._-``, as host names have them."""
    return _NAME.fullmatch(text) is not None


def name(value: str) -> str:
    """The name of a machine."""
    if not is_name(value):
        raise WrongValue(f"must be letters, digits and any of . _ -, got {shown(value)}")
    return value


def address(value: str) -> str:
    """An address that servers bind and peers reach."""
    problem = host_problem(value)
    if problem:
        raise WrongValue(*problem)
    return value


def devices(value: Any) -> tuple[int, ...] | None:
    """A count, a list of numbers, or ``cpu`` (``None``)."""
    if value == "cpu":
        return None
    if _is_int(value):
        if not 0 <= value <= MAX_DEVICES:
            raise WrongValue(f"must be 0 to {MAX_DEVICES}, got {shown(value)}")
        return tuple(range(value))
    if not isinstance(value, list):
        what = f'must be a number of devices, a list of their numbers or "cpu", got {typed(value)}'
        raise WrongValue(what)
    seen: set[int] = set()
    for index, item in enumerate(value):
        if not _is_int(item) or not 0 <= item < 2**32:
            raise WrongValue(f"must be the number of a device, got {typed(item)}", "", index)
        if item in seen:
            raise WrongValue(f"device {item} is listed twice", "remove one", index)
        seen.add(item)
    return tuple(value)


def ports(value: Any) -> tuple[int, ...]:
    """A port, a range ``8000-8999``, or a list of both; in the order given."""
    found: dict[int, None] = {}
    items = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
    for index, item in items:
        path = () if index is None else (index,)
        for port in _port_range(item, path):
            if port in found:
                raise WrongValue(f"port {port} is listed twice", "list every port once", *path)
            found[port] = None
    if not found:
        raise WrongValue("is empty", 'list ports, such as "8000-8999"')
    return tuple(found)


def _port_range(item: Any, path: tuple[int, ...]) -> Iterable[int]:
    if _is_int(item):
        first = last = item
    elif isinstance(item, str) and (match := _PORTS.fullmatch(item)):
        first, last = int(match[1]), int(match[2] or match[1])
    else:
        what = f'must be a port or a range such as "8000-8999", got {typed(item)}'
        raise WrongValue(what, "", *path)
    if not (1 <= first <= 65535 and 1 <= last <= 65535):
        raise WrongValue(f"ports are 1 to 65535, got {shown(item)}", "", *path)
    if last < first:
        what = f"the range {shown(item)} ends before it begins"
        raise WrongValue(what, f'write "{last}-{first}"', *path)
    return range(first, last + 1)


def launch(value: Any) -> str | None:
    """``local`` (``None``), or the target of ssh from ``{"ssh": target}`` or ``ssh:target``."""
    if value == "local":
        return None
    if isinstance(value, Mapping) and list(value) == ["ssh"]:
        return _ssh_target(value["ssh"], "ssh")
    if isinstance(value, str) and value.startswith("ssh://"):
        return _ssh_target(value)
    if isinstance(value, str) and value.startswith("ssh:"):
        return _ssh_target(value.removeprefix("ssh:"))
    what = f'must be "local", {{"ssh": target}} or "ssh:target", got {typed(value)}'
    raise WrongValue(what)


def _ssh_target(target: Any, *path: str) -> str:
    if not isinstance(target, str):
        raise WrongValue(f"must be a string, got {typed(target)}", "", *path)
    hint = "give a host, user@host, or a host of your ssh configuration"
    if not target:
        raise WrongValue("the ssh target is empty", hint, *path)
    if target.startswith("-") or target.rpartition("@")[2].startswith("-"):
        what = f"ssh would read the target {shown(target)} as an option"
        raise WrongValue(what, hint, *path)
    if any(char.isspace() or not char.isprintable() for char in target):
        what = f"the ssh target {shown(target)} holds white space or control characters"
        raise WrongValue(what, hint, *path)
    return target


def folder(value: str, base: Path | None) -> str:
    """A folder on the machine: absolute, or from ``base``; ``None`` where there is no base."""
    if not value:
        raise WrongValue("is empty", "name a folder, or leave it out")
    return _path(value, base)


def model(value: str, base: Path | None) -> str:
    """What the engine loads: a path, or a name that the engine resolves itself.

    ``./``, ``../`` and ``~/`` begin paths, which are taken from ``base``; any other text is left
    as it is, for ``org/model`` is a name and no path.
    """
    if not value:
        raise WrongValue("is empty", "give the path of the model")
    if value.startswith("-"):
        raise WrongValue(f"{shown(value)} would be read as an option", "use a full path")
    if value.startswith(("./", "../", "~/")):
        return _path(value, base)
    return _printable(value)


def _path(value: str, base: Path | None) -> str:
    path = os.path.expanduser(_printable(value)) if base is not None else _printable(value)
    if base is not None:
        return os.path.abspath(base / path)
    if not path.startswith("/"):
        what = f"must be an absolute path on a machine over ssh, got {shown(value)}"
        raise WrongValue(what)
    return path


def _printable(value: str) -> str:
    if not value.isprintable():
        raise WrongValue(f"{shown(value)} holds control characters")
    return value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
