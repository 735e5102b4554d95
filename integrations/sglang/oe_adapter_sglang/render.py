"""The command of one SGLang process.

``python3 -m sglang.launch_server``, the options that the request and the allocation own in a fixed
order, then the settings in name order, then the extra arguments.

Source: sglang/srt/server_args.py and srt/entrypoints/engine.py, 0.5.23.
"""

from __future__ import annotations

from inferlab_adapters import kv_transfer as libraries
from inferlab_adapters import pd_router
from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import host_port, is_ip
from inferlab_adapters.allocation import Deployment, Rank, Replica
from inferlab_adapters.deployment import MASTER, Plan, RolePlan
from inferlab_adapters.environment import cache_environment
from inferlab_adapters.errors import Faults, pointer
from inferlab_adapters.parallelism import Layout
from oe_adapter_sglang import kv_transfer, router

_CACHE_FOLDERS = {"SGLANG_CACHE_DIR": "sglang", "SGLANG_DG_CACHE_DIR": "deep_gemm"}


def check_deployment(deployment: Deployment, faults: Faults) -> None:
    """Refuse ranks without an endpoint, where each answers its own health check, and stages
    that lie across nodes: SGLang deals whole stages to a node, or whole nodes to a stage."""
    for rank in deployment.ranks:
        if rank.allocation.endpoint is None:
            where = pointer(rank.pointer, "endpoint")
            faults.add(where, "is missing: every SGLang rank binds one", "allocate it")
    for replica in deployment.replicas.values():
        stages = replica.role.layout.pipeline if replica.role else 1
        nodes = len(replica.ranks)
        if stages % nodes and nodes % stages:
            where = pointer(replica.primary.pointer, "rank_count")
            what = f"{stages} pipeline stages do not fit into {nodes} ranks"
            faults.add(where, what, "one number must divide the other")
    pd_router.check_addresses(deployment, faults, bind_names=False)


def render_rank(deployment: Deployment, replica: Replica, rank: Rank) -> Command:
    """Tokens and environment of one rank."""
    plan, role = deployment.plan, replica.role
    assert role is not None
    argv = ["python3", "-m", "sglang.launch_server"]
    argv += plan.argument("model_path", rank.model_locator)
    argv += plan.argument("served_model_name", plan.scope.model.served_name)
    argv += plan.argument("host", rank.endpoint.host)
    argv += plan.argument("port", rank.endpoint.port)
    argv += _shape(plan, role.layout)
    argv += _nodes(plan, role.layout, replica, rank)
    argv += kv_transfer.arguments(plan, role, replica)
    argv += role.settings.argv(plan.table)
    return Command(argv=argv, env=_environment(plan, role, rank))


def render_router(deployment: Deployment, rank: Rank) -> Command:
    """The command of sglang-router."""
    return router.render(deployment, rank)


def _shape(plan: Plan, layout: Layout) -> list[str]:
    """Every size above 1, in the spelling that the version knows."""
    argv = plan.sizes(
        {
            "tp_size": layout.tensor,
            "pp_size": layout.pipeline,
            "attn_cp_size": layout.attention_context,
            "ep_size": layout.expert,
            "moe_dp_size": layout.expert_data,
        }
    )
    if layout.attention_data > 1 and "attn_dp_size" in plan.table:
        argv += plan.argument("attn_dp_size", layout.attention_data)
    elif layout.attention_data > 1:
        argv += plan.argument("dp_size", layout.attention_data)
        argv.append(plan.option("enable_dp_attention").names[0])
    if layout.dense_tensor != layout.tensor:
        argv += plan.argument("moe_dense_tp_size", layout.dense_tensor)
    return argv


def _nodes(plan: Plan, layout: Layout, replica: Replica, rank: Rank) -> list[str]:
    """How the processes of one replica find each other: at rank 0's rendezvous address."""
    count = len(replica.ranks)
    argv: list[str] = []
    if count > 1:
        argv += plan.argument("nnodes", count)
        argv += plan.argument("node_rank", rank.allocation.rank)
    if count > 1 or layout.attention_data > 1:
        argv += plan.argument("dist_init_addr", host_port(replica.primary.port(MASTER)))
    return argv


def _environment(plan: Plan, role: RolePlan, rank: Rank) -> dict[str, str]:
    env = cache_environment(rank.allocation.cache, _CACHE_FOLDERS)
    if is_ip(rank.endpoint.host):
        # What SGLang announces to its peers; by itself it takes the address of a route or NIC.
        env["SGLANG_HOST_IP"] = rank.endpoint.host
    if plan.scope.profiling:
        env["SGLANG_TORCH_PROFILER_DIR"] = f"{rank.allocation.cache.rstrip('/')}/profiles"
    return (
        env | libraries.environment(plan.scope.mechanism, role.settings) | role.settings.extra_env
    )
