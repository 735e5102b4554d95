"""Text files that a process needs before it starts, written by the control plane."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inferlab_adapters.protocol.answers import LaunchFileDeclaration


class LaunchFile(NamedTuple):
    """One file: its bare name and its whole text."""

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """The digest of the text in UTF-8, which also names the file's folder."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()

    @property
    def relative_path(self) -> str:
        """Where the file stands below the cache root of its allocation."""
        return f"launch-files/{self.sha256}/{self.name}"

    def path(self, cache: str) -> str:
        """The whole path, which must be a token of argv or a value of env of its own."""
        return f"{cache.rstrip('/')}/{self.relative_path}"

    def to_wire(self) -> LaunchFileDeclaration:
        return {"relative_path": self.relative_path, "text": self.text, "sha256": self.sha256}
