"""The golden cases of the vLLM adapter."""

from __future__ import annotations

from tests.support.control_plane import Json, Placement, plan_request, role
from tests.support.golden import INV, REQ, SSH, Case, Refusal, hosts, pair, put, single
from tests.support.refusals import shared_refusals

CASES = [
    Case(name="single-tp2", request=plan_request(role(outer={"tensor": 2}))),
    Case(
        name="single-tp4-dp2-ep8",
        request=plan_request(
            role(outer={"tensor": 4}, attention={"data": 2}, experts={"expert": 8})
        ),
    ),
    Case(name="single-pp2", request=plan_request(role(outer={"pipeline": 2}))),
    Case(
        name="single-context-parallel",
        request=plan_request(
            role(
                outer={"tensor": 2},
                attention={"context": 2},
                settings={"decode_context_parallel_size": 4},
            )
        ),
    ),
    Case(name="single-two-replicas", request=plan_request(role(count=2))),
    Case(
        name="two-node-tp16",
        request=plan_request(role(outer={"tensor": 16}, settings={"api_server_count": 4})),
        placement=Placement(ranks={"serve": 2}),
    ),
    Case(
        name="two-node-dp4",
        request=plan_request(
            role(
                outer={"tensor": 2},
                attention={"data": 4},
                experts={"expert": 8},
                settings={"extra_args": ["-asc", "2", "--max-num-seqs", "64"]},
            )
        ),
        placement=Placement(ranks={"serve": 2}),
    ),
    Case(name="1p1d-nixl-builtin", request=pair()),
    Case(
        name="1p1d-mooncake-vllm-router",
        request=pair(kv="mooncake", routing_backend="vllm-router"),
    ),
    Case(
        name="2p3d-nixl-vllm-router",
        request=pair(
            role("prefill", count=2, outer={"tensor": 4}, attention={"data": 2}),
            role("decode", count=3, outer={"tensor": 2}),
            routing_backend="vllm-router",
        ),
        placement=Placement(together=True),
    ),
    Case(
        name="1p1d-nixl-tcp-recompute",
        request=pair(
            role("prefill", settings={"kv_transfer_protocol": "tcp"}),
            role(
                "decode",
                settings={
                    "kv_transfer_protocol": "tcp",
                    "kv_load_failure_policy": "recompute",
                    "kv_buffer_device": "cpu",
                    "kv_connector_extra_config": {"num_threads": 8},
                },
            ),
        ),
    ),
    Case(
        name="1p1d-nixl-rdma",
        request=pair(
            role("prefill", settings={"kv_transfer_protocol": "rdma"}),
            role("decode", settings={"kv_transfer_protocol": "rdma"}),
        ),
    ),
    Case(
        name="1p1d-nixl-gds",
        request=pair(
            role("prefill", settings={"kv_transfer_protocol": "gds"}),
            role("decode", settings={"kv_transfer_protocol": "gds"}),
        ),
    ),
    Case(
        name="1p1d-mooncake-tcp",
        request=pair(
            role(
                "prefill",
                settings={"kv_transfer_protocol": "tcp", "mooncake_num_workers": 4},
            ),
            role("decode", settings={"kv_transfer_protocol": "tcp"}),
            kv="mooncake",
        ),
    ),
    Case(
        name="1p1d-mooncake-two-node-prefill",
        request=pair(role("prefill", outer={"tensor": 16}), kv="mooncake"),
        placement=Placement(ranks={"prefill": 2}),
    ),
    Case(
        name="1p1d-nixl-two-node-dp4",
        request=pair(
            role("prefill", attention={"data": 4}),
            role("decode", attention={"data": 4}, id="decode-long"),
        ),
        placement=Placement(ranks={"prefill": 2, "decode-long": 4}),
    ),
    Case(
        name="1p1d-nixl-ipv6",
        request=pair(routing_backend="vllm-router"),
        placement=Placement(hosts=lambda index: f"fd00::{index + 1}"),
    ),
    Case(name="1p1d-nixl-profiling", request=pair(profiling=True, routing_backend="vllm-router")),
    Case(
        name="single-profiling-torch",
        request=plan_request(
            role(
                settings={"profiler_config": {"profiler": "torch", "torch_profiler_dir": "/traces"}}
            ),
            profiling=True,
        ),
    ),
    Case(
        name="single-json-and-list-settings",
        request=single(
            compilation_config={
                "cudagraph_mode": "FULL_DECODE_ONLY",
                "custom_ops": ["+silu_and_mul"],
            },
            cudagraph_capture_sizes=[1, 2, 4],
            limit_mm_per_prompt={"image": 2},
            allowed_origins=["http://one", "http://two"],
            middleware=["a.b", "c.d"],
            hf_overrides={"max_position_embeddings": 4096},
            max_model_len="8k",
            gpu_memory_utilization=0.85,
        ),
    ),
    Case(
        name="single-switches",
        request=single(
            enable_prefix_caching=False,
            enable_auto_tool_choice=True,
            tool_call_parser="hermes",
            disable_log_stats=True,
        ),
    ),
    Case(
        name="single-switches-0.33",
        request=single(enable_prefix_caching=False, enforce_eager=True),
        version="0.33.0",
    ),
    Case(
        name="single-extra-args-and-env",
        request=single(
            extra_args=["--max_num_seqs=32", "-cc.mode", "3", "--seed", "-1"],
            extra_env={"NCCL_DEBUG": "INFO", "VLLM_LOGGING_LEVEL": "DEBUG"},
            reasoning_parser="deepseek_r1",
        ),
    ),
    Case(name="single-dev-endpoints", request=single(dev_endpoints=True)),
    Case(name="single-without-openengine", request=single(openengine=False)),
    Case(
        name="single-ssh",
        request=single(),
        placement=Placement(launch=SSH, model_locator="/mnt/AI Models/llama"),
    ),
    Case(
        name="single-version-unavailable",
        request=single(max_num_seqs=8, brand_new_option=True),
        version="unavailable",
    ),
]


