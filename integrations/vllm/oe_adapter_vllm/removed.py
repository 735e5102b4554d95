"""Options that vLLM dropped and that templates still pass.

Source: the option lists of the PyPI releases 0.6.6 to 0.31.0 (vllm/engine/arg_utils.py and the
serve command's own) and the recorded parsers of 0.32.0 and 0.33.0. ``since`` is the first release
without the option; a catalogue that has it again (0.33.0 takes ``--disable-log-requests`` as the
negative of ``--enable-log-requests``) comes first.
"""

from __future__ import annotations

from inferlab_adapters.options import Removed

_DROP = "drop it"
_SPECULATIVE = "put it into speculative_config"
_EPLB = "put it into eplb_config"
_STRUCTURED = "put it into structured_outputs_config"

_GONE: dict[str, tuple[str, str]] = {
    "disable-log-requests": ("0.17", "request logging is off by default, drop it"),
    "enable-reasoning": ("0.10", "reasoning_parser alone is enough"),
    "use-v2-block-manager": ("0.10", _DROP),
    "num-scheduler-steps": ("0.10.1", "drop it: there is no multi-step scheduling any more"),
    "multi-step-stream-outputs": ("0.10.1", _DROP),
    "swap-space": ("0.18", "drop it, or offload the KV cache with kv_offloading_size"),
    "guided-decoding-backend": ("0.12", _STRUCTURED),
    "guided-decoding-disable-fallback": ("0.12", _STRUCTURED),
    "guided-decoding-disable-any-whitespace": ("0.12", _STRUCTURED),
    "guided-decoding-disable-additional-properties": ("0.12", _STRUCTURED),
    "task": ("0.13", "say runner and convert"),
    "worker-use-ray": ("0.7", "say distributed_executor_backend"),
    "disable-frontend-multiprocessing": ("0.19", _DROP),
    "max-num-partial-prefills": ("0.27", _DROP),
    "max-long-partial-prefills": ("0.27", _DROP),
    "speculative-model": ("0.8.3", _SPECULATIVE),
    "num-speculative-tokens": ("0.8.3", _SPECULATIVE),
    "ngram-prompt-lookup-max": ("0.8.3", _SPECULATIVE),
    "ngram-prompt-lookup-min": ("0.8.3", _SPECULATIVE),
    "preemption-mode": ("0.11", _DROP),
    "scheduler-delay-factor": ("0.11", _DROP),
    "disable-async-output-proc": ("0.11", _DROP),
    "max-seq-len-to-capture": ("0.11", "say max_cudagraph_capture_size"),
    "device": ("0.10", _DROP),
    "num-lookahead-slots": ("0.12", _DROP),
    "lora-extra-vocab-size": ("0.12", _DROP),
    "override-pooler-config": ("0.12", "say pooler_config"),
    "num-redundant-experts": ("0.12", _EPLB),
    "eplb-window-size": ("0.12", _EPLB),
    "eplb-step-interval": ("0.12", _EPLB),
    "eplb-log-balancedness": ("0.12", _EPLB),
    "rope-scaling": ("0.11.1", "put it into hf_overrides"),
    "rope-theta": ("0.11.1", "put it into hf_overrides"),
    "cuda-graph-sizes": ("0.13", "say cudagraph_capture_sizes"),
    "disable-mm-preprocessor-cache": ("0.13", "say mm_processor_cache_gb: 0"),
    "enable-multimodal-encoder-data-parallel": ("0.13", "say mm_encoder_tp_mode: data"),
    "logits-processor-pattern": ("0.17", _DROP),
    "calculate-kv-scales": ("0.28", _DROP),
    "override-attention-dtype": ("0.28", _DROP),
    "tokenizer-pool-size": ("0.10", _DROP),
    "enable-prompt-adapter": ("0.10.2", _DROP),
}

REMOVED = {
    f"--{name}": Removed(since=f"vLLM {since}", fix=fix) for name, (since, fix) in _GONE.items()
}
"""What became of each, by long spelling."""
