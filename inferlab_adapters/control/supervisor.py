"""The processes of one deployment, from the first check to the end of the last of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from inferlab_adapters.addresses import url_host
from inferlab_adapters.control import probes
from inferlab_adapters.control.channel import Started, channels
from inferlab_adapters.control.events import UP_TEXT, Event, Report, Stage
from inferlab_adapters.control.launch_store import location
from inferlab_adapters.control.launches import launches
from inferlab_adapters.control.logs import tail
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.proc_table import Identity
from inferlab_adapters.control.readiness import Watch
from inferlab_adapters.control.records import PlannedProcess, State
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.control.signals import Signals
from inferlab_adapters.control.state import Deployment
from inferlab_adapters.control.stop import Held, Stop
from inferlab_adapters.errors import Fault

POLL_SECONDS = 0.2
LEADER_SECONDS = 60.0
"""How long a machine may take to tell the id of a process that it was asked to start."""

TAIL_LINES = 20

EXIT_SECONDS = 20.0
NOT_ENDED = "has not ended"


class Supervisor:
    """Starts, watches and ends. Its deployment is locked, and its first state is saved."""

    def __init__(
        self,
        prepared: Prepared,
        deployment: Deployment,
        state: State,
        *,
        signals: Signals,
        report: Report,
    ) -> None:
        self._prepared = prepared
        self._deployment = deployment
        self.state = state
        self._signals = signals
        self._report = report
        self._launches = launches(prepared, state)
        self._channels = channels(prepared.machines, state.machines)
        self._started: dict[str, Started] = {}
        self._held: dict[str, Held] = {}
        self._watch: Watch | None = None
        self._left: list[str] | None = None
        self.exits: dict[str, str] = {}
        """How each process ended, the last started first; filled by :meth:`end`."""

    def start(self) -> None:
        """Start every process. Raises :class:`Refused` while nothing is started, then Failed."""
        for process in self.state.processes:
            self._signals.check()
            problem = self._channels[process.machine].problem(self._launches[process.name])
            if problem:
                what = f"{process.name} cannot be started on machine {process.machine}: {problem}"
                raise Refused(Fault("", what, "give --engine-env, or engine_env in the inventory"))
        self._check_ports(self.state.processes)
        self._put_launch_files()
        for process in self.state.processes:
            # Once more: in the meantime somebody else may have taken them.
            self._check_ports([process])
            self._start(process)

    def wait(self, timeout: float) -> None:
        """Until every process is ready, at most so many seconds. Raises :class:`Failed`."""
        watch = Watch(probes.of_processes(self._prepared.plan, self._prepared.allocations))
        self._watch = watch
        end = time.monotonic() + timeout
        told: dict[str, str] = dict.fromkeys(self._started, "")
        while True:
            self.check()
            waiting = watch.waiting()
            for name in [name for name in told if name not in waiting]:
                del told[name]
                self._tell("ready", name, "ready")
            for name, what in waiting.items():
                if told[name] != what:
                    told[name] = what
                    self._tell("waiting", name, f"waiting for {what}")
            if not waiting:
                break
            if time.monotonic() > end:
                self._time_out(timeout, waiting)
            self._signals.pause(POLL_SECONDS)
        self._save(replace(self.state, status="ready"))
        for held in self._held.values():
            held.leaders = self._leaders(held.name)
            held.look()
        host, port = self.state.endpoint
        self._tell("up", "", f"{UP_TEXT}http://{url_host(host)}:{port}")

    def check(self) -> None:
        """Raise :class:`Failed` if a process has ended."""
        ended = {name: how for name, one in self._started.items() if (how := one.ended())}
        if not ended:
            return
        guilty, how = next(iter(ended.items()))
        early = "" if self.state.status == "ready" else " before all was ready"
        also = [f"also {name} {text}" for name, text in list(ended.items())[1:]]
        raise Failed(f"{guilty} {how}{early}", *also, *self._log_end(guilty))

    def end(self, reason: str = "") -> list[str]:
        """End every process, once; a sentence for what is left. Raises nothing.

        The state is forgotten, or kept as failed where there is a ``reason`` or something is left.
        """
        if self._left is not None:
            return self._left
        self._left = []
        with suppress(Failed):
            self._save(replace(self.state, status="stopping", reason=reason))
        for held in self._held.values():
            held.leaders = self._leaders(held.name)
        before = self._signals.count
        self._left = Stop(
            list(self._held.values()),
            grace=self.state.grace,
            report=self._tell_safely,
            hurry=lambda: self._signals.count > before,
        ).run()
        for name, started in reversed(self._started.items()):
            self.exits[name] = _how_ended(started)
            started.close()
        if self._watch is not None:
            self._watch.close()
        self._settle(reason, self._left)
        self._tell_safely(Event(stage="stopped", text="everything is stopped"))
        return self._left

    def _settle(self, reason: str, left: list[str]) -> None:
        if reason or left:
            failed = replace(
                self.state,
                status="failed",
                reason=reason or "not all was stopped",
                left=tuple(left),
            )
            with suppress(Failed):
                self._save(failed)
                return
        # What could not be stopped is found again by the state that is there.
        if not left:
            self._deployment.forget()

    def _put_launch_files(self) -> None:
        caches = {one["process"]: one["cache"] for one in self._prepared.allocations}
        machines = {process.name: process.machine for process in self.state.processes}
        for process in self._prepared.rendered["processes"]:
            name = process["process"]
            for file in process["launch_files"]:
                self._signals.check()
                path = location(caches[name], file)
                self._channels[machines[name]].put(path, file["text"], file["sha256"])

    def _check_ports(self, processes: Sequence[PlannedProcess]) -> None:
        for machine in dict.fromkeys(process.machine for process in processes):
            self._signals.check()
            asked = {
                (host, port): f"port {port} ({name} of {process.name})"
                for process in processes
                if process.machine == machine
                for name, host, port in process.endpoints
            }
            for address, why in self._channels[machine].busy(list(asked)).items():
                raise Failed(f"{asked[address]} {why} on machine {machine}")

    def _start(self, process: PlannedProcess) -> None:
        launch = self._launches[process.name]
        self._tell("starting", process.name, f"starting on machine {process.machine}")
        channel = self._channels[process.machine]
        if process.machine not in self._held:
            held = Held(name=process.machine, channel=channel, run=self.state.run)
            self._held[process.machine] = held
        started = channel.start(launch)
        self._started[process.name] = started
        end = time.monotonic() + LEADER_SECONDS
        while (leader := started.leader()) is None:
            self.check()
            if time.monotonic() > end:
                what = f"machine {process.machine} has not started {process.name}"
                raise Failed(f"{what} in {LEADER_SECONDS:g} s", *self._log_end(process.name))
            self._signals.pause(POLL_SECONDS / 4)
        known = replace(process, leader=leader)
        processes = tuple(known if one is process else one for one in self.state.processes)
        self._save(replace(self.state, processes=processes))
        self._tell("started", process.name, f"started as process {leader.pid}, log {process.log}")

    def _time_out(self, timeout: float, waiting: dict[str, str]) -> None:
        guilty, what = next(iter(waiting.items()))
        others = [f"{name} waits for {text}" for name, text in list(waiting.items())[1:]]
        message = f"{guilty} was not ready in {timeout:g} s: it waits for {what}"
        raise Failed(message, *others, *self._log_end(guilty))

    def _log_end(self, process: str) -> list[str]:
        log = self._deployment.log(process)
        lines = tail(log, TAIL_LINES)
        return [f"the end of {log}:", *(f"  {line}" for line in lines)] if lines else []

    def log_tail(self, process: str, lines: int = TAIL_LINES) -> list[str]:
        """The last lines that a process wrote."""
        return tail(Path(self._launches[process].log), lines)

    def _leaders(self, machine: str) -> dict[str, Identity | None]:
        here = {process.name for process in self.state.processes if process.machine == machine}
        return {name: one.leader() for name, one in self._started.items() if name in here}

    def _save(self, state: State) -> None:
        self._deployment.save(state)
        self.state = state

    def _tell(self, stage: Stage, process: str, text: str) -> None:
        self._report(Event(stage=stage, process=process, text=text))

    def _tell_safely(self, event: Event) -> None:
        # Nobody may be listening any more; ending everything matters more.
        with suppress(Exception):
            self._report(event)


def _how_ended(started: Started) -> str:
    # The first thread of a process may have ended, as the machine's table says, before the last.
    end = time.monotonic() + EXIT_SECONDS
    while (how := started.ended()) is None and time.monotonic() < end:
        time.sleep(POLL_SECONDS / 4)
    return how or NOT_ENDED
