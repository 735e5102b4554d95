"""What is advertised is accepted, and what is not is refused."""

from __future__ import annotations

from inferlab_adapters.openengine.conformance.check import check
from inferlab_adapters.openengine.conformance.checks.generate_options import options
from inferlab_adapters.openengine.conformance.outcome import Broken, Skip
from inferlab_adapters.openengine.conformance.subject import Subject
from inferlab_adapters.openengine.conformance.wire import OK


@check("M6")
async def advertised_works(s: Subject) -> None:
    wanted = [option for option in options(s) if option.advertised]
    if not wanted:
        raise Skip("the server advertises nothing")
    for option in wanted:
        for attempt in (1, 2, 3):
            call = await s.generate(
                s.plain(option.changes), expect="served", metadata=option.metadata
            )
            if call.ok and call.error is None:
                break
            # An engine may fail once; a status is an answer.
            if call.code is not OK or attempt == 3:
                raise Broken(f"{option.name} is advertised, and {call.told()}")


@check("R7")
async def the_rest_is_refused(s: Subject) -> None:
    # In v0.1.0 the priority is a hint outside of the request.
    unwanted = [
        option for option in options(s) if option.advertised is False and not option.metadata
    ]
    if not unwanted:
        raise Skip("the server says of no option that it lacks it")
    dropped = []
    for option in unwanted:
        call = await s.generate(s.plain(option.changes), expect="refused")
        if not call.refused:
            dropped.append(option.name)
    if dropped:
        raise Broken(f"not advertised, and not refused: {', '.join(dropped)}")
