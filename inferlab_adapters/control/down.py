"""Taking a deployment down, whether its supervisor lives or has crashed."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace

from inferlab_adapters.control import proc_table
from inferlab_adapters.control.channel import connect
from inferlab_adapters.control.events import Event, Report
from inferlab_adapters.control.records import State, here
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.control.state import Deployment
from inferlab_adapters.control.stop import KILL_SECONDS, Held, Stop
from inferlab_adapters.errors import Fault

_POLL_SECONDS = 0.1
_MARGIN_SECONDS = 30.0


def take_down(
    deployment: Deployment,
    state: State,
    *,
    grace: float | None,
    report: Report,
    forget: bool = False,
) -> None:
    """End a deployment and forget its state; logs, caches and launch files stay.

    A living supervisor is asked and waited for. Where it crashed, its processes are found by their
    marker and by who they were. ``grace`` in seconds is for the latter, by default what the
    deployment was started with. With ``forget`` the state goes even where a machine cannot be
    reached, and the report says what may still run.

    Raises :class:`Refused` when it runs on another host, :class:`Failed` when something is left.
    """
    if state.host != here():
        what = f"{state.name} was started on {state.host}, not here"
        raise Refused(Fault("", what, f"run on {state.host}: oe down {state.name}"))
    if deployment.supervised():
        _ask(deployment, state, report)
    with deployment.locked():
        left = deployment.load()
        if left is not None and left.holds:
            _clean(deployment, left, grace=grace, report=report, forget=forget)
        deployment.forget()
    report(Event(stage="stopped", text=f"{state.name} is down"))


def _ask(deployment: Deployment, state: State, report: Report) -> None:
    """SIGTERM to the supervisor, and wait until it has ended everything."""
    pid = state.supervisor.pid
    text = f"asking its supervisor, process {pid}, to stop {state.name}"
    report(Event(stage="stopping", text=text))
    if proc_table.identify(pid) == state.supervisor:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + state.grace + KILL_SECONDS + _MARGIN_SECONDS
    while deployment.supervised():
        if time.monotonic() > end:
            what = f"the supervisor of {state.name}, process {pid}, does not end"
            raise Failed(f"{what}; end it with: kill -9 {pid}, then run: oe down {state.name}")
        time.sleep(_POLL_SECONDS)


def _clean(
    deployment: Deployment, state: State, *, grace: float | None, report: Report, forget: bool
) -> None:
    text = f"{state.name} has no supervisor any more: looking for what it left"
    report(Event(stage="stopping", text=text))
    machines = [
        Held(
            name=name,
            channel=connect(name, ssh),
            run=state.run,
            leaders={one.name: one.leader for one in state.processes if one.machine == name},
        )
        for name, ssh in state.machines.items()
    ]
    seconds = state.grace if grace is None else grace
    left = Stop(machines, grace=seconds, report=report).run()
    if not left:
        return
    if forget:
        for text in left:
            report(Event(stage="note", text=text))
        return
    deployment.save(replace(state, left=tuple(left)))
    hint = f"run oe down {state.name} again, or with --forget to give them up"
    raise Failed(f"{state.name} is not down: {left[0]}", *left[1:], hint)
