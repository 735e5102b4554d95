"""``serve`` as a process of its own, with what it says, and a client for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from grpc import aio

from inferlab_adapters.openengine.client import Client
from inferlab_adapters.openengine.revisions import SEED

ROOT = Path(__file__).parents[2]
CHILD = Path(__file__).with_name("fake_child.py")
PATIENCE = 60.0
"""Seconds after which a test gives up; none waits so long unless something is broken."""

T = TypeVar("T")


class Served:
    """The process and the lines of its standard error; ``folder`` is where the engine writes."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def records(self) -> list[dict[str, Any]]:
        """The lines of JSON so far."""
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def record(self, message: str, **fields: Any) -> dict[str, Any]:
        """Wait for a record with this message and these fields."""

        def found() -> dict[str, Any] | None:
            for record in self.records():
                if record["message"] == message and fields.items() <= record.items():
                    return record
            assert self.process.poll() is None or self._reader.is_alive(), self.lines
            return None

        return until(found)

    def port(self, option: str = "--listen") -> int:
        """Where it listens."""
        return int(self.record("listening", option=option)["port"])

    def child(self) -> int:
        """The engine's process id, once the engine itself runs."""

        def found() -> str:
            assert self.process.poll() is None, self.lines
            return self.read("pid")

        return int(until(found))

    def read(self, name: str) -> str:
        """What the engine wrote into a file; empty while there is none."""
        file = self.folder / name
        return file.read_text() if file.exists() else ""

    def code(self) -> int:
        """Wait for the end; the exit code. Everything it said has been read then."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, to it alone."""
        self.process.send_signal(number)

    def ask(self, body: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with a client of the seed revision."""

        async def run() -> T:
            async with aio.insecure_channel(f"127.0.0.1:{self.port()}") as channel:
                return await body(Client(channel, SEED))

        return asyncio.run(run())

    def health(self) -> str:
        """The state that Health answers, such as HEALTH_STATE_READY."""

        async def ask(client: Client) -> str:
            reply = await client.call("Health", {}, timeout=PATIENCE)
            states = SEED.message("HealthResponse").DESCRIPTOR.fields_by_name["state"].enum_type
            return str(states.values_by_number[reply.state].name)

        return self.ask(ask)

    def becomes(self, state: str) -> None:
        """Wait until Health answers this state, such as READY."""
        until(lambda: self.health() == f"HEALTH_STATE_{state}")


@contextmanager
def serve(
    folder: Path,
    *options: str,
    engine: Sequence[str] | None = (),
    environment: dict[str, str] | None = None,
) -> Iterator[Served]:
    """``serve`` while the body runs; ``engine`` are options of the fake one, None attaches."""
    command = [
        *(sys.executable, "-m", "inferlab_adapters.openengine", "serve"),
        *("--backend", "tests.openengine.fake_backend", "--role", "aggregated"),
        *("--engine", f"http://127.0.0.1{folder}"),
        *(() if "--listen" in options else ("--listen", "127.0.0.1:0")),
        *options,
    ]
    if engine is not None:
        command += ["--", sys.executable, "-S", str(CHILD), str(folder), *engine]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    served = Served(process, folder)
    try:
        yield served
    finally:
        process.kill()
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            left = int(served.read("pid"))
            if str(folder) in Path(f"/proc/{left}/cmdline").read_text():
                os.kill(left, signal.SIGKILL)
        served.code()
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stderr.close()


@contextmanager
def fake_child(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The fake engine alone, while the body runs."""
    command = [sys.executable, "-S", str(CHILD), str(folder), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(found: Callable[[], T | None]) -> T:
    """Ask until the answer is a true one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if answer := found():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"still not so after {PATIENCE} s")


def gone(pid: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"
