"""Files of secrets and certificates that the command line names."""

from __future__ import annotations

from pathlib import Path

_MAX_BYTES = 1024 * 1024


class UnusableFile(Exception):
    """A file that cannot be used; the message says which and why, in one sentence."""


def read(path: Path) -> bytes:
    """All of a file. Raises :class:`UnusableFile` where it cannot be read, or is no small file."""
    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UnusableFile(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > _MAX_BYTES:
        raise UnusableFile(f"{path} is larger than {_MAX_BYTES} bytes; is it the right file?")
    return raw


def read_secret(path: Path) -> bytes:
    """A file's bytes without the white space around them; an empty one is refused.

    Raises :class:`UnusableFile`.
    """
    secret = read(path).strip()
    if not secret:
        raise UnusableFile(f"{path} is empty; write the secret into it")
    return secret
