"""SGLang's command line: who owns which option, and the table for a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.settings import Reserved
from oe_adapter_sglang.removed import REMOVED

CATALOGUES = Path(__file__).with_name("catalogue")

_ENDPOINT = "the endpoint of the allocation"
_NODES = "the ranks of the allocations"
_DEVICES = "the devices of the allocation"
_PORTS = "the planned ports"
_HTTP_ONLY = "the protocol: the endpoint is plain HTTP without credentials"
_ROLE = "the kind of the role and kv_transfer of the request"
_ATTENTION_DATA = "attention.data_parallel_size of the parallelism"

OWNED: Mapping[str, str] = {
    "model_path": "model_locator of the allocation",
    "served_model_name": "served_name of the model",
    "host": _ENDPOINT,
    "port": _ENDPOINT,
    "config": "the request: put the options themselves into the settings",
    "api_key": _HTTP_ONLY,
    "admin_api_key": _HTTP_ONLY,
    "ssl_keyfile": _HTTP_ONLY,
    "ssl_certfile": _HTTP_ONLY,
    "ssl_ca_certs": _HTTP_ONLY,
    "ssl_keyfile_password": _HTTP_ONLY,
    "enable_ssl_refresh": _HTTP_ONLY,
    "grpc_mode": _HTTP_ONLY,
    "smg_grpc_mode": _HTTP_ONLY,
    "grpc_port": _PORTS,
    "smg_http_sidecar_port": _PORTS,
    "nccl_port": _PORTS,
    "gated_launch_port": _PORTS,
    "encoder_bootstrap_port": _PORTS,
    "engine_info_bootstrap_port": _PORTS,
    "tp_size": "outer.tensor_parallel_size of the parallelism",
    "pp_size": "outer.pipeline_parallel_size of the parallelism",
    "dp_size": f"{_ATTENTION_DATA}; whole replicas are replica_count of the role",
    "attn_dp_size": _ATTENTION_DATA,
    "enable_dp_attention": _ATTENTION_DATA,
    "attn_cp_size": "attention.context_parallel_size of the parallelism",
    "ep_size": "experts.expert_parallel_size of the parallelism",
    "moe_dp_size": "experts.data_parallel_size of the parallelism",
    "moe_dense_tp_size": "experts.dense_tensor_parallel_size of the parallelism",
    "nnodes": _NODES,
    "node_rank": _NODES,
    "dist_init_addr": _NODES,
    "use_ray": _NODES,
    "base_gpu_id": _DEVICES,
    "gpu_id_step": _DEVICES,
    "disaggregation_mode": _ROLE,
    "disaggregation_transfer_backend": _ROLE,
    "disaggregation_bootstrap_port": "the port bootstrap of the allocation",
    "enable_pd_role_switch": _ROLE,
    "encoder_only": _ROLE,
    "language_only": _ROLE,
}
"""Options that come only from the request and the allocations, by the field that decides."""

RESERVED_ENV = Reserved(
    names={
        **DEVICE_VARIABLES,
        **CACHE_VARIABLES,
        "SGLANG_CACHE_DIR": "the cache root of the allocation",
        "SGLANG_DG_CACHE_DIR": "the cache root of the allocation",
        "SGLANG_HOST_IP": "the host of the allocation",
        "HOST_IP": "the host of the allocation",
        "SGLANG_GRPC_PORT": _PORTS,
        "SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE": _NODES,
        "RANK": _NODES,
        "LOCAL_RANK": _NODES,
        "WORLD_SIZE": _NODES,
        "LOCAL_WORLD_SIZE": _NODES,
        "MASTER_ADDR": _NODES,
        "MASTER_PORT": _NODES,
        "MC_FORCE_TCP": "the setting kv_transfer_protocol",
    },
)
"""Environment variables that settings may not touch."""


@lru_cache(maxsize=8)
def option_table(framework_version: str) -> OptionTable:
    """The options of an SGLang version; the newest catalogue's when it is unavailable."""
    return OptionTable(select(CATALOGUES, framework_version), owned=OWNED, removed=REMOVED)
