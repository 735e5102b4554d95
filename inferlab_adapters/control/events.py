"""What a launch reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Stage = Literal["note", "starting", "started", "waiting", "ready", "up", "stopping", "stopped"]
"""``note`` is for people only; ``up`` says that the whole deployment is ready."""


UP_TEXT = "ready at "
"""How the text of ``up`` begins; a URL follows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One step. ``process`` is empty where the deployment as a whole is meant."""

    stage: Stage
    text: str
    process: str = ""

    def __str__(self) -> str:
        return f"{self.process}: {self.text}" if self.process else self.text


Report: TypeAlias = Callable[[Event], None]
