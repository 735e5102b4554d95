"""Deployments of stand-in engines, prepared by hand: real processes without an adapter."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from inferlab_adapters.control.events import Event
from inferlab_adapters.control.inventory import Machine
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.run import Running, launched
from inferlab_adapters.control.state import StateRoot
from inferlab_adapters.control.types import Json
from inferlab_adapters.control.wanted import Wanted

PROGRAM = str(Path(__file__).with_name("engine_program.py"))
MACHINE = "here"


def free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def engine(
    name: str,
    *options: object,
    port: int | None = None,
    kind: str = "serve",
    readiness: Json | None = None,
    after: tuple[str, ...] = (),
    argv: list[str] | None = None,
    env: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
) -> Json:
    """One process, which is a replica of its own."""
    port = port or free_port()
    command = argv or [sys.executable, "-IS", PROGRAM, str(port), *map(str, options)]
    return {
        "name": name,
        "port": port,
        "kind": kind,
        "readiness": readiness or {"kind": "http", "path": "/v1/models"},
        "after": list(after),
        "command": {"argv": command, "env": env or {}},
        "files": files or {},
    }


def prepared(
    folder: Path, *engines: Json, name: str = "fake", machine: Machine | None = None
) -> Prepared:
    """A deployment whose public endpoint is the last engine's."""
    machine = machine or Machine(name=MACHINE, address="127.0.0.1", devices=None, ports=())
    plan: Json = {"roles": [], "replicas": []}
    allocations, processes = [], []
    for one in engines:
        place = {"role": one["name"], "replica": 0, "rank": 0, "rank_count": 1}
        plan["roles"].append({"id": one["name"], "kind": one["kind"]})
        replica = {"id": one["name"], "role_id": one["name"], "replica_index": 0}
        plan["replicas"].append({**replica, "primary_readiness": one["readiness"]})
        allocations.append(
            {
                "process": one["name"],
                **place,
                "machine": machine.name,
                "devices": [],
                "endpoint": {"host": "127.0.0.1", "port": one["port"]},
                "ports": {},
                "cache": str(folder / "cache" / one["name"]),
                "dependencies": one["after"],
            }
        )
        files = [_file(*file) for file in one["files"].items()]
        process = {"process": one["name"], **place, "command": one["command"]}
        processes.append({**process, "launch_files": files})
    return Prepared(
        wanted=Wanted(
            name=name,
            framework="vllm",
            request={},
            model_path=None,
            workspace=folder,
            pointers={},
            source="fake.yaml",
        ),
        request={},
        plan=plan,
        allocations=allocations,
        render_request={},
        rendered={"processes": processes},
        machines={machine.name: machine},
        notes=(),
        endpoint=("127.0.0.1", engines[-1]["port"]),
    )


def _file(name: str, text: str) -> Json:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"relative_path": f"launch-files/{digest}/{name}", "text": text, "sha256": digest}


class Launcher:
    """Launches into a state root of its own, and keeps what was reported."""

    def __init__(self, root: StateRoot) -> None:
        self.root = root
        self.events: list[Event] = []
        self.on: Callable[[Event], None] = lambda event: None
        self.always: Callable[[Event], None] = lambda event: None

    @property
    def lines(self) -> list[str]:
        return [str(event) for event in self.events]

    @contextmanager
    def up(
        self, deployment: Prepared, *, timeout: float = 30, grace: float = 10
    ) -> Iterator[Running]:
        def report(event: Event) -> None:
            self.events.append(event)
            self.always(event)
            self.on(event)

        with launched(
            deployment, root=self.root, timeout=timeout, grace=grace, report=report
        ) as running:
            yield running

    def hold(
        self,
        deployment: Prepared,
        when_up: Callable[[Running], object] = lambda running: None,
        *,
        timeout: float = 30,
        grace: float = 10,
    ) -> None:
        """Bring up, do something, and hold: for what ends by an exception."""
        with self.up(deployment, timeout=timeout, grace=grace) as running:
            when_up(running)
            running.hold()

    def pids(self, name: str = "fake") -> list[int]:
        """The leaders that the state names now."""
        state = self.root.deployment(name).load()
        assert state is not None
        return [process.leader.pid for process in state.processes if process.leader]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has only not been waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def with_mark(run: str) -> list[int]:
    """Every living process with a run's mark in its environment, looked for independently."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", pid, "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"OE_RUN={run}".encode() in environment and is_alive(int(pid)):
            found.append(int(pid))
    return found
