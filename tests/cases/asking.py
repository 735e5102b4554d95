"""How the tests of launch faults ask an adapter, and what they read of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from inferlab_adapters.adapter import Adapter
from inferlab_adapters.openengine.launch import SETTING as OPENENGINE
from inferlab_adapters.openengine.launch import unwrapped
from inferlab_adapters.options import OptionTable
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    Json,
    Placement,
    allocate,
    argv_of,
    ask,
    output,
    plan_request,
    refused,
    render_request,
    role,
    serve,
)
from tests.support.golden import single
from tests.support.schema import schema

INV, REQ = "invalid_settings", "invalid_request"
TOGETHER = Placement(together=True)
Spoil = Callable[[list[Json]], None]
Sizes = Mapping[tuple[str, str], int]


class Reading(NamedTuple):
    """What an engine makes of a command line: the nine sizes, and the devices it takes."""

    sizes: dict[tuple[str, str], int]
    devices: int


class Engine(NamedTuple):
    """An adapter, and the framework version that it is asked for where a test names none."""

    adapter: Adapter
    version: str

    @property
    def plain(self) -> Json:
        """The settings of a server that is the engine alone, to which nothing is added."""
        own = {setting.name for setting in self.adapter.own_settings}
        return {OPENENGINE.name: False} if OPENENGINE.name in own else {}

    def ask(
        self,
        request: Json,
        version: str | None = None,
        note: Callable[[str], None] = lambda text: None,
    ) -> Json:
        return ask(self.adapter, request, version or self.version, note)

    def table(self, version: str | None = None) -> OptionTable:
        return self.adapter.option_table(version or self.version)

    def serve(
        self, request: Json, placement: Placement | None = None, version: str | None = None
    ) -> tuple[Json, list[Json], Json]:
        """Plan, allocate and render, all checked: (plan, allocations, rendered)."""
        return serve(self.adapter, request, placement, version or self.version)

    def argv(self, request: Json, process: str = "server", version: str | None = None) -> list[str]:
        """The command line that a request ends in."""
        return argv_of(self.serve(request, version=version)[2], process)

    def plan_refusal(self, request: Json, version: str | None = None) -> tuple[str, str]:
        return refused(self.ask(request, version))

    def settings_refusal(self, settings: Mapping[str, Any], version: str | None = None) -> str:
        """What plan says against settings of a lone server; render must say the same of them."""
        code, message = self.plan_refusal(single(**settings), version)
        assert code == INV
        # What the adapter adds to a server that is not plain would be set a second time.
        request = single(**{name: settings[name] for name in self.plain if name in settings})
        plan = output(self.ask(request, version))
        plan["roles"][0]["effective_settings"] |= settings
        render = render_request(request, plan, allocate(plan))
        code, again = refused(self.ask(render, version))
        assert (code, again.replace("/effective_settings", "/settings")) == (INV, message)
        return message

    def render_refusal(
        self, request: Json, spoil: Spoil, placement: Placement | None = None
    ) -> str:
        """What render says against allocations changed by ``spoil``."""
        plan = output(self.ask(request))
        allocations = allocate(plan, placement)
        assert self.ask(render_request(request, plan, allocations))["status"] == "ok"
        spoil(allocations)
        code, message = refused(self.ask(render_request(request, plan, allocations)))
        assert code == REQ
        return message

    def notes(self, request: Json, version: str | None = None) -> list[str]:
        """What goes to standard error while a plan is made."""
        heard: list[str] = []
        output(self.ask(request, version, heard.append))
        return heard

    def visible_or_refused(
        self,
        reads: Callable[[list[str]], Reading],
        sizes: Sizes,
        *others: Json,
        **fields: Any,
    ) -> bool:
        """Whether declared sizes were accepted; then each must be what the engine reads.

        ``reads`` says what the engine makes of a command line, by its own algebra.
        """
        kind = "serve" if not others else ("prefill", "decode")[others[0]["kind"] == "prefill"]
        mine = role(kind, **declare(sizes))
        roles = sorted([mine, *others], key=lambda item: str(item["kind"]), reverse=True)
        request = plan_request(*roles, **fields)
        answer = self.ask(request)
        if answer["status"] == "error":
            code, message = refused(answer)
            assert code == INV
            assert "must be" in message or "takes only" in message
            return False
        plan, _, rendered = self.serve(request)
        read = reads(argv_of(rendered, "server" if kind == "serve" else kind))
        assert {key: read.sizes[key] for key in sizes} == dict(sizes)
        effective = next(item for item in plan["roles"] if item["id"] == kind)
        assert read.sizes == {
            (group, name.removesuffix("_parallel_size")): size
            for group, named in effective["effective_parallelism"].items()
            for name, size in named.items()
        }
        devices = next(r["device_count"] for r in plan["replicas"] if r["role_id"] == kind)
        assert read.devices == devices
        return True


ENGINES = {
    framework: Engine(adapter, adapter.recorded_versions()[-1])
    for framework, adapter in ADAPTERS.items()
}


def after(tokens: list[str], flag: str) -> str:
    """The value of an option that must stand exactly once."""
    assert tokens.count(flag) == 1, f"{flag} in {tokens}"
    return tokens[tokens.index(flag) + 1]


def on_first(path: str, value: Any) -> Spoil:
    """Put a value at a path of the first allocation."""

    def spoil(allocations: list[Json]) -> None:
        *parents, last = path.split("/")
        node: Any = allocations[0]
        for part in parents:
            node = node[part]
        node[last] = value

    return spoil


def servers_of(
    deployments: Iterable[tuple[str, Json, list[Json], Json]],
) -> Iterator[tuple[str, Json, list[str]]]:
    """Every server process of (name, plan, allocations, rendered): (name, allocation, argv)."""
    for name, _, allocations, rendered in deployments:
        for allocation, process in zip(allocations, rendered["processes"], strict=True):
            if allocation["role"] != "router":
                label = f"{name}:{allocation['process']}"
                yield label, allocation, list(unwrapped(process["command"]["argv"]))


@cache
def wire_sizes() -> tuple[tuple[str, str], ...]:
    """Every size of the protocol's schema, as (group, name without its ending)."""
    found: list[tuple[str, str]] = []
    for group in ("outer", "attention", "experts"):
        sizes = schema()["$defs"][f"Parallelism{group.capitalize()}"]["properties"]
        found += [(group, name.removesuffix("_parallel_size")) for name in sizes]
    return tuple(found)


def declare(sizes: Sizes) -> Json:
    """The parallelism arguments of a role."""
    groups: Json = {}
    for (group, name), size in sizes.items():
        groups.setdefault(group, {})[name] = size
    return groups
