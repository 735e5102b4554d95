"""``oe up --detach``: the same command in a session of its own, followed until it is ready."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO

import click

from inferlab_adapters.control import wanted
from inferlab_adapters.control.events import UP_TEXT
from inferlab_adapters.control.state import Deployment, StateRoot

_POLL_SECONDS = 0.1


def follow(file: str, framework: str | None, name: str | None, options: Sequence[str]) -> int:
    """Start the supervisor, show what it says; its exit code, or 0 as soon as all is ready."""
    data = sys.stdin.buffer.read() if file == "-" else b""
    name = name or wanted.load(file, framework=framework, stdin=io.BytesIO(data)).name
    deployment = StateRoot.default().deployment(name)
    deployment.refuse_if_up()
    log = deployment.open_supervisor_log()
    with log:
        child = subprocess.Popen(
            # -P: a folder that happens to be called inferlab_adapters here does not count.
            [
                *(sys.executable, "-P", "-m", "inferlab_adapters.cli"),
                *("up", f"--name={name}", *options, "--", file),
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    assert child.stdin is not None
    with child.stdin:
        child.stdin.write(data)
    try:
        return _watch(child, deployment)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise


def _watch(child: subprocess.Popen[bytes], deployment: Deployment) -> int:
    with open(deployment.supervisor_log, "rb") as log:
        while True:
            ended = child.poll()
            ready = _show(log)
            if ended is not None:
                return ended
            if ready:
                name = deployment.name
                click.echo(f"{name} is held in the background: oe logs {name}, oe down {name}")
                # It is meant to live on; nobody shall wait for it or warn that it does.
                child.returncode = 0
                return 0
            time.sleep(_POLL_SECONDS)


def _show(log: BinaryIO) -> bool:
    """Print what is new; whether everything is ready."""
    lines = log.read().decode(errors="replace").splitlines()
    for line in lines:
        click.echo(line, err=line.startswith("oe: "))
    return any(line.startswith(UP_TEXT) for line in lines)
