"""Launch files of this machine: written whole or not at all, kept where they are right already."""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path, PurePosixPath

from inferlab_adapters.control.refusal import Failed
from inferlab_adapters.control.types import Json


def location(cache: str, file: Json) -> str:
    """The path of a rendered launch file below its process's cache folder.

    Raises :class:`Failed` for a file that would stand elsewhere, or whose text is not the one
    that its digest names.
    """
    relative = PurePosixPath(file["relative_path"])
    if relative.is_absolute() or ".." in relative.parts or not relative.parts:
        raise Failed(f"launch file {file['relative_path']!r} is not below the cache folder")
    digest = hashlib.sha256(file["text"].encode()).hexdigest()
    if digest != file["sha256"]:
        raise Failed(f"launch file {relative} has the digest {digest}, not {file['sha256']}")
    return f"{cache.rstrip('/')}/{relative}"


def put(path: str, text: str, sha256: str) -> bool:
    """Make ``path`` hold ``text``; whether it had to be written.

    A file with the right digest is left alone, any other is replaced at once: readers see the old
    file or the new one, also after a power failure. Raises :class:`Failed` with the path and the
    reason, and then leaves nothing half-written.
    """
    target = Path(path)
    try:
        if _digest(target) == sha256:
            return False
        made = _make_folders(target.parent)
        _replace(target, text.encode())
        for folder in (target.parent, *made):
            _sync_folder(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Failed(f"cannot write the launch file {path}: {reason}") from error
    return True


def replace(target: Path, data: bytes) -> None:
    """Write a file by another name, flushed to the disk, and give it its own. Raises OSError."""
    _replace(target, data)
    _sync_folder(target.parent)


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _make_folders(folder: Path) -> list[Path]:
    """Create what is missing; the folders that got a new entry."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return [path.parent for path in missing]


def _replace(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
