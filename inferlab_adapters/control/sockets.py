"""The kernel's tables of TCP sockets, as text."""

from __future__ import annotations

from pathlib import Path

_LISTEN = "0A"


def listening_ports(tables: str) -> set[int]:
    """The ports on which somebody listens, by ``/proc/net/tcp`` and ``/proc/net/tcp6``."""
    ports = set()
    for line in tables.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3] == _LISTEN:
            ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def read() -> str:
    """The tables of this machine."""
    paths = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    return "".join(path.read_text(encoding="ascii") for path in paths if path.exists())
