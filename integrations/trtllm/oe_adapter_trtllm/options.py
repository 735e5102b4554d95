"""TensorRT-LLM's command line: who owns which option, and the table for a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from inferlab_adapters import ownership as owner
from inferlab_adapters.catalogue import select
from inferlab_adapters.environment import CACHE_VARIABLES, DEVICE_VARIABLES
from inferlab_adapters.options import OptionTable
from inferlab_adapters.settings import Reserved
from oe_adapter_trtllm.removed import removed

CATALOGUES = Path(__file__).with_name("catalogue")

NAME_OPTION = "served_model_name"
YAML_OPTION = "extra_llm_api_options"

_PEERS = "the plan: its servers and their router are fixed"
_TEXT_ONLY = "the protocol: the endpoint completes text"

OWNED: Mapping[str, str] = {
    "model": owner.MODEL_LOCATOR,
    NAME_OPTION: owner.SERVED_NAME,
    "host": owner.ENDPOINT,
    "port": owner.ENDPOINT,
    "report_addr": owner.ENDPOINT,
    "tensor_parallel_size": owner.TENSOR,
    "pipeline_parallel_size": owner.PIPELINE,
    "context_parallel_size": owner.ATTENTION_CONTEXT,
    "enable_attention_dp": owner.ATTENTION_DATA,
    "moe_expert_parallel_size": owner.EXPERT,
    "moe_cluster_parallel_size": "the experts of the parallelism, which have no clusters",
    "gpus_per_node": owner.DEVICES,
    YAML_OPTION: "the setting extra_llm_api_options",
    "set": "the setting extra_llm_api_options_patch",
    "backend": "this adapter, which serves the PyTorch backend",
    "grpc": owner.HTTP_ONLY,
    "grpc_protocol": owner.HTTP_ONLY,
    "server_role": _PEERS,
    "metadata_server_config_file": _PEERS,
    "disagg_cluster_uri": _PEERS,
    "enable_visual_gen": _TEXT_ONLY,
    "visual_gen_args": _TEXT_ONLY,
}
"""Options that come only from the request and the allocations, by the field that decides."""

_SHORT = {
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "cp_size": "context_parallel_size",
    "ep_size": "moe_expert_parallel_size",
    "cluster_size": "moe_cluster_parallel_size",
    "config": YAML_OPTION,
}
_OWNED_NAMES = {**OWNED, **{short: OWNED[name] for short, name in _SHORT.items()}}

OWNED_KEYS: Mapping[str, str] = {
    **_OWNED_NAMES,
    "moe_tensor_parallel_size": "experts.tensor_parallel_size of the parallelism",
    "cp_config": owner.ATTENTION_CONTEXT,
    "dwdp_config": owner.DEVICES,
    "mpi_session": owner.RANKS,
    "_mpi_session": owner.RANKS,
    "orchestrator_type": owner.RANKS,
    "ray_placement_config": owner.RANKS,
    "disagg_cluster": _PEERS,
    "internal_request_auth_key": owner.HTTP_ONLY,
}
"""The same for the keys of the YAML, which has some that no option has."""

# Where a version does not list a spelling, and with the hyphens of other engines.
_UNLISTED = {
    f"--{spelling}": f"it is decided by {owner}"
    for name, owner in _OWNED_NAMES.items()
    for spelling in (name, name.replace("_", "-"))
}
_FRONT_END = "the planned endpoints, which another front end does not have"
_ROUTER = "the file that the router is given"
_TRANSFER = "kv_transfer of the request"

RESERVED_ENV = Reserved(
    names={
        **DEVICE_VARIABLES,
        **CACHE_VARIABLES,
        "TLLM_TORCH_PROFILER_DIR": owner.CACHE,
        "TLLM_DISABLE_MPI": owner.RANKS,
        "TLLM_EXECUTOR_ATTACH_INFO": _FRONT_END,
        "TLLM_EXECUTOR_FRONTEND_ID": _FRONT_END,
        "TLLM_FRONTEND_READY_FD": _FRONT_END,
        "TLLM_DISAGG_INSTANCE_IDX": _PEERS,
        "TLLM_DISAGG_RUN_REMOTE_MPI_SESSION_CLIENT": _PEERS,
        "TRTLLM_DISAGG_ROLE": _PEERS,
        "TRTLLM_DISAGG_INSTANCE_IDX": _PEERS,
        "TRTLLM_DISAGG_BENCHMARK_GEN_ONLY": _PEERS,
        "TRTLLM_DISAGG_CONFIG_FILE": _ROUTER,
        "TRTLLM_DISAGG_PORT": _ROUTER,
        "TRTLLM_DISAGG_SCHEDULE_STYLE": _ROUTER,
        "TRTLLM_DISAGG_REQUEST_TIMEOUT": _ROUTER,
        "TRTLLM_DISAGG_SERVER_START_TIMEOUT": _ROUTER,
        "TRTLLM_USE_NIXL_KVCACHE": _TRANSFER,
        "TRTLLM_USE_UCX_KVCACHE": _TRANSFER,
        "TRTLLM_USE_MOONCAKE_KVCACHE": _TRANSFER,
        "TRTLLM_USE_MPI_KVCACHE": _TRANSFER,
        "PROMETHEUS_MULTIPROC_DIR": "TensorRT-LLM itself: a shared folder mixes metrics",
        "RAY_LOCAL_WORLD_SIZE": owner.RANKS,
        **owner.TORCHRUN_VARIABLES,
    },
    prefixes={
        "TLLM_SPAWN_PROXY_PROCESS": owner.RANKS,
        "TRTLLM_DISAGG_COORDINATOR_": _ROUTER,
        "OMPI_": owner.RANKS,
        "PMIX_": owner.RANKS,
        "PMI_": owner.RANKS,
        "SLURM_": owner.RANKS,
    },
)
"""Environment variables that settings may not touch."""


@lru_cache(maxsize=8)
def option_table(framework_version: str) -> OptionTable:
    """The options of a version; the newest catalogue's when the version is unavailable."""
    selection = select(CATALOGUES, framework_version)
    return OptionTable(
        selection,
        owned={**OWNED, **_UNLISTED},
        removed=removed(selection.catalogue.version),
        # Source: tensorrt_llm/commands/serve.py, 1.4.0rc: click's own bounds.
        minimums={
            "num_serve_frontends": 1,
            "num_input_processor_workers": 1,
            "num_media_load_workers": 1,
        },
    )
