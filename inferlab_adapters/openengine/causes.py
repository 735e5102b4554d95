"""Why the program that serves OpenEngine stands before an engine's command; see ``launch.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from inferlab_adapters.openengine.launch import PORT, PROGRAM
from inferlab_adapters.origins import Cause

OPTIONS: Final[Mapping[str, Cause]] = {
    "--framework": Cause("adapter", "", "which engine its backend is for"),
    "--role": Cause("role", "kind", "what OpenEngine requests this server takes"),
    "--listen": Cause("allocation", f"ports/{PORT}", "speaks OpenEngine here"),
    "--engine": Cause("allocation", "endpoint", "where the engine that it starts answers"),
    "--instance-id": Cause("allocation", "process", "what discovery calls this server"),
    "--": Cause("adapter", "", "behind it stands the engine's own command"),
    **dict.fromkeys(
        PROGRAM,
        Cause("setting", "openengine", "serves OpenEngine beside the engine that it starts"),
    ),
}
