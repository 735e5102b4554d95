"""What a check is, and the list of them all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from inferlab_adapters.openengine.conformance.rules import rules
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call

Active: TypeAlias = Callable[[Subject], Awaitable[None]]
"""Asks the server something. Returns where the rule is kept, raises Broken or Skip."""

Watch: TypeAlias = Callable[[Call], bool]
"""Looks at one call that some check made. True: it shows that the rule is kept; False: it says
nothing about it. Raises Broken."""

Needs = Literal["anything", "decode", "tasks"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ActiveCheck:
    """``needs`` says of which servers it can be asked."""

    rule: str
    run: Active
    needs: Needs


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchCheck:
    """``methods``: of which calls. ``unseen``: why nothing may have shown the rule."""

    rule: str
    run: Watch
    methods: frozenset[str]
    unseen: str


active: list[ActiveCheck] = []
watches: list[WatchCheck] = []


def check(rule: str, needs: Needs = "anything") -> Callable[[Active], Active]:
    """Declare the check of a rule; the order of declaration is the order of checks."""
    assert rule in rules(), rule

    def declare(run: Active) -> Active:
        active.append(ActiveCheck(rule=rule, run=run, needs=needs))
        return run

    return declare


def watch(
    rule: str, methods: Iterable[str] = ("Generate",), unseen: str = "no stream showed it"
) -> Callable[[Watch], Watch]:
    """Declare a check of every call of ``methods``, whatever it was made for."""
    assert rule in rules(), rule

    def declare(run: Watch) -> Watch:
        watches.append(WatchCheck(rule=rule, run=run, methods=frozenset(methods), unseen=unseen))
        return run

    return declare
