"""Why a command is as it is: where every token, variable and line of a file comes from.

Rendering traces this only when somebody listens (:class:`inferlab_adapters.adapter.Context`). What
an option comes from follows from the rules that rendering already enforces: one that the request or
the allocations own is never in the settings, one of the settings never in the extra arguments. An
integration's ``explain.py`` adds what those rules cannot know: which field, and why.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from inferlab_adapters.deployment import PLANNED, RolePlan
from inferlab_adapters.environment import CACHE_VARIABLES
from inferlab_adapters.errors import pointer
from inferlab_adapters.openengine import launch
from inferlab_adapters.options import Use

if TYPE_CHECKING:
    from inferlab_adapters.adapter import Command
    from inferlab_adapters.allocation import Deployment, Rank, Replica
    from inferlab_adapters.launch_files import LaunchFile

Source = Literal["request", "parallelism", "setting", "allocation", "adapter"]


class Origin(NamedTuple):
    """Where something comes from.

    ``pointer`` is a JSON pointer into the render request, empty for what the adapter itself
    brings; ``why`` is for people.
    """

    source: Source
    pointer: str
    why: str


class Traced(NamedTuple):
    """A token, a variable (``NAME=value``) or a line of a file, with its origin."""

    text: str
    origin: Origin


class FileTrace(NamedTuple):
    """A launch file by its path, line by line."""

    path: str
    lines: tuple[Traced, ...]


class ProcessTrace(NamedTuple):
    """Everything that makes up one process, in the order of the command."""

    process: str
    argv: tuple[Traced, ...]
    env: tuple[Traced, ...]
    files: tuple[FileTrace, ...]


Place = Literal["request", "role", "allocation", "primary", "parallelism", "setting", "adapter"]


class Cause(NamedTuple):
    """An origin before it is known which process is meant.

    ``place`` says what ``path`` is relative to: the input of the request, the role, the process's
    own allocation, that of its replica's rank 0, or the role's sizes or settings.
    """

    place: Place
    path: str
    why: str


Servers = Literal["prefill", "decode"]

_PROGRAM = Origin("adapter", "", "belongs to the program")


class Explanation(Protocol):
    """What an integration's ``explain.py`` says."""

    PROGRAM: Mapping[str, str]
    """The words that a command may begin with, with what each is for."""
    OPTIONS: Mapping[str, Cause]
    """Options of a server that the adapter writes itself, by setting name."""
    ENVIRONMENT: Mapping[str, Cause]
    """Variables that the adapter sets itself."""
    ROUTER: Mapping[str, Cause]
    """Options of the router."""
    ROUTER_SERVERS: Mapping[str, Servers]
    """Options of the router that stand once for every server of a role."""

    def file_lines(
        self, deployment: Deployment, replica: Replica, file: LaunchFile, /
    ) -> Iterator[Traced]: ...


def file_lines(deployment: Deployment, replica: Replica, file: LaunchFile) -> Iterator[Traced]:
    """The lines of a file of which no more is known than that the adapter writes it."""
    for line in file.text.splitlines():
        yield Traced(line, Origin("adapter", "", f"a line of {file.name}"))


class Unexplained:
    """The explanation of an integration that has none: what the core's rules know."""

    PROGRAM: Mapping[str, str] = MappingProxyType({})
    OPTIONS: Mapping[str, Cause] = MappingProxyType({})
    ENVIRONMENT: Mapping[str, Cause] = MappingProxyType({})
    ROUTER: Mapping[str, Cause] = MappingProxyType({})
    ROUTER_SERVERS: Mapping[str, Servers] = MappingProxyType({})

    file_lines = staticmethod(file_lines)


def trace(
    explanation: Explanation,
    deployment: Deployment,
    replica: Replica,
    rank: Rank,
    command: Command,
) -> ProcessTrace:
    """Why a rendered process is as it is."""
    tracer = _Tracer(explanation, deployment, replica, rank)
    argv = tracer.router(command) if replica.role is None else tracer.server(command)
    return ProcessTrace(
        process=rank.allocation.process,
        argv=tuple(argv),
        env=tuple(tracer.environment(command)),
        files=tuple(
            FileTrace(
                file.path(rank.allocation.cache),
                tuple(explanation.file_lines(deployment, replica, file)),
            )
            for file in command.files
        ),
    )


def resolve(cause: Cause, replica: Replica, rank: Rank) -> Origin:
    """A cause for one process."""
    if cause.place == "adapter":
        return Origin("adapter", "", cause.why)
    if cause.place == "request":
        return Origin("request", f"/input/{cause.path}", cause.why)
    if cause.place in ("allocation", "primary"):
        holder = rank if cause.place == "allocation" else replica.primary
        return Origin("allocation", f"{holder.pointer}/{cause.path}", cause.why)
    role = replica.role
    assert role is not None
    if cause.place == "role":
        return Origin("request", f"{role.request.pointer}/{cause.path}", cause.why)
    if cause.place == "setting":
        return Origin("setting", f"{role.settings.pointer}/{cause.path}", cause.why)
    base = f"{role.request.pointer}/{PLANNED.parallelism}"
    return Origin("parallelism", f"{base}/{cause.path}", cause.why)


