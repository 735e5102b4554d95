"""What is known of the deployments that were brought up: one folder each, below a state root.

``lock`` is locked by the supervising process for its whole life, so a lock that is free beside a
state that is not final means that the supervisor crashed. ``state.json`` is replaced as a whole.
``logs/`` stays when the deployment is gone.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from inferlab_adapters.control import launch_store
from inferlab_adapters.control.placement import Taken
from inferlab_adapters.control.records import State
from inferlab_adapters.control.refusal import Failed, Refused
from inferlab_adapters.errors import Fault, did_you_mean, shown

_PATIENCE = 1.0
"""Seconds in which a lock must come free: who only looks holds it for a moment."""


_STATE: TypeAdapter[State] = TypeAdapter(State)


class Deployment:
    """The folder of one deployment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.folder / "supervisor.log"

    def log(self, process: str) -> Path:
        # A process has its name from a role, which may be called anything.
        return self.logs / f"{quote(process, safe='')}.log"

    def log_files(self) -> dict[str, Path]:
        """The logs of the last run, by process."""
        return {unquote(path.stem): path for path in sorted(self.logs.glob("*.log"))}

    def open_supervisor_log(self) -> BinaryIO:
        """A new log for a supervisor in the background. Raises :class:`Refused`."""
        _make(self.folder)
        return open(self.supervisor_log, "wb")

    def load(self) -> State | None:
        """The state, ``None`` where there is no deployment. Raises :class:`Failed`."""
        path = self.folder / "state.json"
        try:
            return _STATE.validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failed(f"cannot read {path}: {error.strerror}") from error
        except ValidationError:
            what = f"{path} was written by another version of oe, or changed"
            raise Failed(f"{what}; stop its processes by hand and remove the file") from None

    def save(self, state: State) -> None:
        """Replace the state. Raises :class:`Failed`."""
        path = self.folder / "state.json"
        try:
            launch_store.replace(path, _STATE.dump_json(state, indent=2))
        except OSError as error:
            raise Failed(f"cannot write {path}: {error.strerror}") from error

    def forget(self) -> None:
        """Remove the state; the logs stay."""
        (self.folder / "state.json").unlink(missing_ok=True)

    def supervised(self) -> bool:
        """Whether a living process holds the lock."""
        try:
            handle = os.open(self.folder / "lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the supervisor. Raises :class:`Refused`, naming who is."""
        _make(self.logs)
        with open(self.folder / "lock", "a+", encoding="ascii") as file:
            if not _lock(file.fileno()):
                raise Refused(self._is_up(file.name))
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def refuse_if_up(self) -> None:
        """Raise :class:`Refused` when this name is up, or was not ended in order."""
        if self.supervised():
            raise Refused(self._is_up(str(self.folder / "lock")))
        self.refuse_if_left()

    def refuse_if_left(self) -> None:
        """Raise :class:`Refused` when processes of an earlier run may still be there."""
        state = self.load()
        if state is not None and state.holds:
            what = f"{self.name} was left behind by an oe that crashed"
            if state.left:
                what = f"{self.name} could not be stopped as a whole: {'; '.join(state.left)}"
            raise Refused(Fault("", what, f"run: oe down {self.name}"))

    def clear_logs(self) -> None:
        """Remove the logs of an earlier run. Raises :class:`Failed`."""
        try:
            for path in self.logs.iterdir():
                path.unlink()
        except OSError as error:
            raise Failed(f"cannot clear {self.logs}: {error.strerror}") from error

    def _is_up(self, lock: str) -> Fault:
        holder = Path(lock).read_text(encoding="ascii").strip() or "unknown"
        what = f"{self.name} is up already, supervised by process {holder}"
        return Fault("", what, f"give another --name, or run: oe down {self.name}")


class StateRoot:
    """The folder that holds every deployment's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def default(cls) -> StateRoot:
        """``$OE_STATE_DIR``, else ``$XDG_STATE_HOME/oe``, else ``~/.local/state/oe``."""
        if chosen := os.environ.get("OE_STATE_DIR"):
            return cls(Path(chosen).absolute())
        base = os.environ.get("XDG_STATE_HOME", "")
        # The XDG specification says that a relative value is to be ignored.
        home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
        return cls(home / "oe")

    def deployment(self, name: str) -> Deployment:
        """The folder of a name, there or not. Raises :class:`Refused` for what cannot be one."""
        if not name or "/" in name or name.startswith("."):
            hint = "begin it with a letter or digit"
            raise Refused(Fault("", f"{shown(name)} cannot name a deployment", hint))
        return Deployment(self.folder / name)

    def known(self, name: str) -> tuple[Deployment, State]:
        """A deployment that has a state. Raises :class:`Refused`."""
        deployment = self.deployment(name)
        state = deployment.load()
        if state is None:
            names = [state.name for _, state in self.deployments()]
            hint = did_you_mean(name, names) or "oe ps lists those there are"
            raise Refused(Fault("", f"there is no deployment {name}", hint))
        return deployment, state

    def deployments(self) -> list[tuple[Deployment, State]]:
        """Every deployment that has a state, by name."""
        if not self.folder.is_dir():
            return []
        folders = (Deployment(path) for path in sorted(self.folder.iterdir()) if path.is_dir())
        loaded = ((folder, folder.load()) for folder in folders)
        return [(folder, state) for folder, state in loaded if state is not None]

    @contextmanager
    def reserve(self) -> Iterator[None]:
        """Be the only one who places: from reading what is taken to writing the own state."""
        _make(self.folder)
        with open(self.folder / ".reserve", "a", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def taken(root: StateRoot) -> Taken:
    """The devices and ports of every deployment that may still use them, by machine name."""
    held = [
        process for _, state in root.deployments() if state.holds for process in state.processes
    ]
    return Taken(
        devices=frozenset(
            (process.machine, device) for process in held for device in process.devices
        ),
        ports=frozenset(
            (process.machine, port) for process in held for *_, port in process.endpoints
        ),
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        what = f"cannot make the state folder {folder}: {error.strerror}"
        raise Refused(Fault("", what, "set OE_STATE_DIR to a folder of yours")) from None


def _lock(handle: int) -> bool:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        else:
            return True
