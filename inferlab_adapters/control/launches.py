"""From a prepared deployment to processes in the order in which they start."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from inferlab_adapters.control import records
from inferlab_adapters.control.channel import Launch
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.records import PlannedProcess, State
from inferlab_adapters.control.state import Deployment
from inferlab_adapters.control.types import Json
from inferlab_adapters.openengine.launch import KEY_VARIABLE, is_wrapped

WORKSPACE_FOLDER = ".inferlab"
"""The working directory of every process, below the workspace."""


def in_order(allocations: list[Json]) -> list[str]:
    """Process names, each after those it depends on, else as they were allocated."""
    waits = {one["process"]: one.get("dependencies", []) for one in allocations}
    return list(TopologicalSorter(waits).static_order())


def first_state(prepared: Prepared, deployment: Deployment, *, run: str, grace: float) -> State:
    """What is written before anything starts: all that is needed to find every process again."""
    allocations = {one["process"]: one for one in prepared.allocations}
    return State(
        run=run,
        name=deployment.name,
        framework=prepared.wanted.framework,
        status="starting",
        created=time.time(),
        host=records.here(),
        supervisor=records.supervisor(),
        endpoint=prepared.endpoint,
        grace=grace,
        processes=tuple(
            _planned(prepared, allocations[name], deployment.log(name))
            for name in in_order(prepared.allocations)
        ),
    )


def launches(prepared: Prepared, planned: State) -> dict[str, Launch]:
    """What to start, by process, in the order of its start."""
    commands = {one["process"]: one["command"] for one in prepared.rendered["processes"]}
    # With a secret of their own, prefill and decode know their KV sessions from forged ones.
    secret = {KEY_VARIABLE: secrets.token_hex(32)}
    found: dict[str, Launch] = {}
    for process in planned.processes:
        machine = prepared.machines[process.machine]
        command: Mapping[str, Any] = commands[process.name]
        speaks = is_wrapped(command["argv"])
        found[process.name] = Launch(
            process=process.name,
            argv=tuple(command["argv"]),
            env={**(secret if speaks else {}), **command["env"]},
            devices=None if machine.devices is None else process.devices,
            engine_env=machine.engine_env,
            cwd=str(prepared.wanted.workspace / WORKSPACE_FOLDER),
            run=planned.run,
            log=Path(process.log),
        )
    return found


def _planned(prepared: Prepared, allocation: Json, log: Path) -> PlannedProcess:
    endpoints = {"endpoint": allocation.get("endpoint"), **allocation["ports"]}
    return PlannedProcess(
        name=allocation["process"],
        machine=allocation["machine"],
        ssh=prepared.machines[allocation["machine"]].ssh,
        devices=tuple(allocation["devices"]),
        endpoints=tuple((name, one["host"], one["port"]) for name, one in endpoints.items() if one),
        log=str(log),
    )
