"""The golden cases of the SGLang adapter."""

from __future__ import annotations

from functools import partial

from tests.support.control_plane import Json, Placement, plan_request, role
from tests.support.golden import INV, REQ, SSH, hosts, pair, put, single
from tests.support.golden import Case as AnyCase
from tests.support.golden import Refusal as AnyRefusal
from tests.support.refusals import shared_refusals

Case = partial(AnyCase, version="0.5.23")
Refusal = partial(AnyRefusal, version="0.5.23")

ROUTER = "sglang-router"


def tensor(size: int, kind: str = "serve") -> Json:
    return role(kind, outer={"tensor": size})


CASES = [
    Case(name="single-tp2", request=plan_request(tensor(2))),
    Case(
        name="single-tp8-dp2-ep8",
        request=plan_request(
            role(outer={"tensor": 8}, attention={"data": 2}, experts={"expert": 8})
        ),
    ),
    Case(
        name="single-tp8-dp2-0.5.10",
        request=plan_request(role(outer={"tensor": 8}, attention={"data": 2})),
        version="0.5.10",
    ),
    Case(name="single-pp2", request=plan_request(role(outer={"pipeline": 2}))),
    Case(
        name="single-cp2-moe-dp2-ep4-dense1",
        request=plan_request(
            role(
                outer={"tensor": 8},
                attention={"context": 2},
                experts={"expert": 4, "data": 2, "dense_tensor": 1},
            )
        ),
    ),
    Case(
        name="two-node-tp16",
        request=plan_request(tensor(16)),
        placement=Placement(ranks={"serve": 2}),
    ),
    Case(
        name="two-node-tp16-dp4",
        request=plan_request(role(outer={"tensor": 16}, attention={"data": 4})),
        placement=Placement(ranks={"serve": 2}),
    ),
    Case(name="1p1d-nixl-builtin", request=pair()),
    Case(name="1p1d-mooncake-sglang-router", request=pair(kv="mooncake", routing_backend=ROUTER)),
    Case(
        name="2p3d-nixl-sglang-router",
        request=pair(
            role("prefill", count=2, outer={"tensor": 4}, attention={"data": 2}),
            role("decode", count=3, outer={"tensor": 2}),
            routing_backend=ROUTER,
        ),
        placement=Placement(together=True),
    ),
    Case(
        name="2p1d-mooncake-two-node-prefill",
        request=pair(
            role("prefill", count=2, outer={"tensor": 16}), kv="mooncake", routing_backend=ROUTER
        ),
        placement=Placement(ranks={"prefill": 2}),
    ),
    Case(
        name="1p1d-nixl-tcp",
        request=pair(
            role("prefill", settings={"kv_transfer_protocol": "tcp"}),
            role("decode", settings={"kv_transfer_protocol": "tcp"}),
        ),
    ),
    Case(
        name="1p1d-mooncake-tcp",
        request=pair(
            role("prefill", settings={"kv_transfer_protocol": "tcp"}),
            role("decode", settings={"kv_transfer_protocol": "tcp"}),
            kv="mooncake",
        ),
    ),
    Case(
        name="1p1d-nixl-ipv6",
        request=pair(routing_backend=ROUTER),
        placement=Placement(hosts=lambda index: f"fd00::{index + 1}"),
    ),
    Case(name="1p1d-nixl-profiling", request=pair(profiling=True, routing_backend=ROUTER)),
    Case(
        name="single-json-and-list-settings",
        request=single(
            cuda_graph_bs_decode=[1, 2, 4],
            json_model_override_args={"max_position_embeddings": 4096},
            mem_fraction_static=0.85,
            chunked_prefill_size=4096,
        ),
    ),
    Case(
        name="single-switches",
        request=single(trust_remote_code=True, disable_radix_cache=False),
    ),
    Case(
        name="single-extra-args-and-env",
        request=single(
            extra_args=["--max-running-requests=32", "--log-level", "debug"],
            extra_env={"NCCL_DEBUG": "INFO"},
        ),
    ),
    Case(
        name="single-ssh",
        request=single(),
        placement=Placement(launch=SSH, model_locator="/mnt/AI Models/llama"),
    ),
    Case(
        name="single-version-unavailable",
        request=single(max_running_requests=8, brand_new_option=True),
        version="unavailable",
    ),
]

REFUSALS = [
    *shared_refusals(Refusal, ROUTER),
    Refusal(name="refused-routing-backend", request=pair(routing_backend="vllm-router"), code=INV),
    Refusal(
        name="refused-attention-data",
        request=plan_request(role(outer={"tensor": 4}, attention={"data": 3})),
        code=INV,
    ),
    Refusal(
        name="refused-expert-parallel",
        request=plan_request(role(outer={"tensor": 8}, experts={"expert": 3})),
        code=INV,
    ),
    Refusal(
        name="refused-expert-data",
        request=plan_request(role(outer={"tensor": 8}, experts={"data": 2})),
        code=INV,
    ),
    Refusal(
        name="refused-dense-tensor",
        request=plan_request(role(outer={"tensor": 8}, experts={"dense_tensor": 2})),
        code=INV,
    ),
    Refusal(
        name="refused-decode-context",
        request=pair(decode=role("decode", outer={"tensor": 2}, attention={"context": 2})),
        code=INV,
    ),
    Refusal(
        name="refused-decode-pipeline",
        request=pair(role("prefill", outer={"pipeline": 2}), role("decode", outer={"pipeline": 4})),
        code=INV,
    ),
    Refusal(
        name="refused-served-name",
        request=plan_request(role(), model={"id": "m", "served_name": "base:lora"}),
        code=INV,
    ),
    Refusal(name="refused-plain-data-parallel", request=single(extra_args=["--dp", "2"]), code=INV),
    Refusal(name="refused-owned-setting", request=single(tp_size=4), code=INV),
    Refusal(name="refused-owned-prefix", request=single(extra_args=["--tp", "4"]), code=INV),
    Refusal(
        name="refused-removed-option",
        request=single(extra_args=["--disable-piecewise-cuda-graph"]),
        code=INV,
    ),
    Refusal(name="refused-type", request=single(max_running_requests="8"), code=INV),
    Refusal(name="refused-choice", request=single(dtype="float15"), code=INV),
    Refusal(
        name="refused-given-twice",
        request=single(max_running_requests=8, extra_args=["--max-running-r", "16"]),
        code=INV,
    ),
    Refusal(
        name="refused-protocol",
        request=pair(role("prefill", settings={"kv_transfer_protocol": "gds"})),
        code=INV,
    ),
    Refusal(
        name="refused-missing-endpoint",
        request=plan_request(tensor(16)),
        code=REQ,
        placement=Placement(ranks={"serve": 2}),
        spoil=put("allocations/1/endpoint", None),
    ),
    Refusal(
        name="refused-ports-not-consecutive",
        request=plan_request(role(outer={"tensor": 4}, attention={"data": 2})),
        code=REQ,
        spoil=put("allocations/0/ports/master_3/port", 9999),
    ),
    Refusal(name="refused-wildcard-ipv6-host", request=pair(), code=REQ, spoil=hosts("::")),
    Refusal(
        name="refused-bootstrap-is-endpoint",
        request=pair(),
        code=REQ,
        spoil=put("allocations/0/ports/bootstrap/port", 8000),
    ),
]
