"""Health. What it says during a drain is asked with drains."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.ask import answer, must_answer
from inferlab_adapters.openengine.conformance.checks.models import UNKNOWN
from inferlab_adapters.openengine.conformance.outcome import Broken
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import enum_name

_READY = "HEALTH_STATE_READY"
_PROBE = "inference_probe"


@check("H1")
async def without_probe(s: Subject) -> None:
    reply = must_answer(await s.wire.unary("Health"))
    if any(one.name == _PROBE for one in reply.checks):
        raise Broken("a probe was made that was not asked for")


@check("H2")
async def with_probe(s: Subject) -> None:
    reply = must_answer(await s.wire.unary("Health", {"include_inference_probe": True}))
    if not any(one.name == _PROBE for one in reply.checks):
        names = [one.name for one in reply.checks]
        raise Broken(f"a probe was asked for; the checks are {names}")


@check("H3")
async def ready_means_ready(s: Subject) -> None:
    reply = answer(await s.wire.unary("Health"))
    states = [enum_name(one, "state") for one in (reply, *reply.checks)]
    unknown = [state for state in states if state not in _states(s)]
    if unknown:
        raise Broken(f"a health state is {unknown[0]}")
    if states[0] != _READY:
        raise Broken(f"the server is up, and its health is {states[0]}")


@check("H4")
async def not_ready_for_others(s: Subject) -> None:
    field = "ENGINE_ROLE_DECODE" if s.role != "decode" else "ENGINE_ROLE_PREFILL"
    cases = {"an unknown model": {"model": UNKNOWN}, f"the role {field}": {"role": field}}
    for what, asked in cases.items():
        call = await s.wire.unary("Health", {"include_inference_probe": True, **asked})
        if call.ok and enum_name(call.reply, "state") == _READY:
            raise Broken(f"{what} is READY")


def _states(s: Subject) -> list[str]:
    return [name for name, number in s.wire.revision.enum("HealthState").items() if number]
