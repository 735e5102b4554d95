"""The golden cases of the toy adapter."""

from __future__ import annotations

from functools import partial

from tests.support.control_plane import Placement, plan_request, role
from tests.support.golden import INV, REQ, hosts, pair, single
from tests.support.golden import Case as AnyCase
from tests.support.golden import Refusal as AnyRefusal

Case = partial(AnyCase, version="1.0.0")
Refusal = partial(AnyRefusal, version="1.0.0")
TCP = {"kv_transfer_protocol": "tcp"}

CASES = [
    Case(name="single-settings", request=single(max_requests=8, prefix_cache=False, stop=["a"])),
    Case(
        name="two-node-tp4",
        request=plan_request(role(outer={"tensor": 4})),
        placement=Placement(ranks={"serve": 2}),
    ),
    Case(
        name="1p1d-nixl-tcp",
        request=pair(
            role("prefill", outer={"tensor": 2}, settings=TCP), role("decode", settings=TCP)
        ),
    ),
]

REFUSALS = [
    Refusal(name="refused-size", request=plan_request(role(outer={"pipeline": 2})), code=INV),
    Refusal(name="refused-owned", request=single(extra_args=["--tensor-size=2"]), code=INV),
    Refusal(name="refused-protocols", request=pair(role("prefill", settings=TCP)), code=INV),
    Refusal(name="refused-host", request=pair(), code=REQ, spoil=hosts("0.0.0.0")),
]
