"""Options that SGLang dropped and that templates still pass.

Source: the option lists of the releases 0.4.6 to 0.5.23 (sglang/srt/server_args.py), read; ``last``
is the last release looked at that has the option, and every one up to 0.5.23 after it lacks it.
"""

from __future__ import annotations

from inferlab_adapters.options import Removed

_DROP = "drop it"
_RUNNER = "say moe_runner_backend"

_GONE: dict[str, tuple[str, str]] = {
    "disable-piecewise-cuda-graph": ("0.5.19", "say cuda_graph_backend_prefill: disabled"),
    "enforce-piecewise-cuda-graph": ("0.5.19", _DROP),
    "enable-piecewise-cuda-graph": ("0.5.13", _DROP),
    "enable-breakable-cuda-graph": ("0.5.19", "say cuda_graph_backend_prefill: breakable"),
    "piecewise-cuda-graph-max-tokens": ("0.5.19", "say cuda_graph_max_bs_prefill"),
    "piecewise-cuda-graph-tokens": ("0.5.19", "say cuda_graph_bs_prefill"),
    "piecewise-cuda-graph-compiler": ("0.5.19", _DROP),
    "cuda-graph-max-bs": ("0.5.19", "say cuda_graph_max_bs_decode"),
    "cuda-graph-bs": ("0.5.19", "say cuda_graph_bs_decode"),
    "enable-ep-moe": ("0.5.4", "set experts.expert_parallel_size of the parallelism"),
    "enable-deepep-moe": ("0.5.4", "say moe_a2a_backend: deepep"),
    "enable-flashinfer-cutlass-moe": ("0.5.4", _RUNNER),
    "enable-flashinfer-trtllm-moe": ("0.5.4", _RUNNER),
    "enable-flashinfer-mxfp4-moe": ("0.5.4", _RUNNER),
    "enable-flashinfer-cutedsl-moe": ("0.5.4", _RUNNER),
    "enable-triton-kernel-moe": ("0.5.4", _RUNNER),
    "enable-flashinfer-mla": ("0.4.6", "say attention_backend: flashinfer"),
    "enable-flashmla": ("0.4.6", "say attention_backend: flashmla"),
    "nsa-prefill-backend": ("0.5.19", "say dsa_prefill_backend"),
    "nsa-decode-backend": ("0.5.19", "say dsa_decode_backend"),
    "stream-output": ("0.5.19", "say incremental_streaming_output"),
    "prefill-round-robin-balance": ("0.5.19", "say load_balance_method"),
    "disaggregation-decode-tp": ("0.5.9", _DROP),
    "disaggregation-decode-dp": ("0.5.9", _DROP),
    "disaggregation-prefill-pp": ("0.5.9", _DROP),
    "enable-expert-distribution-metrics": ("0.5.19", "say expert_balancedness_report_mode"),
    "mamba-scheduler-strategy": ("0.5.19", "say mamba_radix_cache_strategy"),
    "torchao-config": ("0.5.17", _DROP),
}

REMOVED = {
    f"--{name}": Removed(since=f"a release after SGLang {last}", fix=fix)
    for name, (last, fix) in _GONE.items()
}
"""What became of each, by long spelling."""
