"""The golden cases of the TensorRT-LLM adapter; their folders stand in ``tensorrt-llm``."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.control_plane import Json, Placement, plan_request, role
from tests.support.golden import INV, REQ, SSH, pair, single
from tests.support.golden import Case as AnyCase
from tests.support.golden import Refusal as AnyRefusal
from tests.support.refusals import shared_refusals

STABLE, CANDIDATE, NEWEST = "1.2.1", "1.3.0rc27", "1.4.0rc"
ROUTER = "trtllm-disaggregated"
FILE = ".inferlab/llm.yaml"
IPV6 = Placement(hosts=lambda index: f"fd00::{index + 1}")

Case = partial(AnyCase, version=NEWEST)
Refusal = partial(AnyRefusal, version=NEWEST)


def named(name: str, request: Json) -> Json:
    """The request with another served name."""
    return {**request, "input": {**request["input"], "model": {"id": "llama", "served_name": name}}}


YAML = """\
# written by hand
cuda_graph_config: &graphs
  enable_padding: true
  batch_sizes: [1, 2, 4]
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.8
moe_config: {backend: CUTLASS}
stream_interval: 10
"""

CASES = [
    Case(name="single-tp2", request=plan_request(role(outer={"tensor": 2}))),
    Case(
        name="single-tp4-ep4",
        request=plan_request(role(outer={"tensor": 4}, experts={"expert": 4})),
    ),
    Case(
        name="single-tp8-ep2-attention-dp",
        request=plan_request(
            role(outer={"tensor": 8}, attention={"data": 8}, experts={"expert": 2})
        ),
    ),
    Case(
        name="single-tp8-attention-dp-1.2",
        request=named("llama", plan_request(role(outer={"tensor": 8}, attention={"data": 8}))),
        version=STABLE,
    ),
    Case(name="single-pp2", request=plan_request(role(outer={"pipeline": 2}))),
    Case(name="single-two-replicas", request=plan_request(role(count=2))),
    Case(
        name="two-node-rank-a-gpu",
        request=plan_request(role(outer={"tensor": 2, "pipeline": 2})),
        placement=Placement(ranks={"serve": 4}),
    ),
    Case(name="1p1d-nixl-builtin", request=pair()),
    Case(
        name="1p1d-nixl-builtin-1.2",
        request=named("/models/llama", pair()),
        version=STABLE,
    ),
    Case(name="1p1d-nixl-builtin-1.3", request=pair(), version=CANDIDATE),
    Case(name="1p1d-nixl-trtllm-disaggregated", request=pair(routing_backend=ROUTER)),
    Case(
        name="1p1d-nixl-trtllm-disaggregated-1.2",
        request=named("llama", pair(routing_backend=ROUTER)),
        version=STABLE,
    ),
    Case(
        name="2p3d-nixl-trtllm-disaggregated",
        request=pair(
            role(
                "prefill",
                count=2,
                outer={"tensor": 4},
                experts={"expert": 4},
                settings={"max_num_tokens": 8192, "free_gpu_memory_fraction": 0.7},
            ),
            role(
                "decode",
                count=3,
                outer={"tensor": 2},
                attention={"data": 2},
                settings={"extra_args": ["--free_gpu_memory_fraction=0.9"]},
            ),
            routing_backend=ROUTER,
        ),
        placement=Placement(together=True),
    ),
    Case(
        name="1p1d-nixl-patches",
        request=pair(
            role(
                "prefill",
                settings={
                    "extra_llm_api_options_patch": {
                        "cache_transceiver_config": {
                            "max_tokens_in_buffer": 16384,
                            "transceiver_runtime": "PYTHON",
                        },
                    }
                },
            ),
            role(
                "decode",
                id="decode-long",
                settings={
                    "extra_llm_api_options_patch": {
                        "cache_transceiver_config": {
                            "backend": "NIXL",
                            "transceiver_runtime": "PYTHON",
                        },
                        "disable_overlap_scheduler": False,
                        "kv_cache_config": {"enable_block_reuse": False, "tokens_per_block": 32},
                    }
                },
            ),
        ),
    ),
    Case(name="1p1d-nixl-ipv6", request=pair(), placement=IPV6),
    Case(name="single-ipv6", request=single(), placement=IPV6),
    Case(name="single-profiling", request=plan_request(role(), profiling=True)),
    Case(
        name="1p1d-nixl-profiling-1.3",
        request=pair(profiling=True, routing_backend=ROUTER),
        version=CANDIDATE,
    ),
    Case(
        name="single-yaml-patch",
        request=single(
            extra_llm_api_options_patch={
                "cuda_graph_config": {"max_batch_size": 64},
                "kv_cache_config": {"host_cache_size": 1 << 34},
                "enable_autotuner": False,
                "model_kwargs": {"note": "two\nlines of é"},
            },
            free_gpu_memory_fraction=0.85,
        ),
    ),
    Case(
        name="single-yaml-file",
        request=single(extra_llm_api_options="llm.yaml"),
        files={FILE: YAML},
    ),
    Case(
        name="single-yaml-file-and-patch",
        request=single(
            extra_llm_api_options="../configs/./llm.yaml",
            extra_llm_api_options_patch={
                "cuda_graph_config": {"batch_sizes": [8]},
                "kv_cache_config": {"dtype": "auto", "host_cache_size": 0},
                "stream_interval": 1,
            },
        ),
        files={"configs/llm.yaml": YAML},
    ),
    Case(
        name="2p1d-nixl-yaml-files",
        request=pair(
            role("prefill", count=2, settings={"extra_llm_api_options": "llm.yaml"}),
            role(
                "decode",
                outer={"tensor": 2},
                settings={
                    "extra_llm_api_options": "decode/llm.yaml",
                    "extra_llm_api_options_patch": {"stream_interval": 4},
                    "kv_cache_dtype": "fp8",
                },
            ),
            routing_backend=ROUTER,
        ),
        files={FILE: YAML, ".inferlab/decode/llm.yaml": "# nothing but this line\n"},
    ),
    Case(
        name="single-json-and-list-settings",
        request=single(
            media_io_kwargs={"video": {"num_frames": 40, "note": "it's {a} *star*"}},
            custom_module_dirs=["/modules/one", "/modules/two"],
            middleware=["a.b", "c.d"],
            generation_config="trtllm",
            max_batch_size=64,
            free_gpu_memory_fraction=0.85,
            reasoning_parser="qwen3",
        ),
    ),
    Case(
        name="single-switches",
        request=single(telemetry=False, trust_remote_code=True, enable_chunked_prefill=False),
    ),
    Case(
        name="single-switches-1.2",
        request=named(
            "llama",
            single(fail_fast_on_attention_window_too_large=True, trust_remote_code=False),
        ),
        version=STABLE,
    ),
    Case(
        name="single-extra-args-and-env",
        request=single(
            extra_args=["--max_batch_size=32", "--tokenizer", "-odd name", "--no-telemetry"],
            extra_env={"NCCL_DEBUG": "INFO", "TLLM_LOG_LEVEL": "INFO", "UCX_TLS": "tcp"},
            max_num_tokens=4096,
        ),
    ),
    Case(
        name="single-ssh",
        request=single(),
        placement=Placement(launch=SSH, model_locator="/mnt/AI Models/llama"),
    ),
    Case(
        name="single-version-unavailable",
        request=single(max_batch_size=8, extra_args=["--brand_new_option", "1"]),
        version="unavailable",
    ),
]


def nothing(render: Json) -> None:
    """Leave the render request as it is: the allocations themselves are refused."""


def patch(**keys: Any) -> Json:
    return single(extra_llm_api_options_patch=keys)


REFUSALS = [
    *shared_refusals(Refusal, ROUTER),
    Refusal(name="refused-mooncake", request=pair(kv="mooncake"), code=INV),
    Refusal(
        name="refused-routing-backend",
        request=pair(routing_backend="trtllm-disagregated"),
        code=INV,
    ),
    Refusal(
        name="refused-attention-data-parallel",
        request=plan_request(role(outer={"tensor": 8}, attention={"data": 4})),
        code=INV,
    ),
    Refusal(
        name="refused-expert-parallel",
        request=plan_request(role(outer={"tensor": 8}, experts={"expert": 3})),
        code=INV,
    ),
    Refusal(
        name="refused-context-parallel",
        request=plan_request(role(outer={"tensor": 2}, attention={"context": 2})),
        code=INV,
    ),
    Refusal(
        name="refused-dense-tensor",
        request=plan_request(role(outer={"tensor": 2}, experts={"dense_tensor": 2, "data": 2})),
        code=INV,
    ),
    Refusal(name="refused-owned-setting", request=single(tp_size=4), code=INV),
    Refusal(
        name="refused-owned-argument",
        request=single(extra_args=["--tp_size=4", "--config", "a.yaml"]),
        code=INV,
    ),
    Refusal(name="refused-set", request=single(extra_args=["--set", "a=1"]), code=INV),
    Refusal(
        name="refused-grpc",
        request=single(grpc=True, grpc_protocol="openengine", tool_parser="qwen3"),
        code=INV,
    ),
    Refusal(
        name="refused-grpc-1.2",
        request=single(extra_args=["--grpc-protocol", "openengine"]),
        code=INV,
        version=STABLE,
    ),
    Refusal(
        name="refused-owned-env",
        request=single(extra_env={"CUDA_VISIBLE_DEVICES": "0", "SLURM_PROCID": "0"}),
        code=INV,
    ),
    Refusal(name="refused-unknown-option", request=single(max_batch_sizes=8), code=INV),
    Refusal(
        name="refused-hyphens",
        request=single(extra_args=["--tensor-parallel-size", "4", "--served-model-name", "x"]),
        code=INV,
    ),
    Refusal(
        name="refused-removed-option",
        request=single(extra_args=["--fail_fast_on_attention_window_too_large"]),
        code=INV,
    ),
    Refusal(name="refused-type", request=single(max_batch_size="8"), code=INV),
    Refusal(name="refused-choice", request=single(reasoning_parser="Qwen3"), code=INV),
    Refusal(
        name="refused-given-twice",
        request=single(max_batch_size=8, extra_args=["--max_batch_size", "16"]),
        code=INV,
    ),
    Refusal(
        name="refused-null-in-setting",
        request=single(media_io_kwargs={"video": None}),
        code=REQ,
    ),
    Refusal(
        name="refused-profiling-1.2",
        request=named("llama", plan_request(role(), profiling=True)),
        code=INV,
        version=STABLE,
    ),
    Refusal(
        name="refused-yaml-path-absolute",
        request=single(extra_llm_api_options="/etc/llm.yaml"),
        code=INV,
    ),
    Refusal(
        name="refused-yaml-path-outside",
        request=single(extra_llm_api_options="../../llm.yaml"),
        code=INV,
    ),
    Refusal(name="refused-yaml-path-folder", request=single(extra_llm_api_options="../"), code=INV),
    Refusal(
        name="refused-patch-owned-keys",
        request=patch(tensor_parallel_size=4, enable_attention_dp=True, backend="pytorch"),
        code=INV,
    ),
    Refusal(
        name="refused-patch-build-config",
        request=patch(build_config={"max_batch_size": 8, "max_num_tokens": 64}),
        code=INV,
    ),
    Refusal(
        name="refused-patch-old-keys",
        request=patch(pytorch_backend_config={"use_cuda_graph": True}, use_cuda_graph=True),
        code=INV,
    ),
    Refusal(
        name="refused-patch-also-option",
        request=single(
            extra_llm_api_options_patch={
                "max_batch_size": 8,
                "kv_cache_config": {"free_gpu_memory_fraction": 0.5},
            },
            max_batch_size=8,
            extra_args=["--free_gpu_memory_fraction", "0.9"],
        ),
        code=INV,
    ),
    Refusal(
        name="refused-patch-env",
        request=single(
            extra_llm_api_options_patch={
                "env_overrides": {"CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "WARN"}
            },
            extra_env={"NCCL_DEBUG": "INFO"},
        ),
        code=INV,
    ),
    Refusal(
        name="refused-patch-transfer",
        request=pair(
            role(
                "prefill",
                settings={
                    "extra_llm_api_options_patch": {
                        "cache_transceiver_config": {"backend": "nixl"},
                        "kv_cache_config": {"enable_block_reuse": True},
                        "disable_overlap_scheduler": False,
                    }
                },
            )
        ),
        code=INV,
    ),
    Refusal(
        name="refused-patch-transfer-runtime-1.2",
        request=pair(
            role(
                "prefill",
                settings={
                    "extra_llm_api_options_patch": {
                        "cache_transceiver_config": {"transceiver_runtime": "PYTHON"}
                    }
                },
            )
        ),
        code=INV,
        version=STABLE,
    ),
    Refusal(
        name="refused-transfer-in-single",
        request=patch(cache_transceiver_config={"backend": "NIXL"}),
        code=INV,
    ),
    Refusal(
        name="refused-pair-mismatch",
        request=pair(role("prefill", settings={"kv_cache_dtype": "fp8"})),
        code=INV,
    ),
    Refusal(
        name="refused-file-missing",
        request=single(extra_llm_api_options="llm.yaml"),
        code=REQ,
        spoil=nothing,
    ),
    Refusal(
        name="refused-file-owned-key",
        request=single(extra_llm_api_options="llm.yaml"),
        code=REQ,
        files={FILE: "kv_cache_config: {dtype: fp8}\npp_size: 2\nbuild_config: null\n"},
        spoil=nothing,
    ),
    Refusal(
        name="refused-file-given-twice",
        request=single(extra_llm_api_options="llm.yaml"),
        code=REQ,
        files={FILE: "kv_cache_config:\n  dtype: fp8\n  dtype: auto\n"},
        spoil=nothing,
    ),
    Refusal(
        name="refused-file-no-mapping",
        request=single(extra_llm_api_options="llm.yaml"),
        code=REQ,
        files={FILE: "- a\n- b\n"},
        spoil=nothing,
    ),
    Refusal(
        name="refused-file-no-yaml",
        request=single(extra_llm_api_options="llm.yaml"),
        code=REQ,
        files={FILE: "a: [1, 2\nb: 3\n"},
        spoil=nothing,
    ),
    Refusal(
        name="refused-two-node-tp16",
        request=plan_request(role(outer={"tensor": 16})),
        code=REQ,
        placement=Placement(ranks={"serve": 2}),
        spoil=nothing,
    ),
    Refusal(
        name="refused-rank-a-gpu-words",
        request=plan_request(role(outer={"tensor": 2}, settings={"tokenizer": "/a b"})),
        code=REQ,
        placement=Placement(ranks={"serve": 2}, model_locator="/models/*"),
        spoil=nothing,
    ),
    Refusal(
        name="refused-served-name-1.2",
        request=single(),
        code=REQ,
        version=STABLE,
        spoil=nothing,
    ),
    Refusal(
        name="refused-ipv6-1.2",
        request=named("llama", single()),
        code=REQ,
        version=STABLE,
        placement=IPV6,
        spoil=nothing,
    ),
    Refusal(
        name="refused-ipv6-1.3",
        request=pair(),
        code=REQ,
        version=CANDIDATE,
        placement=IPV6,
        spoil=nothing,
    ),
    Refusal(
        name="refused-ipv6-trtllm-disaggregated",
        request=pair(routing_backend=ROUTER),
        code=REQ,
        placement=IPV6,
        spoil=nothing,
    ),
]
