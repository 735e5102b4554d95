"""The command of one vLLM process.

``vllm serve MODEL`` first, since list-valued options would eat a positional behind them;
then the options that the request and the allocation own, in a fixed order; then the settings
in name order; then the extra arguments. Rank 0 is started by the program that serves OpenEngine.

Source for the options over nodes: vllm/engine/arg_utils.py (create_engine_config),
vllm/entrypoints/cli/serve.py and vllm/config/parallel.py, 0.32.0.
"""

from __future__ import annotations

from inferlab_adapters import pd_router
from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import is_ip, is_ipv6
from inferlab_adapters.allocation import Deployment, Rank, Replica
from inferlab_adapters.deployment import MASTER, Plan, RolePlan
from inferlab_adapters.environment import cache_environment
from inferlab_adapters.errors import Faults, pointer
from inferlab_adapters.kv_transfer import BOOTSTRAP
from inferlab_adapters.openengine import launch as openengine
from inferlab_adapters.parallelism import Layout
from inferlab_adapters.values import compact_json, tokens
from oe_adapter_vllm import kv_transfer, router
from oe_adapter_vllm.parallelism import CONTEXT_OPTION

_CACHE_FOLDERS = {"VLLM_CACHE_ROOT": "vllm"}
_NOT_HEADLESS = frozenset({"api_server_count"})
_LOCAL_EXECUTORS = ("mp", "uni")


def check_deployment(deployment: Deployment, faults: Faults) -> None:
    """Refuse allocations on which vLLM would not come up."""
    for replica in deployment.replicas.values():
        endpoint = replica.primary.endpoint
        if endpoint.host == "None":
            where = pointer(replica.primary.pointer, "endpoint", "host")
            faults.add(where, 'vLLM reads "None" as every interface', "give an address")
        if replica.role is None:
            continue
        if len(replica.ranks) > 1:
            _check_nodes(replica.role, replica, faults)
        if deployment.plan.scope.mechanism == "mooncake" and replica.role.kind == "prefill":
            for rank in replica.ranks:
                if is_ipv6(rank.port(BOOTSTRAP).host):
                    where = pointer(rank.pointer, "ports", BOOTSTRAP, "host")
                    what = "is IPv6, but vLLM's Mooncake bootstrap server listens on IPv4 only"
                    faults.add(where, what, "give an IPv4 address, or use nixl")
    pd_router.check_addresses(deployment, faults, bind_names=True)


def _check_nodes(role: RolePlan, replica: Replica, faults: Faults) -> None:
    where = pointer(replica.primary.pointer, "rank_count")
    data, ranks = role.layout.attention_data, len(replica.ranks)
    if data > 1 and data % ranks:
        what = f"{data} data parallel ranks cannot be spread over {ranks} processes"
        hint = "every process must hold the same number of whole data parallel ranks"
        faults.add(where, what, hint)
    executor = role.settings.options.get("distributed_executor_backend", "mp")
    if executor not in _LOCAL_EXECUTORS:
        what = f"several ranks need the mp executor, the settings ask for {executor}"
        faults.add(where, what, "remove distributed_executor_backend or allocate one rank")


def render_rank(deployment: Deployment, replica: Replica, rank: Rank) -> Command:
    """Tokens and environment of one rank."""
    plan, role = deployment.plan, replica.role
    assert role is not None
    headless = rank is not replica.primary
    argv = ["vllm", "serve", rank.model_locator]
    argv += plan.argument("served_model_name", plan.scope.model.served_name)
    if not headless:
        argv += plan.argument("host", rank.endpoint.host)
        argv += plan.argument("port", rank.endpoint.port)
    argv += _shape(plan, role.layout)
    argv += _nodes(plan, role.layout, replica, rank)
    if plan.mechanism is not None:
        config = kv_transfer.transfer_config(plan, role)
        argv += [plan.option("kv_transfer_config").names[0], compact_json(config)]
    argv += role.settings.argv(plan.table, leave_out=_NOT_HEADLESS if headless else frozenset())
    if openengine.is_on(role.settings) and not headless:
        argv = openengine.wrapped("vllm", role.kind, rank, argv)
    return Command(argv=argv, env=_environment(plan, role, replica, rank))


def _shape(plan: Plan, layout: Layout) -> list[str]:
    """Every size above 1, in the spelling that the version knows."""
    argv = plan.sizes(
        {
            "tensor_parallel_size": layout.tensor,
            "pipeline_parallel_size": layout.pipeline,
            "data_parallel_size": layout.attention_data,
            CONTEXT_OPTION: layout.attention_context,
        }
    )
    if layout.expert > 1:
        argv += tokens(plan.option("enable_expert_parallel"), True)
    return argv


def _nodes(plan: Plan, layout: Layout, replica: Replica, rank: Rank) -> list[str]:
    """How the processes of one replica find each other.

    With data parallel, every process holds whole data parallel ranks and meets rank 0 at the
    data parallel RPC port; without, the processes are nodes of one tensor and pipeline group.
    """
    count, number = len(replica.ranks), rank.allocation.rank
    if count == 1:
        return []
    master = replica.primary.port(MASTER)
    headless = [plan.option("headless").names[0]] if number else []
    if layout.attention_data == 1:
        return [
            *plan.argument("nnodes", count),
            *plan.argument("node_rank", number),
            *plan.argument("master_addr", master.host),
            *plan.argument("master_port", master.port),
            *headless,
        ]
    local = layout.attention_data // count
    return [
        *plan.argument("data_parallel_size_local", local),
        *plan.argument("data_parallel_address", master.host),
        *plan.argument("data_parallel_rpc_port", master.port),
        # Rank 0 begins at 0 by itself; naming a start there would turn on hybrid balancing.
        *(plan.argument("data_parallel_start_rank", local * number) if number else []),
        *headless,
    ]


def _environment(plan: Plan, role: RolePlan, replica: Replica, rank: Rank) -> dict[str, str]:
    env = cache_environment(rank.allocation.cache, _CACHE_FOLDERS)
    host = next((address.host for _, _, address in rank.addresses()), "")
    if is_ip(host):
        # What vLLM announces to its peers; by itself it takes the address of the default route.
        env["VLLM_HOST_IP"] = host
    if role.settings.own["dev_endpoints"]:
        env["VLLM_SERVER_DEV_MODE"] = "1"
    if plan.mechanism is not None:
        env |= kv_transfer.environment(plan, role, replica, rank)
    return env | role.settings.extra_env


def render_router(deployment: Deployment, rank: Rank) -> Command:
    """The command of vllm-router."""
    return router.render(deployment, rank)
