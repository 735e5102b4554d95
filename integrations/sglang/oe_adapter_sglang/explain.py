"""Why an SGLang command is as it is: what ``render.py`` and ``router.py`` write, by its origin."""

from __future__ import annotations

from collections.abc import Mapping

from inferlab_adapters import pd_router_causes
from inferlab_adapters.origins import Cause
from inferlab_adapters.origins import file_lines as file_lines

PROGRAM: Mapping[str, str] = {
    "python3": "the Python of the serving environment",
    "-m": "runs a module",
    "sglang.launch_server": "SGLang's server",
    "sglang_router.launch_router": "the router that the routing backend names",
    "--pd-disaggregation": "sends each request to a prefill and a decode server",
}

_ATTENTION_DATA = Cause(
    "parallelism", "attention/data_parallel_size", "attention in so many copies of the tensor group"
)
_BOOTSTRAP = "where decode and the router find this prefill replica"

OPTIONS: Mapping[str, Cause] = {
    "model_path": Cause("allocation", "model_locator", "where this machine has the model"),
    "served_model_name": Cause("request", "model/served_name", "what clients call the model"),
    "host": Cause("allocation", "endpoint/host", "serves HTTP here"),
    "port": Cause("allocation", "endpoint/port", "serves HTTP here"),
    "tp_size": Cause(
        "parallelism", "outer/tensor_parallel_size", "splits every layer over so many devices"
    ),
    "pp_size": Cause(
        "parallelism", "outer/pipeline_parallel_size", "splits the layers into so many stages"
    ),
    "attn_cp_size": Cause(
        "parallelism", "attention/context_parallel_size", "splits a prompt inside the tensor group"
    ),
    "attn_dp_size": _ATTENTION_DATA,
    "dp_size": _ATTENTION_DATA,
    "enable_dp_attention": _ATTENTION_DATA,
    "ep_size": Cause(
        "parallelism", "experts/expert_parallel_size", "spreads experts inside the tensor group"
    ),
    "moe_dp_size": Cause(
        "parallelism", "experts/data_parallel_size", "copies the experts so many times"
    ),
    "moe_dense_tp_size": Cause(
        "parallelism",
        "experts/dense_tensor_parallel_size",
        "splits the dense layers beside the experts",
    ),
    "nnodes": Cause("allocation", "rank_count", "processes of this replica"),
    "node_rank": Cause("allocation", "rank", "which of them this is"),
    "dist_init_addr": Cause("primary", "ports/master", "where the ranks of the replica meet"),
    "disaggregation_mode": Cause("request", "kv_transfer", "one side of a pair, by the role"),
    "disaggregation_transfer_backend": Cause("request", "kv_transfer", "hands over the KV cache"),
    "disaggregation_bootstrap_port": Cause("primary", "ports/bootstrap/port", _BOOTSTRAP),
}

_CACHES = "keeps SGLang's own caches with the others"

ENVIRONMENT: Mapping[str, Cause] = {
    "SGLANG_CACHE_DIR": Cause("allocation", "cache", _CACHES),
    "SGLANG_DG_CACHE_DIR": Cause("allocation", "cache", _CACHES),
    "SGLANG_TORCH_PROFILER_DIR": Cause("request", "profiling", "where profiles are written"),
    "SGLANG_HOST_IP": Cause(
        "allocation", "endpoint/host", "what SGLang tells its peers, instead of a guess by routes"
    ),
    "UCX_TLS": Cause("setting", "kv_transfer_protocol", "holds UCX to this transport"),
    "MC_FORCE_TCP": Cause("setting", "kv_transfer_protocol", "holds Mooncake to TCP"),
    **pd_router_causes.ENVIRONMENT,
}

ROUTER = pd_router_causes.OPTIONS
ROUTER_SERVERS = pd_router_causes.SERVERS
