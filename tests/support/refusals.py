"""Refusals that every framework owes alike: of topologies, of changed plans, of bad allocations."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.control_plane import Placement, plan_request, role
from tests.support.golden import INV, REQ, Refusal, hosts, pair, put, single


def shared_refusals(refusal: Callable[..., Refusal], router: str) -> list[Refusal]:
    """Golden refusals made by ``refusal``, for an engine with this native router."""
    four = plan_request(role(outer={"tensor": 4}))
    return [
        refusal(
            name="refused-missing-role",
            request=plan_request(role("prefill"), topology="prefill_decode", kv_transfer="nixl"),
            code=INV,
        ),
        refusal(
            name="refused-extra-role",
            request=plan_request(
                *(role("prefill"), role("decode"), role()),
                topology="prefill_decode",
                kv_transfer="nixl",
            ),
            code=INV,
        ),
        refusal(name="refused-router-role", request=plan_request(role("router")), code=INV),
        refusal(
            name="refused-no-kv-transfer",
            request=plan_request(role("prefill"), role("decode")),
            code=INV,
        ),
        refusal(
            name="refused-kv-transfer-in-single",
            request=plan_request(role(), kv_transfer="nixl"),
            code=INV,
        ),
        refusal(name="refused-replica-count-0", request=plan_request(role(count=0)), code=REQ),
        refusal(
            name="refused-devices",
            request=four,
            code=REQ,
            spoil=put("allocations/0/devices", [0, 1]),
        ),
        refusal(
            name="refused-changed-plan",
            request=four,
            code=REQ,
            spoil=put("roles/0/effective_replica_count", 2),
        ),
        refusal(
            name="refused-changed-layout",
            request=four,
            code=INV,
            spoil=put("roles/0/effective_parallelism/attention/tensor_parallel_size", 2),
        ),
        refusal(name="refused-wildcard-host", request=pair(), code=REQ, spoil=hosts("0.0.0.0")),
        refusal(name="refused-loopback-host", request=pair(), code=REQ, spoil=hosts("127.0.0.1")),
        refusal(
            name="refused-port-twice",
            request=pair(),
            code=REQ,
            placement=Placement(together=True),
            spoil=put("allocations/1/endpoint/port", 8000),
        ),
        refusal(
            name="refused-model-locator",
            request=single(),
            code=REQ,
            spoil=put("allocations/0/model_locator", "--help"),
        ),
        refusal(
            name="refused-router-with-devices",
            request=pair(routing_backend=router),
            code=REQ,
            spoil=put("allocations/2/devices", [0]),
        ),
    ]
