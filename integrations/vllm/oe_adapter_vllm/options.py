"""vLLM's command line: who owns which option, what is gone, and the table for a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from inferlab_adapters import ownership as owner
from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.settings import Reserved
from oe_adapter_vllm.removed import REMOVED

CATALOGUES = Path(__file__).with_name("catalogue")

_DATA_PARALLEL = f"{owner.ATTENTION_DATA} and {owner.RANKS}"

OWNED: Mapping[str, str] = {
    "model": owner.MODEL_LOCATOR,
    "served_model_name": owner.SERVED_NAME,
    "host": owner.ENDPOINT,
    "port": owner.ENDPOINT,
    "uds": owner.ENDPOINT,
    "grpc": owner.HTTP_ONLY,
    "grpc_port": owner.HTTP_ONLY,
    "ssl_keyfile": owner.HTTP_ONLY,
    "ssl_certfile": owner.HTTP_ONLY,
    "ssl_ca_certs": owner.HTTP_ONLY,
    "ssl_cert_reqs": owner.HTTP_ONLY,
    "ssl_ciphers": owner.HTTP_ONLY,
    "enable_ssl_refresh": owner.HTTP_ONLY,
    "api_key": owner.HTTP_ONLY,
    "config": owner.REQUEST_ITSELF,
    "tensor_parallel_size": owner.TENSOR,
    "pipeline_parallel_size": owner.PIPELINE,
    "prefill_context_parallel_size": owner.ATTENTION_CONTEXT,
    "enable_expert_parallel": owner.EXPERT,
    "data_parallel_size": owner.ATTENTION_DATA,
    "data_parallel_rank": _DATA_PARALLEL,
    "data_parallel_start_rank": _DATA_PARALLEL,
    "data_parallel_size_local": _DATA_PARALLEL,
    "data_parallel_address": _DATA_PARALLEL,
    "data_parallel_rpc_port": _DATA_PARALLEL,
    "data_parallel_backend": _DATA_PARALLEL,
    "data_parallel_hybrid_lb": _DATA_PARALLEL,
    "data_parallel_external_lb": _DATA_PARALLEL,
    "data_parallel_multi_port_external_lb": _DATA_PARALLEL,
    "data_parallel_supervisor_port": _DATA_PARALLEL,
    "nnodes": owner.RANKS,
    "node_rank": owner.RANKS,
    "master_addr": owner.RANKS,
    "master_port": owner.RANKS,
    "headless": owner.RANKS,
    "device_ids": owner.DEVICES,
    "kv_transfer_config": "kv_transfer of the request and the kv_… settings",
    "tokens_only": "the planned endpoints, which it would take away",
    "--omni": "it hands the whole command line to another program",
}
"""Options that come only from the request and the allocations, by the field that decides."""

_FRONT_END = "the planned endpoints, which another front end does not have"

RESERVED_ENV = Reserved(
    names={
        **DEVICE_VARIABLES,
        **CACHE_VARIABLES,
        "VLLM_CACHE_ROOT": owner.CACHE,
        "VLLM_HOST_IP": owner.HOST,
        "VLLM_PORT": owner.PORTS,
        "VLLM_API_KEY": owner.HTTP_ONLY,
        "VLLM_SERVER_DEV_MODE": "the setting dev_endpoints",
        "VLLM_USE_RUST_FRONTEND": _FRONT_END,
        "VLLM_RUST_FRONTEND_PATH": _FRONT_END,
        "VLLM_MODEL_REDIRECT_PATH": owner.MODEL_LOCATOR,
        "PROMETHEUS_MULTIPROC_DIR": "vLLM itself: a shared folder mixes the metrics of servers",
        **owner.TORCHRUN_VARIABLES,
        "MC_FORCE_TCP": "the setting kv_transfer_protocol",
    },
    prefixes={
        "VLLM_DP_": _DATA_PARALLEL,
        "VLLM_NIXL_SIDE_CHANNEL_": owner.PORTS,
        "VLLM_MOONCAKE_BOOTSTRAP_": owner.PORTS,
    },
)
"""Environment variables that settings may not touch."""


@lru_cache(maxsize=8)
def option_table(framework_version: str) -> OptionTable:
    """The options of a vLLM version; the newest catalogue's when the version is unavailable."""
    return OptionTable(
        select(CATALOGUES, framework_version),
        owned=OWNED,
        removed=REMOVED,
        # Source: vllm/utils/argparse_utils.py, 0.32.0: -O3, -O=3 and -O 3 are rewritten to it.
        aliases={"-O": "optimization_level"},
        # Source: vllm/entrypoints/cli/serve.py, 0.32.0: below 1 it means a headless process.
        minimums={"api_server_count": 1},
        judged={
            "decode_context_parallel_size",
            "distributed_executor_backend",
            "enable_eplb",
            "skip_tokenizer_init",
        },
    )
