"""How a server is rendered so that it speaks OpenEngine: its port, its setting, its command.

Rendering needs no more than this; nothing of the gRPC server is loaded for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from inferlab_adapters.addresses import host_port, http_url
from inferlab_adapters.settings import OwnSetting

if TYPE_CHECKING:
    from inferlab_adapters.allocation import Rank
    from inferlab_adapters.protocol import ServeRoleKind
    from inferlab_adapters.settings import Settings

PORT: Final = "openengine"
"""The planned port of every rank; rank 0 listens there."""

MODULE: Final = "inferlab_adapters.openengine"
PROGRAM: Final = ("python3", "-m", MODULE, "serve")

KEY_VARIABLE: Final = "OPENENGINE_SESSION_KEY"
"""The variable with the secret that the servers of one deployment share for KV sessions."""

SETTING = OwnSetting(
    name="openengine",
    kind="boolean",
    meaning=(
        "Speaks OpenEngine over gRPC beside HTTP, on the planned port openengine: rank 0 is "
        "started by a program that serves it. False gives the engine's plain command."
    ),
    default=True,
)

_ROLES: Mapping[str, str] = {"serve": "aggregated", "prefill": "prefill", "decode": "decode"}


def is_on(settings: Settings) -> bool:
    """Whether a role's servers speak OpenEngine."""
    return bool(settings.own.get(SETTING.name, False))


def wrapped(framework: str, kind: ServeRoleKind, rank: Rank, argv: Sequence[str]) -> list[str]:
    """The command that serves OpenEngine for rank 0 and starts its engine by ``argv``."""
    return [
        *PROGRAM,
        *("--framework", framework),
        *("--role", _ROLES[kind]),
        *("--listen", host_port(rank.port(PORT))),
        *("--engine", http_url(rank.endpoint)),
        # A process may be called anything, also what begins with a dash.
        f"--instance-id={rank.allocation.process}",
        "--",
        *argv,
    ]


def is_wrapped(argv: Sequence[str]) -> bool:
    """Whether a command serves OpenEngine."""
    return tuple(argv[: len(PROGRAM)]) == PROGRAM


def unwrapped(argv: Sequence[str]) -> Sequence[str]:
    """The engine's own command inside a wrapped one; any other command as it is."""
    if not is_wrapped(argv):
        return argv
    return argv[list(argv).index("--") + 1 :]
