"""SGLang's command line: who owns which option, and the table for a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from inferlab_adapters import ownership as owner
from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.settings import Reserved
from oe_adapter_sglang.removed import REMOVED

CATALOGUES = Path(__file__).with_name("catalogue")

_ROLE = "the kind of the role and kv_transfer of the request"

OWNED: Mapping[str, str] = {
    "model_path": owner.MODEL_LOCATOR,
    "served_model_name": owner.SERVED_NAME,
    "host": owner.ENDPOINT,
    "port": owner.ENDPOINT,
    "config": owner.REQUEST_ITSELF,
    "api_key": owner.HTTP_ONLY,
    "admin_api_key": owner.HTTP_ONLY,
    "ssl_keyfile": owner.HTTP_ONLY,
    "ssl_certfile": owner.HTTP_ONLY,
    "ssl_ca_certs": owner.HTTP_ONLY,
    "ssl_keyfile_password": owner.HTTP_ONLY,
    "enable_ssl_refresh": owner.HTTP_ONLY,
    "grpc_mode": owner.HTTP_ONLY,
    "smg_grpc_mode": owner.HTTP_ONLY,
    "grpc_port": owner.PORTS,
    "smg_http_sidecar_port": owner.PORTS,
    "nccl_port": owner.PORTS,
    "gated_launch_port": owner.PORTS,
    "encoder_bootstrap_port": owner.PORTS,
    "engine_info_bootstrap_port": owner.PORTS,
    "tp_size": owner.TENSOR,
    "pp_size": owner.PIPELINE,
    "dp_size": f"{owner.ATTENTION_DATA}; whole replicas are replica_count of the role",
    "attn_dp_size": owner.ATTENTION_DATA,
    "enable_dp_attention": owner.ATTENTION_DATA,
    "attn_cp_size": owner.ATTENTION_CONTEXT,
    "ep_size": owner.EXPERT,
    "dwdp_size": f"{owner.ATTENTION_DATA} and {owner.EXPERT}, which it would change",
    "moe_dp_size": "experts.data_parallel_size of the parallelism",
    "moe_dense_tp_size": "experts.dense_tensor_parallel_size of the parallelism",
    "nnodes": owner.RANKS,
    "node_rank": owner.RANKS,
    "dist_init_addr": owner.RANKS,
    "use_ray": owner.RANKS,
    "base_gpu_id": owner.DEVICES,
    "gpu_id_step": owner.DEVICES,
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
        "SGLANG_CACHE_DIR": owner.CACHE,
        "SGLANG_DG_CACHE_DIR": owner.CACHE,
        "SGLANG_HOST_IP": owner.HOST,
        "HOST_IP": owner.HOST,
        "SGLANG_GRPC_PORT": owner.PORTS,
        "SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE": owner.RANKS,
        **owner.TORCHRUN_VARIABLES,
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