def _ports_apart(render: Json) -> None:
    render["allocations"][0]["ports"]["side_channel_1"]["port"] += 7


REFUSALS = [
    *shared_refusals(Refusal, "vllm-router"),
    Refusal(
        name="refused-no-scale-out",
        request=single(enable_scale_out=False, skip_tokenizer_init=True),
        code=INV,
    ),
    Refusal(name="refused-routing-backend", request=pair(routing_backend="vllm-routr"), code=INV),
    Refusal(
        name="refused-expert-parallel",
        request=plan_request(role(outer={"tensor": 8}, experts={"expert": 4})),
        code=INV,
    ),
    Refusal(
        name="refused-attention-tensor",
        request=plan_request(role(outer={"tensor": 8}, attention={"tensor": 4})),
        code=INV,
    ),
    Refusal(
        name="refused-decode-pipeline-nixl",
        request=pair(role("prefill"), role("decode", outer={"pipeline": 2})),
        code=INV,
    ),
    Refusal(name="refused-owned-setting", request=single(tensor_parallel_size=4), code=INV),
    Refusal(name="refused-owned-argument", request=single(extra_args=["-tp=4"]), code=INV),
    Refusal(
        name="refused-owned-env",
        request=single(extra_env={"CUDA_VISIBLE_DEVICES": "MIG-1"}),
        code=INV,
    ),
    Refusal(name="refused-unknown-option", request=single(max_num_sequences=8), code=INV),
    Refusal(
        name="refused-removed-option",
        request=single(extra_args=["--disable-log-requests"]),
        code=INV,
    ),
    Refusal(name="refused-type", request=single(max_num_seqs="8"), code=INV),
    Refusal(name="refused-choice", request=single(dtype="float15"), code=INV),
    Refusal(
        name="refused-given-twice",
        request=single(max_num_seqs=8, extra_args=["--max-num-seqs", "16"]),
        code=INV,
    ),
    Refusal(
        name="refused-protocol-mismatch",
        request=pair(role("prefill", settings={"kv_transfer_protocol": "tcp"})),
        code=INV,
    ),
    Refusal(
        name="refused-five-faults-and-more",
        request=single(a1=1, b1=1, c1=1, d1=1, e1=1, f1=1, g1=1),
        code=INV,
    ),
    Refusal(
        name="refused-null-in-setting",
        request=single(compilation_config={"pass_config": None}),
        code=REQ,
    ),
    Refusal(
        name="refused-rank-twice",
        request=plan_request(role(outer={"tensor": 16})),
        code=REQ,
        placement=Placement(ranks={"serve": 2}),
        spoil=put("allocations/1/rank", 0),
    ),
    Refusal(
        name="refused-rank-missing",
        request=plan_request(role(outer={"tensor": 16})),
        code=REQ,
        placement=Placement(ranks={"serve": 2}),
        spoil=put("allocations/1", None),
    ),
    Refusal(
        name="refused-data-parallel-across-nodes",
        request=plan_request(role(outer={"tensor": 8}, attention={"data": 2})),
        code=REQ,
        placement=Placement(ranks={"serve": 4}),
        spoil=lambda render: None,
    ),
    Refusal(
        name="refused-missing-port",
        request=pair(),
        code=REQ,
        spoil=put("allocations/0/ports/side_channel", None),
    ),
    Refusal(
        name="refused-ports-not-consecutive",
        request=pair(role("prefill", attention={"data": 2})),
        code=REQ,
        spoil=_ports_apart,
    ),
    Refusal(name="refused-digits-host", request=pair(), code=REQ, spoil=hosts("12345")),
    Refusal(
        name="refused-port-0",
        request=single(),
        code=REQ,
        spoil=put("allocations/0/endpoint/port", 0),
    ),
    Refusal(
        name="refused-mooncake-ipv6",
        request=pair(kv="mooncake"),
        code=REQ,
        placement=Placement(hosts=lambda index: f"fd00::{index + 1}"),
        spoil=lambda render: None,
    ),
    Refusal(
        name="refused-ray-over-nodes",
        request=plan_request(
            role(outer={"tensor": 16}, settings={"distributed_executor_backend": "ray"})
        ),
        code=REQ,
        placement=Placement(ranks={"serve": 2}),
        spoil=lambda render: None,
    ),
]
