"""This machine: processes are children in sessions of their own."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from inferlab_adapters.control import launch_store, proc_table
from inferlab_adapters.control.channel import Address, Launch, Started, exit_text
from inferlab_adapters.control.proc_table import Identity, Table
from inferlab_adapters.control.refusal import Failed


class LocalProcess:
    """A child. It is not waited for before :meth:`close`, so that its id stays its own."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._leader = proc_table.identify(child.pid)

    def leader(self) -> Identity | None:
        return self._leader

    def ended(self) -> str | None:
        if self._child.returncode is None:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            try:
                found = os.waitid(os.P_PID, self._child.pid, flags)
            except ChildProcessError:
                # Where SIGCHLD is ignored, the kernel waits for children itself.
                return "ended"
            if found is None:
                return None
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            return exit_text(code)
        return exit_text(self._child.returncode)

    def close(self) -> None:
        if self.ended() is not None:
            self._child.wait()


class LocalChannel:
    """Starts processes as children of this one."""

    def __init__(self, machine: str) -> None:
        self._machine = machine

    def problem(self, launch: Launch) -> str | None:
        program = launch.argv[0]
        path = self._environment(launch)["PATH"]
        if "/" in program:
            found = shutil.which(os.path.join(launch.cwd, program))
            return None if found else f"{program} is not an executable file"
        return None if shutil.which(program, path=path) else f"{program} is not found in {path}"

    def busy(self, addresses: Sequence[Address]) -> dict[Address, str]:
        tried = ((address, _why_not(*address)) for address in addresses)
        return {address: why for address, why in tried if why}

    def put(self, path: str, text: str, sha256: str) -> None:
        launch_store.put(path, text, sha256)

    def start(self, launch: Launch) -> Started:
        try:
            Path(launch.cwd).mkdir(parents=True, exist_ok=True)
            with open(launch.log, "wb") as log:
                child = subprocess.Popen(
                    launch.argv,
                    env=self._environment(launch),
                    cwd=launch.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except (OSError, ValueError) as error:
            raise Failed(f"{launch.process} cannot be started: {error}") from error
        return LocalProcess(child)

    def table(self, run: str) -> Table:
        return proc_table.read(run)

    def signal(self, targets: Iterable[Identity], number: signal.Signals) -> None:
        for target in targets:
            if proc_table.identify(target.pid) != target:
                continue
            # It may end at any moment, and may have become another user's.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(target.pid, number)

    def _environment(self, launch: Launch) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        if launch.engine_bin:
            path = f"{launch.engine_bin}{os.pathsep}{path}"
        return {**os.environ, "PATH": path, **launch.variables()}


def _why_not(host: str, port: int) -> str | None:
    """Why a server could not listen there now."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        return f"cannot be opened at {host}: {error}"
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as test:
            # As servers do: a connection that is closing does not keep a port.
            test.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                test.bind(address)
                test.listen(1)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return "is in use"
                return f"cannot be opened at {host}: {error.strerror}"
    return None
