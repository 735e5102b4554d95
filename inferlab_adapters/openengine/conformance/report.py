"""What a run found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from inferlab_adapters.openengine.conformance.outcome import Outcome, State
from inferlab_adapters.openengine.conformance.rules import rules

STATES: tuple[State, ...] = ("passed", "failed", "known", "skipped")


@dataclass(kw_only=True, slots=True)
class Report:
    """A server in one revision. ``stale``: known deviations that are none any more."""

    revision: str
    engine: str
    role: str
    model: str
    outcomes: list[Outcome]
    stale: list[str] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return any(outcome.state == "failed" for outcome in self.outcomes)

    def states(self, state: State) -> list[str]:
        """The rules that came out so."""
        return [outcome.rule for outcome in self.outcomes if outcome.state == state]

    def title(self) -> str:
        """The server in one line."""
        return f"{self.revision}: {self.engine}, {self.role}, model {self.model}"

    def summary(self) -> str:
        """The counts in one line."""
        counts = self._counts()
        return ", ".join(f"{counts[state]} {state}" for state in STATES)

    def rows(self) -> list[tuple[str, str, str]]:
        """Rule, state, and what was seen or why; of a rule that is kept, what it demands."""
        return [
            (
                outcome.rule,
                outcome.state,
                outcome.message if outcome.state != "passed" else rules()[outcome.rule].text,
            )
            for outcome in self.outcomes
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "revision": self.revision,
            "engine": self.engine,
            "role": self.role,
            "model": self.model,
            "counts": self._counts(),
            "rules": [
                {
                    "rule": outcome.rule,
                    "text": rules()[outcome.rule].text,
                    "state": outcome.state,
                    "message": outcome.message,
                }
                for outcome in self.outcomes
            ],
            "stale": self.stale,
        }

    def _counts(self) -> dict[str, int]:
        counts = Counter(outcome.state for outcome in self.outcomes)
        return {state: counts[state] for state in STATES}
