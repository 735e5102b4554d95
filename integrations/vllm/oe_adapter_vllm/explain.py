"""Why a vLLM command is as it is: what ``render.py`` and ``router.py`` write, by its origin."""

from __future__ import annotations

from collections.abc import Mapping

from inferlab_adapters import pd_router_causes
from inferlab_adapters.origins import Cause
from inferlab_adapters.origins import file_lines as file_lines
from oe_adapter_vllm.router import NAME

PROGRAM: Mapping[str, str] = {
    "vllm": "vLLM's own command",
    "serve": "serves HTTP; the model follows at once, since list options would take it",
    NAME: "the router that the routing backend names",
    "--vllm-pd-disaggregation": "sends each request to a prefill and a decode server",
}

_SPLIT = "how the data parallel ranks of the replica are spread over its processes"
_MEET = "where the processes of the replica meet"

OPTIONS: Mapping[str, Cause] = {
    "served_model_name": Cause("request", "model/served_name", "what clients call the model"),
    "host": Cause("allocation", "endpoint/host", "serves HTTP here"),
    "port": Cause("allocation", "endpoint/port", "serves HTTP here"),
    "tensor_parallel_size": Cause(
        "parallelism", "outer/tensor_parallel_size", "splits every layer over so many devices"
    ),
    "pipeline_parallel_size": Cause(
        "parallelism", "outer/pipeline_parallel_size", "splits the layers into so many stages"
    ),
    "data_parallel_size": Cause(
        "parallelism", "attention/data_parallel_size", "copies attention so many times"
    ),
    "prefill_context_parallel_size": Cause(
        "parallelism", "attention/context_parallel_size", "splits a prompt over so many devices"
    ),
    "enable_expert_parallel": Cause(
        "parallelism", "experts/expert_parallel_size", "spreads experts over all ranks of a stage"
    ),
    "nnodes": Cause("allocation", "rank_count", "processes of this replica"),
    "node_rank": Cause("allocation", "rank", "which of them this is"),
    "master_addr": Cause("primary", "ports/master/host", _MEET),
    "master_port": Cause("primary", "ports/master/port", _MEET),
    "data_parallel_size_local": Cause("allocation", "rank_count", _SPLIT),
    "data_parallel_start_rank": Cause("allocation", "rank", _SPLIT),
    "data_parallel_address": Cause("primary", "ports/master/host", _MEET),
    "data_parallel_rpc_port": Cause("primary", "ports/master/port", _MEET),
    "headless": Cause("allocation", "rank", "only rank 0 serves HTTP"),
    "kv_transfer_config": Cause(
        "request",
        "kv_transfer",
        "hands the KV cache from prefill to decode, by the kind of the role and its kv_ settings",
    ),
}

_FOUND = "where the peer fetches the KV cache"

ENVIRONMENT: Mapping[str, Cause] = {
    "VLLM_CACHE_ROOT": Cause("allocation", "cache", "keeps vLLM's own caches with the others"),
    "VLLM_HOST_IP": Cause(
        "allocation", "endpoint/host", "what vLLM tells its peers, instead of a guess by routes"
    ),
    "VLLM_SERVER_DEV_MODE": Cause("setting", "dev_endpoints", "opens the development endpoints"),
    "VLLM_NIXL_SIDE_CHANNEL_HOST": Cause("allocation", "ports/side_channel/host", _FOUND),
    "VLLM_NIXL_SIDE_CHANNEL_PORT": Cause("allocation", "ports/side_channel/port", _FOUND),
    "VLLM_MOONCAKE_BOOTSTRAP_PORT": Cause("primary", "ports/bootstrap/port", _FOUND),
    "UCX_TLS": Cause("setting", "kv_transfer_protocol", "holds UCX to this transport"),
    "MC_FORCE_TCP": Cause("setting", "kv_transfer_protocol", "holds Mooncake to TCP"),
    **pd_router_causes.ENVIRONMENT,
}

ROUTER: Mapping[str, Cause] = {
    **pd_router_causes.OPTIONS,
    "--kv-connector": Cause("request", "kv_transfer", "how prefill and decode hand over"),
}
ROUTER_SERVERS = pd_router_causes.SERVERS
