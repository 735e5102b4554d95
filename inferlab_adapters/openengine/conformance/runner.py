"""Runs every check against a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import grpc

from inferlab_adapters.openengine.conformance import checks as _checks  # noqa: F401
from inferlab_adapters.openengine.conformance.check import ActiveCheck, Watch, active, watches
from inferlab_adapters.openengine.conformance.outcome import Broken, Outcome, Skip, TooFast, short
from inferlab_adapters.openengine.conformance.report import Report
from inferlab_adapters.openengine.conformance.rules import Rule, of
from inferlab_adapters.openengine.conformance.subject import Allowed, Subject
from inferlab_adapters.openengine.conformance.wire import Call, Wire, channel
from inferlab_adapters.openengine.revisions import REVISIONS, Revision

UNASKED = {
    "T4": "shows only where a server is saturated",
    "T15": "tasks end too fast to be cancelled in time",
    "R13": "shows only where more requests wait than run",
}
"""Why rules that no check can ask for, of whatever server, are skipped."""

_NOT_SERVED = "no server serves conversations yet"
_ATTEMPTS = 3
_NOT_ASKED = "not asked"
_GONE = "the server is gone"


class Unreachable(Exception):
    """Nothing that can be asked answers; the message says what came."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What to ask. Empty ``revisions``: all that the server serves; empty ``model``: its first.

    ``timeout`` of one call is in seconds; what must happen soon gets a tenth of it.
    """

    address: str
    peer: str = ""
    revisions: tuple[str, ...] = ()
    model: str = ""
    timeout: float = 30.0
    ca: bytes | None = None
    token: str = ""
    allowed: Allowed = field(default_factory=Allowed)


async def run(asked: Asked, checks: Sequence[ActiveCheck] = active) -> list[Report]:
    """Ask a server everything, or these ``checks``; raises :class:`Unreachable`.

    Whatever is asked, every call is looked at.
    """
    # A drain ends the seed's run, and with it the server's.
    names = sorted(asked.revisions or REVISIONS, reverse=True)
    reports, missing = [], []
    for name in names:
        async with _subject(asked, REVISIONS[name]) as subject:
            if isinstance(subject, str):
                missing.append(subject)
            else:
                reports.append(await _run(subject, checks))
    if not reports or (asked.revisions and missing):
        raise Unreachable("; ".join(missing))
    return reports


@asynccontextmanager
async def _subject(asked: Asked, revision: Revision) -> AsyncIterator[Subject | str]:
    """The server, or why it cannot be asked in this revision."""
    async with AsyncExitStack() as stack:
        seen: list[Call] = []

        async def wire(address: str) -> Wire:
            made = await stack.enter_async_context(channel(address, ca=asked.ca))
            metadata = (("authorization", f"Bearer {asked.token}"),) if asked.token else ()
            return Wire(
                made, revision, address, timeout=asked.timeout, seen=seen, metadata=metadata
            )

        main = await wire(asked.address)
        call = await main.unary(_info(revision))
        if call.code is grpc.StatusCode.UNIMPLEMENTED:
            yield f"{asked.address} does not serve OpenEngine {revision.name}"
            return
        if not call.ok:
            raise Unreachable(f"{asked.address}: {call.told()}")
        peer = await wire(asked.peer) if asked.peer else None
        if peer is not None:
            answer = await peer.unary(_info(revision))
            if not answer.ok:
                raise Unreachable(f"{asked.peer}: {answer.told()}")
        info = call.reply
        model = asked.model or next(iter(info.supported_models), "")
        facts = await main.unary("GetModelInfo", {"model": model})
        seen.clear()
        yield Subject(
            wire=main,
            peer=peer,
            info=info,
            model=model,
            model_info=facts.reply if facts.ok else main.message("ModelInfo"),
            seen=seen,
            allowed=asked.allowed,
        )


def _info(revision: Revision) -> str:
    return "GetEngineInfo" if revision.name == "seed" else "GetServerInfo"


async def _run(s: Subject, checks: Sequence[ActiveCheck]) -> Report:
    ids = {rule.id for rule in of(s.wire.revision.name)}
    found: dict[str, list[Outcome]] = {id: [] for id in ids}
    gone = False
    for check in checks:
        if check.rule not in ids:
            continue
        if gone:
            found[check.rule].append(Outcome(rule=check.rule, state="skipped", message=_GONE))
            continue
        before = len(s.seen)
        outcome = await _ask(check, s)
        if await _is_gone(s, before):
            gone = True
            message = f"the server went away: {outcome.message or 'it answers no more'}"
            outcome = Outcome(rule=check.rule, state="failed", message=short(message))
        found[check.rule].append(outcome)
    for watch in watches:
        if watch.rule in ids:
            calls = [
                call for call in s.seen if call.method in watch.methods and call.code is not None
            ]
            found[watch.rule].append(_look(watch.rule, watch.run, calls, watch.unseen))
    return Report(
        revision=s.wire.revision.name,
        engine=f"{s.info.engine_name} {s.info.engine_version}".strip(),
        role=s.role,
        model=s.model,
        outcomes=[_joined(rule, found[rule.id]) for rule in of(s.wire.revision.name)],
    )


async def _ask(check: ActiveCheck, s: Subject) -> Outcome:
    if check.needs == "decode" and not s.decodes:
        message = "a prefill server generates nothing"
        return Outcome(rule=check.rule, state="skipped", message=message)
    try:
        for attempt in range(_ATTEMPTS):
            try:
                await check.run(s)
                break
            except TooFast:
                if attempt == _ATTEMPTS - 1:
                    raise
    except Broken as broken:
        return Outcome(rule=check.rule, state="failed", message=short(broken))
    except Skip as skip:
        return Outcome(rule=check.rule, state="skipped", message=short(skip))
    except Exception as error:
        # Answers that no check foresaw; the run goes on.
        message = f"the check broke on what came: {type(error).__name__}: {error}"
        return Outcome(rule=check.rule, state="failed", message=short(message))
    return Outcome(rule=check.rule, state="passed")


async def _is_gone(s: Subject, before: int) -> bool:
    """Whether the server, or its peer, was lost in the calls since ``before``."""
    lost = [call for call in s.seen[before:] if call.code is grpc.StatusCode.UNAVAILABLE]
    for wire in (s.wire, s.peer):
        if wire is None or not any(call.server == wire.address for call in lost):
            continue
        if (await wire.unary(_info(wire.revision))).code is grpc.StatusCode.UNAVAILABLE:
            return True
    return False


def _look(rule: str, run: Watch, calls: Sequence[Call], unseen: str) -> Outcome:
    shown = False
    for call in calls:
        try:
            shown = run(call) or shown
        except Broken as broken:
            return Outcome(rule=rule, state="failed", message=short(broken))
    return Outcome(
        rule=rule, state="passed" if shown else "skipped", message="" if shown else unseen
    )


def _joined(rule: Rule, outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome for all that looked at a rule: a failure counts, then what passed."""
    if not rule.served:
        return Outcome(rule=rule.id, state="skipped", message=_NOT_SERVED)
    if not outcomes:
        return Outcome(rule=rule.id, state="skipped", message=UNASKED.get(rule.id, _NOT_ASKED))
    for state in ("failed", "passed"):
        for outcome in outcomes:
            if outcome.state == state:
                return outcome
    return outcomes[0]
