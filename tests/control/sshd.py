"""A real ssh server on loopback, for one test session."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SSHD = "/usr/sbin/sshd"


def missing() -> str:
    """Why there can be no server here; empty if there can."""
    if not os.access(SSHD, os.X_OK) or not shutil.which("ssh"):
        return "OpenSSH's client and server are not installed"
    if os.geteuid():
        return "sshd needs root to run on its own"
    return ""


class Server(NamedTuple):
    """A running server: its process, and ssh's options to reach it, quoted for a shell."""

    pid: int
    options: str


@contextmanager
def server(folder: Path, port: int) -> Iterator[Server]:
    """Run sshd with keys of its own, for this user."""
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    authorized = folder / "authorized_keys"
    authorized.write_text((folder / "user.pub").read_text())
    authorized.chmod(0o600)
    config = folder / "sshd_config"
    config.write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder / 'host'}\n"
        f"AuthorizedKeysFile {authorized}\nPidFile none\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        # The login shell reads the start-up files of whoever runs the tests otherwise.
        f"SetEnv HOME={folder}\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    known = folder / "known_hosts"
    public = (folder / "host.pub").read_text()
    known.write_text(f"[127.0.0.1]:{port} {public}")
    options = ["-F", "/dev/null", "-i", str(folder / "user"), "-p", str(port)]
    options += ["-o", f"UserKnownHostsFile={known}", "-o", "IdentitiesOnly=yes"]
    options += ["-o", "KexAlgorithms=curve25519-sha256"]
    with (
        open(folder / "sshd.log", "wb") as log,
        subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log) as daemon,
    ):
        try:
            _wait(["ssh", *options, "-o", "BatchMode=yes", "127.0.0.1", "true"], folder)
            yield Server(daemon.pid, shlex.join(options))
        finally:
            daemon.terminate()


def _wait(command: list[str], folder: Path) -> None:
    for _ in range(100):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode == 0:
            return
        time.sleep(0.05)
    raise AssertionError(done.stderr.decode() + (folder / "sshd.log").read_text())
