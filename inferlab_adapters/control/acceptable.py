"""The part of a request that another engine's adapter accepts."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace

from inferlab_adapters.control.client import Client
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.control.wanted import Wanted
from inferlab_adapters.errors import Fault

_SETTING = re.compile(r"/input/roles/(\d+)/settings/([^/]+)(/.*)?")


def acceptable(wanted: Wanted, client: Client) -> tuple[Wanted, tuple[Fault, ...]]:
    """A wanted deployment without the settings that the adapter refuses, and why it does.

    The places in the faults are those of the file. What is wanted comes back as it is where
    something other than a setting is refused too: leaving out settings does not help then.
    """
    request = deepcopy(wanted.request)
    refusals: list[Fault] = []
    while True:
        try:
            client.plan(request)
        except Refused as refused:
            places = [_SETTING.fullmatch(fault.pointer) for fault in refused.faults]
            # A setting that is missed, rather than refused, is not there to be left out.
            if not all(place and _leave_out(request, place) for place in places):
                return wanted, ()
            refusals += refused.faults
        else:
            located = (f._replace(pointer=wanted.locate(f.pointer)) for f in refusals)
            return replace(wanted, request=request), tuple(located)


def _leave_out(request: Json, place: re.Match[str]) -> bool:
    """Remove the setting at a place; whether the request had it."""
    settings = request["input"]["roles"][int(place[1])]["settings"]
    name = place[2].replace("~1", "/").replace("~0", "~")
    return settings.pop(name, None) is not None
