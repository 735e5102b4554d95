"""What is counted for Prometheus, and its text exposition (version 0.0.4)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import get_args

from inferlab_adapters.openengine.engine import HealthState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_FIRST_TOKEN_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_DURATION_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5),
    *(5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
)


class _Family:
    """A metric and its samples by the values of its labels."""

    kind: str

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self._text = text
        self._labels = tuple(labels)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self._text}"
        yield f"# TYPE {self.name} {self.kind}"
        yield from self.samples()

    def samples(self) -> Iterator[str]:
        raise NotImplementedError

    def _pairs(self, values: Sequence[str]) -> list[tuple[str, str]]:
        return list(zip(self._labels, values, strict=True))


class Counter(_Family):
    """A number that only grows while the process lives."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, text, labels)
        # One without labels is shown from the start, at zero.
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0}

    def add(self, *values: str, amount: float = 1) -> None:
        """Add to the sample with these label values."""
        self._values[values] = self._values.get(values, 0) + amount

    def samples(self) -> Iterator[str]:
        for values, number in sorted(self._values.items()):
            yield _sample(self.name, self._pairs(values), number)


class Gauge(Counter):
    """A number that goes up and down."""

    kind = "gauge"

    def set(self, *values: str, to: float) -> None:
        """Give the sample with these label values a new number."""
        self._values[values] = to


class Histogram(_Family):
    """How many observations, in seconds, lie at or below each bound."""

    kind = "histogram"

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        super().__init__(name, text, labels)
        self._bounds = tuple(bounds)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, *values: str, seconds: float) -> None:
        """Count one observation."""
        counts = self._counts.setdefault(values, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, seconds)] += 1
        self._sums[values] = self._sums.get(values, 0.0) + seconds

    def samples(self) -> Iterator[str]:
        for values, counts in sorted(self._counts.items()):
            pairs = self._pairs(values)
            total = 0
            for bound, count in zip((*self._bounds, math.inf), counts, strict=True):
                total += count
                yield _sample(f"{self.name}_bucket", [*pairs, ("le", _number(bound))], total)
            yield _sample(f"{self.name}_sum", pairs, self._sums[values])
            yield _sample(f"{self.name}_count", pairs, total)


class Metrics:
    """All that one server counts. Only for the event loop's thread."""

    def __init__(self) -> None:
        self.requests = Counter(
            "openengine_requests_total",
            "Calls that have ended, by RPC, protocol revision and gRPC status code.",
            ("rpc", "revision", "code"),
        )
        self.in_flight = Gauge(
            "openengine_requests_in_flight",
            "Calls that run now, streams included.",
            ("rpc", "revision"),
        )
        self.duration = Histogram(
            "openengine_request_duration_seconds",
            "From the arrival of a call to its status.",
            _DURATION_BUCKETS,
            ("rpc", "revision"),
        )
        self.first_token = Histogram(
            "openengine_time_to_first_token_seconds",
            "From handing a request to the engine to its first output token.",
            _FIRST_TOKEN_BUCKETS,
        )
        self.tokens = Counter(
            "openengine_output_tokens_total", "Output tokens that the engine has given."
        )
        self._state = Gauge(
            "openengine_engine_state",
            "1 for the state that the engine is in, 0 for the others.",
            ("state",),
        )
        self.engine_is("starting")

    def engine_is(self, state: HealthState) -> None:
        """Remember the engine's state."""
        for known in get_args(HealthState):
            self._state.set(known, to=known == state)

    def text(self) -> str:
        """All families, as Prometheus reads them."""
        families: tuple[_Family, ...] = (
            self.requests,
            self.in_flight,
            self.duration,
            self.first_token,
            self.tokens,
            self._state,
        )
        return "".join(f"{line}\n" for family in families for line in family.lines())


def _sample(name: str, pairs: Sequence[tuple[str, str]], number: float) -> str:
    labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in pairs)
    return f"{name}{{{labels}}} {_number(number)}" if labels else f"{name} {_number(number)}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(number: float) -> str:
    if math.isinf(number):
        return "+Inf"
    return str(int(number)) if number == int(number) else repr(number)