class _Tracer:
    """Walks one command."""

    def __init__(
        self, explanation: Explanation, deployment: Deployment, replica: Replica, rank: Rank
    ) -> None:
        self._explanation = explanation
        self._deployment = deployment
        self._replica = replica
        self._rank = rank

    def server(self, command: Command) -> Iterator[Traced]:
        plan, role = self._deployment.plan, self._replica.role
        assert role is not None
        own = launch.unwrapped(command.argv)
        yield from self._wrapper(command.argv[: len(command.argv) - len(own)])
        rest = yield from self._program(list(own))
        if rest and rest[0] == self._rank.model_locator:
            yield Traced(rest.pop(0), self._locator())
        extra = 0
        for use in plan.table.scan(rest):
            origin = self._option(role, use)
            for token in (use.token, *use.values):
                if origin is not None:
                    yield Traced(token, origin)
                elif token in role.settings.extra_args[extra:]:
                    # Extra arguments come last and in their order.
                    extra = role.settings.extra_args.index(token, extra) + 1
                    where = pointer(role.settings.at("extra_args"), extra - 1)
                    yield Traced(token, Origin("setting", where, "passed on as it is"))
                else:
                    yield Traced(token, _PROGRAM)

    def router(self, command: Command) -> Iterator[Traced]:
        explanation, plan = self._explanation, self._deployment.plan
        rest = yield from self._program(list(command.argv))
        seen: dict[str, int] = {}
        origin = _PROGRAM
        for token in rest:
            kind = explanation.ROUTER_SERVERS.get(token)
            if kind:
                index = seen[token] = seen.get(token, -1) + 1
                server = self._deployment.of_role(plan.role(kind).id)[index]
                where = pointer(server.primary.pointer, "endpoint")
                origin = Origin("allocation", where, f"{kind} server {index} to send requests to")
            elif token in explanation.ROUTER:
                origin = self._resolved(explanation.ROUTER[token])
            yield Traced(token, origin)

    def environment(self, command: Command) -> Iterator[Traced]:
        role = self._replica.role
        for name, value in sorted(command.env.items()):
            yield Traced(f"{name}={value}", self._variable(role, name))

    def _wrapper(self, tokens: Sequence[str]) -> Iterator[Traced]:
        """The program that serves OpenEngine, where the engine is started by it."""
        if not tokens:
            return
        from inferlab_adapters.openengine import causes

        origin = _PROGRAM
        for token in tokens:
            cause = causes.OPTIONS.get(token.partition("=")[0])
            origin = self._resolved(cause) if cause else origin
            yield Traced(token, origin)

    def _program(self, argv: list[str]) -> Generator[Traced, None, list[str]]:
        """The words of the program; returns what follows them."""
        words = self._explanation.PROGRAM
        while argv and argv[0] in words:
            token = argv.pop(0)
            yield Traced(token, Origin("adapter", "", words[token]))
        return argv

    def _locator(self) -> Origin:
        cause = Cause("allocation", "model_locator", "where this machine has the model")
        return self._resolved(cause)

    def _option(self, role: RolePlan, use: Use) -> Origin | None:
        """Where an option comes from; ``None`` for an extra argument."""
        table, settings = self._deployment.plan.table, role.settings
        if use.reading is not None:
            option = use.reading.option
            cause = next(
                (
                    self._explanation.OPTIONS[name]
                    for name in (option.name, *option.all_names)
                    if name in self._explanation.OPTIONS
                ),
                None,
            )
            owner = table.owner(option)
            if owner:
                return self._resolved(cause) if cause else Origin("adapter", "", owner)
            name = option.name
        else:
            name = use.token.lstrip("-").replace("-", "_")
        if name in settings.options:
            return Origin("setting", settings.at(name), "an option of the framework, by its name")
        return None

    def _variable(self, role: RolePlan | None, name: str) -> Origin:
        if role is not None and name in role.settings.extra_env:
            where = pointer(role.settings.at("extra_env"), name)
            return Origin("setting", where, "added as it is")
        cause = self._explanation.ENVIRONMENT.get(name)
        if cause is None and name in CACHE_VARIABLES:
            why = "keeps what is compiled or tuned under the cache of this process"
            cause = Cause("allocation", "cache", why)
        return self._resolved(cause or Cause("adapter", "", "set by the adapter"))

    def _resolved(self, cause: Cause) -> Origin:
        return resolve(cause, self._replica, self._rank)
