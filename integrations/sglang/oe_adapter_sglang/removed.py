"""Options that SGLang dropped and that templates still pass.

Source: the option lists of the releases 0.4.6 to 0.5.23 (sglang/srt/server_args.py), read; ``last``
is the last release looked at that has the option, and every one up to 0.5.23 after it lacks it.
"""

from __future__ import annotations

from inferlab_adapters.options import Removed

_DROP = "drop it"
_RUNNER = "say moe_runner_backend"

_GONE: dict[str, dict[str, str]] = {
    "0.5.19": {
        "disable-piecewise-cuda-graph": "say cuda_graph_backend_prefill: disabled",
        "enforce-piecewise-cuda-graph": _DROP,
        "enable-breakable-cuda-graph": "say cuda_graph_backend_prefill: breakable",
        "piecewise-cuda-graph-max-tokens": "say cuda_graph_max_bs_prefill",
        "piecewise-cuda-graph-tokens": "say cuda_graph_bs_prefill",
        "piecewise-cuda-graph-compiler": _DROP,
        "cuda-graph-max-bs": "say cuda_graph_max_bs_decode",
        "cuda-graph-bs": "say cuda_graph_bs_decode",
        "nsa-prefill-backend": "say dsa_prefill_backend",
        "nsa-decode-backend": "say dsa_decode_backend",
        "stream-output": "say incremental_streaming_output",
        "prefill-round-robin-balance": "say load_balance_method",
        "enable-expert-distribution-metrics": "say expert_balancedness_report_mode",
        "mamba-scheduler-strategy": "say mamba_radix_cache_strategy",
    },
    "0.5.17": {
        "torchao-config": _DROP,
    },
    "0.5.13": {
        "enable-piecewise-cuda-graph": _DROP,
    },
    "0.5.9": {
        "disaggregation-decode-tp": _DROP,
        "disaggregation-decode-dp": _DROP,
        "disaggregation-prefill-pp": _DROP,
    },
    "0.5.4": {
        "enable-ep-moe": "set experts.expert_parallel_size of the parallelism",
        "enable-deepep-moe": "say moe_a2a_backend: deepep",
        "enable-flashinfer-cutlass-moe": _RUNNER,
        "enable-flashinfer-trtllm-moe": _RUNNER,
        "enable-flashinfer-mxfp4-moe": _RUNNER,
        "enable-flashinfer-cutedsl-moe": _RUNNER,
        "enable-triton-kernel-moe": _RUNNER,
    },
    "0.4.6": {
        "enable-flashinfer-mla": "say attention_backend: flashinfer",
        "enable-flashmla": "say attention_backend: flashmla",
    },
}

REMOVED = {
    f"--{name}": Removed(since=f"a release after SGLang {last}", fix=fix)
    for last, gone in _GONE.items()
    for name, fix in gone.items()
}
"""What became of each, by long spelling."""
