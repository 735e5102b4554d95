"""SGLang's command line: who owns which option, and the table for a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.ownership import (
    ATTENTION_CONTEXT,
    ATTENTION_DATA,
    CACHE,
    DEVICES,
    ENDPOINT,
    EXPERT,
    HOST,
    HTTP_ONLY,
    MODEL_LOCATOR,
    PIPELINE,
    PORTS,
    RANKS,
    REQUEST_ITSELF,
    SERVED_NAME,
    TENSOR,
    TORCHRUN_VARIABLES,
)
from inferlab_adapters.settings import Reserved
from oe_adapter_sglang.removed import REMOVED

CATALOGUES = Path(__file__).with_name("catalogue")

_ROLE = "the kind of the role and kv_transfer of the request"

OWNED: Mapping[str, str] = {
    "model_path": MODEL_LOCATOR,
    "served_model_name": SERVED_NAME,
    "host": ENDPOINT,
    "port": ENDPOINT,
    "config": REQUEST_ITSELF,
    "api_key": HTTP_ONLY,
    "admin_api_key": HTTP_ONLY,
    "ssl_keyfile": HTTP_ONLY,
    "ssl_certfile": HTTP_ONLY,
    "ssl_ca_certs": HTTP_ONLY,
    "ssl_keyfile_password": HTTP_ONLY,
    "enable_ssl_refresh": HTTP_ONLY,
    "grpc_mode": HTTP_ONLY,
    "smg_grpc_mode": HTTP_ONLY,
    "grpc_port": PORTS,
    "smg_http_sidecar_port": PORTS,
    "nccl_port": PORTS,
    "gated_launch_port": PORTS,
    "encoder_bootstrap_port": PORTS,
    "engine_info_bootstrap_port": PORTS,
    "tp_size": TENSOR,
    "pp_size": PIPELINE,
    "dp_size": f"{ATTENTION_DATA}; whole replicas are replica_count of the role",
    "attn_dp_size": ATTENTION_DATA,
    "enable_dp_attention": ATTENTION_DATA,
    "attn_cp_size": ATTENTION_CONTEXT,
    "ep_size": EXPERT,
    "dwdp_size": f"{ATTENTION_DATA} and {EXPERT}, which it would change",
    "moe_dp_size": "experts.data_parallel_size of the parallelism",
    "moe_dense_tp_size": "experts.dense_tensor_parallel_size of the parallelism",
    "nnodes": RANKS,
    "node_rank": RANKS,
    "dist_init_addr": RANKS,
    "use_ray": RANKS,
    "base_gpu_id": DEVICES,
    "gpu_id_step": DEVICES,
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
        "SGLANG_CACHE_DIR": CACHE,
        "SGLANG_DG_CACHE_DIR": CACHE,
        "SGLANG_HOST_IP": HOST,
        "HOST_IP": HOST,
        "SGLANG_GRPC_PORT": PORTS,
        "SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE": RANKS,
        **TORCHRUN_VARIABLES,
        "MC_FORCE_TCP": "the setting kv_transfer_protocol",
    },
)
"""Environment variables that settings may not touch."""


@lru_cache(maxsize=8)
def option_table(framework_version: str) -> OptionTable:
    """The options of an SGLang version; the newest catalogue's when it is unavailable."""
    return OptionTable(
        select(CATALOGUES, framework_version),
        owned=OWNED,
        removed=REMOVED,
        judged={"moe_a2a_backend"},
    )
