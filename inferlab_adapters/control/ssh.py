"""A machine that is reached by ssh.

Each call is one ``ssh`` of its own; that of a process lives as long as the process and carries its
output into the local log. Login shells must read POSIX quotes (sh, bash, dash, ksh, zsh).
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from inferlab_adapters.control import ssh_scripts as scripts
from inferlab_adapters.control.channel import Address, Launch, Started, exit_text
from inferlab_adapters.control.proc_table import Identity, Table, parse_stat
from inferlab_adapters.control.refusal import Failed
from inferlab_adapters.control.sockets import listening_ports

OPTIONS_VARIABLE = "OE_SSH_OPTIONS"
"""Environment variable with further options for every ``ssh``, quoted as a shell reads them."""

_OPTIONS = (
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=15",
    "-o",
    "ServerAliveCountMax=4",
    # A shared connection would outlive its first user, and take all others with it when it breaks.
    "-o",
    "ControlPath=none",
)
_CALL_SECONDS = 60
_CLOSE_SECONDS = 5
_TAIL_BYTES = 65536
_LOST = 255
"""What ssh itself exits with when there is no connection, or no more."""


class SshProcess:
    """The ssh client that carries a remote process's output."""

    def __init__(
        self, child: subprocess.Popen[bytes], log: Path, *, machine: str, run: str
    ) -> None:
        self._child = child
        self._log = log
        self._machine = machine
        start = rf"^oe: run {re.escape(run)}:"
        self._told_start = re.compile(rf"{start} started as process (\d+) (\d+) (\S+)$", re.M)
        self._told_end = re.compile(rf"{start} ended with exit code (\d+)$", re.M)
        self._leader: Identity | None = None

    def leader(self) -> Identity | None:
        if self._leader is None and (found := self._told_start.search(self._head())):
            pid, start, boot = found.groups()
            self._leader = Identity(pid=int(pid), start=int(start), boot=boot)
        return self._leader

    def ended(self) -> str | None:
        code = self._child.poll()
        # A helper that outlives the process and has its output keeps the connection open.
        if found := self._told_end.findall(self._tail()):
            told = int(found[-1])
            # Shells tell a signal as 128 and its number.
            return exit_text(128 - told if 128 < told < 192 else told)
        if code is None:
            return None
        if self.leader() is None and code == _LOST:
            return f"was not started: there is no ssh connection to {self._machine}"
        if code == _LOST:
            return f"is out of reach: the ssh connection to {self._machine} was lost"
        return exit_text(code)

    def close(self) -> None:
        try:
            self._child.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _head(self) -> str:
        with open(self._log, "rb") as log:
            return log.read(_TAIL_BYTES).decode(errors="replace")

    def _tail(self) -> str:
        with open(self._log, "rb") as log:
            log.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
            return log.read().decode(errors="replace")


class SshChannel:
    """Runs POSIX shell scripts on ``target``.

    ``options`` are further options of ssh, by default those in ``$OE_SSH_OPTIONS``.
    """

    def __init__(self, machine: str, target: str, options: Sequence[str] | None = None) -> None:
        self._machine = machine
        if options is None:
            options = shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
        self._ssh = ["ssh", *options, *_OPTIONS, "--", target]

    def problem(self, launch: Launch) -> str | None:
        if "=" in launch.argv[0]:
            # env, which starts it there, would read it as a variable.
            return f"{launch.argv[0]} has a = in its name"
        arguments = launch.engine_bin or "", launch.cwd, launch.argv[0]
        said = self._call("look for the program", scripts.PROBLEM, *arguments)
        return "; ".join(said.decode(errors="replace").split("\n")).strip("; ") or None

    def busy(self, addresses: Sequence[Address]) -> dict[Address, str]:
        text = self._call("look at its ports", scripts.LISTENING).decode(errors="replace")
        used = listening_ports(text)
        return {address: "is in use" for address in addresses if address[1] in used}

    def put(self, path: str, text: str, sha256: str) -> None:
        data = text.encode()
        what = f"write the launch file {path}"
        self._call(what, scripts.PUT, path, sha256, secrets.token_hex(8), stdin=data)

    def start(self, launch: Launch) -> Started:
        variables = [f"{name}={value}" for name, value in launch.variables().items()]
        remote = scripts.command(
            scripts.START,
            launch.engine_bin or "",
            launch.cwd,
            launch.run,
            scripts.LEAD,
            launch.argv[0],
            *variables,
            *launch.argv,
        )
        try:
            with open(launch.log, "wb") as log:
                child = subprocess.Popen(
                    [*self._ssh, remote],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise Failed(f"{launch.process} cannot be started: {error}") from error
        return SshProcess(child, launch.log, machine=self._machine, run=launch.run)

    def table(self, run: str) -> Table:
        text = self._call("list its processes", scripts.TABLE, run).decode(errors="replace")
        boot, _, rest = text.partition("\n")
        marked_lines, _, stats = rest.partition("--\n")
        marked: dict[str, str] = {}
        for line in marked_lines.splitlines():
            pid, _, command = line.partition(" ")
            marked[pid] = command.strip()
        entries = []
        for line in stats.split("\n"):
            pid = line.partition(" ")[0]
            entry = parse_stat(line, marked=pid in marked, command=marked.get(pid, ""))
            if entry is not None:
                entries.append(entry)
        return Table(boot=boot.strip(), entries=tuple(entries))

    def signal(self, targets: Iterable[Identity], number: signal.Signals) -> None:
        by_boot: dict[str, list[str]] = {}
        for target in targets:
            by_boot.setdefault(target.boot, []).append(f"{target.pid}:{target.start}")
        for boot, told in by_boot.items():
            name = number.name.removeprefix("SIG")
            self._call("stop its processes", scripts.SIGNAL, name, boot, *told)

    def _call(self, what: str, script: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a script to its end; its output. Raises :class:`Failed` with the reason."""
        start = f"machine {self._machine}: cannot {what}"
        remote = scripts.command(f"echo {scripts.BEGIN}\n{script}", *arguments)
        try:
            with subprocess.Popen(
                [*self._ssh, remote],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C on the terminal is for the supervisor, not for its ssh.
                start_new_session=True,
            ) as child:
                try:
                    output, errors = child.communicate(stdin, _CALL_SECONDS)
                except BaseException:
                    child.kill()
                    raise
        except subprocess.TimeoutExpired:
            raise Failed(f"{start}: no answer in {_CALL_SECONDS} s") from None
        except OSError as error:
            raise Failed(f"{start}: {error}") from error
        if child.returncode:
            lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
            reason = lines[-1].strip() if lines else exit_text(child.returncode)
            raise Failed(f"{start} by ssh: {reason}")
        return output.partition(f"{scripts.BEGIN}\n".encode())[2]
