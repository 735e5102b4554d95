"""What differs between two prepared deployments, part by part, as a person would say it.

What is called differently but is the same is paired: roles by their kind, processes by kind,
replica and rank, options of a command by name wherever they stand. Paths below the cache folder
of a process and launch files by their digest are no difference of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, NamedTuple, TypeAlias

from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.types import Json

ROLE_FIELDS = ("id", "effective_replica_count", "effective_parallelism", "effective_settings")
REPLICA_FIELDS = (
    "device_count",
    "ports",
    "primary_ports",
    "primary_readiness",
    "worker_readiness",
    "capture_target",
)
_Key: TypeAlias = tuple[str, int, int]


class Change(NamedTuple):
    """One thing that differs: its values on both sides, none where it is absent.

    Of an option of a command each value is one use of it: the list of its tokens.
    """

    name: str
    before: tuple[Any, ...]
    after: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the request or the plan that differs."""

    title: str
    changes: tuple[Change, ...]


class FileDiff(NamedTuple):
    """A launch file that differs, by its bare name, as lines of a unified diff."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessDiff:
    """A process that differs; ``before`` or ``after`` is ``None`` where only one side has it."""

    before: str | None
    after: str | None
    argv: tuple[Change, ...]
    env: tuple[Change, ...]
    files: tuple[FileDiff, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Everything that differs; false where nothing does."""

    plan: tuple[Section, ...]
    processes: tuple[ProcessDiff, ...]

    def __bool__(self) -> bool:
        return bool(self.plan or self.processes)


def compare(before: Prepared, after: Prepared) -> Comparison:
    """What differs between two deployments."""
    parts = _parts(before), _parts(after)
    sections = (
        Section(title=title, changes=_changes(*(_leaves(part.get(title, {})) for part in parts)))
        for title in _union(*parts)
    )
    sides = _commands(before), _commands(after)
    pairs = ((sides[0].get(key), sides[1].get(key)) for key in _union(*sides))
    processes = [_process(one, other) for one, other in pairs]
    return Comparison(
        plan=tuple(section for section in sections if section.changes),
        processes=tuple(p for p in processes if p.argv or p.env or p.files),
    )


def _parts(prepared: Prepared) -> dict[str, Any]:
    """A request and its plan by the titles under which differences are told."""
    plan, asked = prepared.plan, prepared.request["input"]
    parts: dict[str, Any] = {
        "engine": plan["integration"],
        "request": {name: value for name, value in asked.items() if name != "roles"},
    }
    for role in plan["roles"]:
        replica = next(r for r in plan["replicas"] if r["role_id"] == role["id"])
        parts[f"role {role['kind']}"] = {
            **{name.removeprefix("effective_"): role[name] for name in ROLE_FIELDS},
            "replica": {name: replica[name] for name in REPLICA_FIELDS if name in replica},
        }
    for link in plan["links"]:
        parts[f"link {link['kind']}"] = {k: v for k, v in link.items() if k != "kind"}
    parts["routing"] = plan["routing"]
    parts["endpoint"] = plan["endpoint"]
    parts["render inputs"] = {d["source_path"]: "read" for d in plan["render_inputs"]}
    return parts


def _leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Every value that is no object by its dotted path; an empty object stays one."""
    if not isinstance(value, dict) or (path and not value):
        return {path: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found |= _leaves(item, f"{path}.{key}" if path else key)
    return found


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    sides = [
        {name: ((value,) if name in side else ()) for name, value in side.items()}
        for side in (before, after)
    ]
    return _differing(*sides)


def _differing(
    before: Mapping[str, tuple[Any, ...]], after: Mapping[str, tuple[Any, ...]]
) -> tuple[Change, ...]:
    pairs = ((name, before.get(name, ()), after.get(name, ())) for name in _union(before, after))
    return tuple(Change(*pair) for pair in pairs if _typed(pair[1]) != _typed(pair[2]))


def _typed(value: Any) -> Any:
    """A JSON value that equals another only if it is the same: true is not 1, and 1.0 is not."""
    if isinstance(value, list | tuple):
        return [_typed(item) for item in value]
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    return type(value), value


@dataclass(frozen=True, kw_only=True, slots=True)
class _Command:
    name: str
    options: Mapping[str, tuple[list[str], ...]]
    env: Mapping[str, str]
    files: Mapping[str, str]


def _commands(prepared: Prepared) -> dict[_Key, _Command]:
    kinds = {role["id"]: role["kind"] for role in prepared.plan["roles"]}
    pairs = zip(prepared.allocations, prepared.rendered["processes"], strict=True)
    return {
        (kinds[process["role"]], process["replica"], process["rank"]): _command(
            process, allocation["cache"].rstrip("/")
        )
        for allocation, process in pairs
    }


def _command(process: Json, cache: str) -> _Command:
    paths = {f"{cache}/{file['relative_path']}": file for file in process["launch_files"]}
    names = {path: path.rpartition("/")[2] for path in paths}

    def plain(token: str) -> str:
        if token in names:
            return f"<launch file {names[token]}>"
        below = token == cache or token.startswith(f"{cache}/")
        return f"<cache>{token[len(cache) :]}" if below else token

    return _Command(
        name=process["process"],
        options=_options(process["command"]["argv"], plain),
        env={name: plain(value) for name, value in process["command"]["env"].items()},
        files={names[path]: file["text"] for path, file in paths.items()},
    )


def _options(argv: Sequence[str], plain: Callable[[str], str]) -> dict[str, tuple[list[str], ...]]:
    """The uses of every option, each as its tokens; what stands before the first is ``""``."""
    uses: list[list[str]] = [[]]
    for token in argv:
        if not _is_option(token):
            uses[-1].append(plain(token))
            continue
        name, equals, value = token.partition("=")
        uses.append([name, plain(value)] if equals else [name])
    found: dict[str, tuple[list[str], ...]] = {"": (uses[0],)}
    for use in uses[1:]:
        found[use[0]] = (*found.get(use[0], ()), use)
    return found


def _is_option(token: str) -> bool:
    # A negative number is a value.
    return len(token) > 1 and token[0] == "-" and not (token[1].isdigit() or token[1] == ".")


def _process(before: _Command | None, after: _Command | None) -> ProcessDiff:
    empty = _Command(name="", options={}, env={}, files={})
    one, other = before or empty, after or empty
    names = _union(one.files, other.files)
    files = (FileDiff(n, _diff(one.files.get(n, ""), other.files.get(n, ""))) for n in names)
    return ProcessDiff(
        before=before.name if before else None,
        after=after.name if after else None,
        argv=_differing(one.options, other.options),
        env=_changes(one.env, other.env),
        files=tuple(file for file in files if file.lines),
    )


def _diff(before: str, after: str) -> tuple[str, ...]:
    """The hunks of a unified diff, without its two lines of file names."""
    lines = list(unified_diff(_lines(before), _lines(after), lineterm=""))
    return tuple(lines[2:])


def _lines(text: str) -> list[str]:
    """Lines without their ends; a missing last end is told by a line of its own."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else [*lines, "\\ no line end at the end"]


def _union(*names: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(name for side in names for name in side))
