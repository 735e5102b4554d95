"""The stream of runtime events."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check, watch
from inferlab_adapters.openengine.conformance.checks.kv_events import read_until_quiet
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import Call, arm, enum_name

_SUBSCRIBE = "SubscribeRuntimeEvents"
_TYPES = ("FORWARD_PASS", "BATCH", "QUEUE", "TRANSFER")
_NONE = "the server gives no runtime events"


@check("X1")
async def only_subscribed_types(s: Subject) -> None:
    seen = await _types(s, [])
    if not seen:
        raise Skip("no runtime event was seen")
    others = [f"RUNTIME_EVENT_TYPE_{name}" for name in _TYPES]
    for wanted in (min(seen), next((name for name in others if name not in seen), others[0])):
        for came in await _types(s, [wanted], expected=wanted in seen):
            if came != wanted:
                raise Broken(f"{wanted} was asked for, came {came}")


async def _types(s: Subject, types: list[str], *, expected: bool = True) -> set[str]:
    stream = s.wire.open(_SUBSCRIBE, {"types": types})
    await read_until_quiet(stream, s, expected=expected)
    if stream.call.refused:
        raise Skip(f"{_NONE}: {stream.call.told()}")
    return {
        enum_name(message.runtime_event, "type")
        for message in stream.call.messages
        if arm(message) == "runtime_event"
    }


@watch("X2", (_SUBSCRIBE,), unseen=_NONE)
def events_are_whole(call: Call) -> bool:
    found = False
    for message in call.messages:
        if arm(message) == "runtime_event":
            event, found = message.runtime_event, True
            if not event.event_id or not event.timestamp_unix_nanos or not event.type:
                raise Broken("a runtime event lacks its id, time or type")
    return found


@watch("X3", (_SUBSCRIBE,), unseen="no runtime event stream failed")
def an_error_is_the_end(call: Call) -> bool:
    arms = [arm(message) for message in call.messages]
    if "error" in arms and arms[-1] != "error":
        raise Broken(f"after an error came {arms[-1]}")
    return "error" in arms
