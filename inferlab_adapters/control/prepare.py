"""From a wanted deployment to commands on machines: plan, place, render."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inferlab_adapters.control.client import Client
from inferlab_adapters.control.documents import label
from inferlab_adapters.control.inventory import Inventory, Machine
from inferlab_adapters.control.placement import Taken, place
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.control.wanted import Wanted
from inferlab_adapters.errors import Fault, one_of, shown
from inferlab_adapters.origins import ProcessTrace

REMOTE_CACHE_ROOT = "/var/tmp/oe"
"""Where caches and launch files go on an ssh machine whose inventory entry names no folder."""

_KEPT = ("model", "topology", "routing_backend", "kv_transfer", "profiling")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A deployment whose commands are final; nothing is started yet.

    ``request`` is the plan request as it was sent, ``render_request`` what was rendered,
    ``machines`` those of the inventory by name, ``notes`` the warnings to show, and ``endpoint``
    host and port at which clients reach the deployment.
    """

    wanted: Wanted
    request: Json
    plan: Json
    allocations: list[Json]
    render_request: Json
    rendered: Json
    machines: Mapping[str, Machine]
    notes: tuple[str, ...]
    endpoint: tuple[str, int]


def planned(wanted: Wanted, client: Client) -> Json:
    """The plan for a wanted deployment. Raises :class:`Refused`, its places those of the file."""
    if wanted.placed:
        what = "is already planned: this needs a deployment or a plan_serve request"
        raise Refused(Fault("/operation", what, "render it instead"), source=label(wanted.source))
    return _located(wanted, lambda: client.plan(wanted.request))


def prepare(
    wanted: Wanted,
    client: Client,
    inventory: Inventory,
    *,
    taken: Taken | None = None,
    native_router: bool = False,
    strict: bool = False,
    trace: Callable[[ProcessTrace], None] | None = None,
) -> Prepared:
    """Plan, place and render a wanted deployment. Raises :class:`Refused`.

    With ``native_router``, a deployment that is to be started: routing ``builtin`` needs a router
    of the control plane's own, which this one does not have, so the engine's native router takes
    its place with a note, or the deployment is refused when ``strict``.
    """
    plan = planned(wanted, client)
    request, notes = wanted.request, []
    if native_router and plan["routing"]["owner"] == "inferlab_builtin":
        request = _with_native_router(request, client, strict=strict, source=label(wanted.source))
        backend = request["input"]["routing_backend"]
        notes.append(f"routing builtin needs a router that oe has not: using {backend} instead")
        plan = _located(wanted, lambda: client.plan(request))
    machines = {machine.name: machine for machine in inventory.machines}
    allocations = place(
        plan,
        inventory,
        model_id=request["input"]["model"]["id"],
        model_path=wanted.model_path,
        cache=lambda machine, process: f"{cache_root(machine)}/{wanted.name}/{process}",
        taken=taken or Taken(),
    )
    render_request = rendering(request, plan, allocations, wanted.workspace)
    rendered = _located(wanted, lambda: client.render(render_request, trace))
    return Prepared(
        wanted=wanted,
        request=request,
        plan=plan,
        allocations=allocations,
        render_request=render_request,
        rendered=rendered,
        machines=machines,
        notes=(*client.notes, *notes),
        endpoint=_public(plan, allocations),
    )


def cache_root(machine: Machine) -> str:
    """The folder of a machine below which caches and launch files are kept."""
    if machine.cache is not None:
        return machine.cache
    if machine.ssh is not None:
        return REMOTE_CACHE_ROOT
    return str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oe")


def rendering(request: Json, plan: Json, allocations: list[Json], workspace: Path) -> Json:
    """The render request that follows from a plan and its allocations.

    The files that the plan asks for are read from the workspace. Raises :class:`Refused`.
    """
    wanted = request["input"]
    return {
        "operation": "render_serve",
        "protocol_version": request["protocol_version"],
        "input": {
            **{name: wanted[name] for name in _KEPT if name in wanted},
            "roles": plan["roles"],
            "routing": plan["routing"],
            "links": plan["links"],
            "allocations": allocations,
            "render_inputs": [
                _supplied(workspace, declared["source_path"]) for declared in plan["render_inputs"]
            ],
        },
    }


def _supplied(workspace: Path, source_path: str) -> Json:
    file = workspace / source_path
    try:
        raw = file.read_bytes()
        text = raw.decode("utf-8")
    except OSError as error:
        what = f"cannot read {source_path} in {workspace}: {error.strerror}"
        raise Refused(Fault("", what, "the plan asks for this file")) from None
    except UnicodeDecodeError as error:
        raise Refused(Fault("", f"{file} is not UTF-8 at byte {error.start}")) from None
    return {
        "source_path": source_path,
        "text": text,
        "sha256": hashlib.sha256(raw).hexdigest(),
    }


def _with_native_router(request: Json, client: Client, *, strict: bool, source: str) -> Json:
    routers = list(client.adapter.routers)
    if strict or not routers:
        what = "builtin needs a router of the control plane's own, which oe has not"
        hint = f"use {one_of(map(shown, routers))}" if routers else ""
        raise Refused(Fault("/routing", what, hint), source=source)
    return {**request, "input": {**request["input"], "routing_backend": routers[0]}}


def _public(plan: Json, allocations: list[Json]) -> tuple[str, int]:
    routing = plan["routing"]
    if routing["owner"] == "inferlab_builtin":
        # Nobody listens there yet: the control plane that has such a router gives it an address.
        return "", 0
    endpoint = next(
        allocation["endpoint"]
        for allocation in allocations
        if (allocation["role"], allocation["replica"], allocation["rank"])
        == (routing["role"], routing["replica"], 0)
    )
    return endpoint["host"], endpoint["port"]


def _located(wanted: Wanted, ask: Callable[[], Json]) -> Json:
    """What ``ask`` answers; its refusals name places in the file that a person wrote."""
    try:
        return ask()
    except Refused as refused:
        faults = (fault._replace(pointer=wanted.locate(fault.pointer)) for fault in refused.faults)
        # One common setting is at fault in every role.
        raise Refused(*dict.fromkeys(faults), source=label(wanted.source)) from None
