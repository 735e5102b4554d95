"""What became of a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["passed", "failed", "known", "skipped"]

_LONGEST = 300


class Broken(Exception):
    """The server breaks the rule; the message says what was seen."""


class Skip(Exception):
    """The check cannot be made of this server; the message says why."""


class TooFast(Skip):
    """A request ended before it was caught running; another try may catch one."""

    def __init__(self) -> None:
        super().__init__("requests end too fast here to be caught running")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """``message``: what was seen, why it was skipped, or why it is known."""

    rule: str
    state: State
    message: str = ""


def short(value: object) -> str:
    """Text on one line, cut where it grows too long to read."""
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
