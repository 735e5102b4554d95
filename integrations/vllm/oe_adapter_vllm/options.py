"""vLLM's command line: who owns which option, what is gone, and the table for a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.settings import Reserved
from oe_adapter_vllm.removed import REMOVED

CATALOGUES = Path(__file__).with_name("catalogue")

_ENDPOINT = "the endpoint of the allocation"
_NODES = "the ranks of the allocations"
_DATA_PARALLEL = "attention.data_parallel_size of the parallelism and the ranks of the allocations"
_HTTP_ONLY = "the protocol: the endpoint is plain HTTP without credentials"

OWNED: Mapping[str, str] = {
    "model": "model_locator of the allocation",
    "served_model_name": "served_name of the model",
    "host": _ENDPOINT,
    "port": _ENDPOINT,
    "uds": _ENDPOINT,
    "grpc": _HTTP_ONLY,
    "grpc_port": _HTTP_ONLY,
    "ssl_keyfile": _HTTP_ONLY,
    "ssl_certfile": _HTTP_ONLY,
    "ssl_ca_certs": _HTTP_ONLY,
    "ssl_cert_reqs": _HTTP_ONLY,
    "ssl_ciphers": _HTTP_ONLY,
    "enable_ssl_refresh": _HTTP_ONLY,
    "api_key": _HTTP_ONLY,
    "config": "the request: put the options themselves into the settings",
    "tensor_parallel_size": "outer.tensor_parallel_size of the parallelism",
    "pipeline_parallel_size": "outer.pipeline_parallel_size of the parallelism",
    "prefill_context_parallel_size": "attention.context_parallel_size of the parallelism",
    "enable_expert_parallel": "experts.expert_parallel_size of the parallelism",
    "data_parallel_size": "attention.data_parallel_size of the parallelism",
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
    "nnodes": _NODES,
    "node_rank": _NODES,
    "master_addr": _NODES,
    "master_port": _NODES,
    "headless": _NODES,
    "device_ids": "the devices of the allocation",
    "kv_transfer_config": "kv_transfer of the request and the kv_… settings",
    "tokens_only": "the planned endpoints, which it would take away",
    "--omni": "it hands the whole command line to another program",
}
"""Options that come only from the request and the allocations, by the field that decides."""

_SIDE_CHANNEL = "the ports of the allocation"
_FRONT_END = "the planned endpoints, which another front end does not have"

RESERVED_ENV = Reserved(
    names={
        **DEVICE_VARIABLES,
        **CACHE_VARIABLES,
        "VLLM_CACHE_ROOT": "the cache root of the allocation",
        "VLLM_HOST_IP": "the host of the allocation",
        "VLLM_PORT": _SIDE_CHANNEL,
        "VLLM_API_KEY": _HTTP_ONLY,
        "VLLM_SERVER_DEV_MODE": "the setting dev_endpoints",
        "VLLM_USE_RUST_FRONTEND": _FRONT_END,
        "VLLM_RUST_FRONTEND_PATH": _FRONT_END,
        "VLLM_MODEL_REDIRECT_PATH": "model_locator of the allocation",
        "PROMETHEUS_MULTIPROC_DIR": "vLLM itself: a shared folder mixes the metrics of servers",
        "RANK": _NODES,
        "LOCAL_RANK": _NODES,
        "WORLD_SIZE": _NODES,
        "LOCAL_WORLD_SIZE": _NODES,
        "MASTER_ADDR": _NODES,
        "MASTER_PORT": _NODES,
        "MC_FORCE_TCP": "the setting kv_transfer_protocol",
    },
    prefixes={
        "VLLM_DP_": _DATA_PARALLEL,
        "VLLM_NIXL_SIDE_CHANNEL_": _SIDE_CHANNEL,
        "VLLM_MOONCAKE_BOOTSTRAP_": _SIDE_CHANNEL,
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
    )
