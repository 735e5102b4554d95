"""The command of one TensorRT-LLM process.

``trtllm-serve`` by its module, the subcommand spelt out and the model right behind it, so that
no model is taken for a subcommand; then the options that the request and the allocation own, in
a fixed order; then the YAML; then the settings in name order; then the extra arguments.

Source: tensorrt_llm/commands/serve.py and tensorrt_llm/llmapi/trtllm-llmapi-launch, 1.2.1 to
1.4.0rc.
"""

from __future__ import annotations

import posixpath
import re

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import is_ipv6
from inferlab_adapters.allocation import Deployment, Rank, Replica
from inferlab_adapters.deployment import Plan
from inferlab_adapters.environment import cache_environment
from inferlab_adapters.errors import Faults, pointer, shown
from inferlab_adapters.launch_files import LaunchFile
from inferlab_adapters.parallelism import Layout
from oe_adapter_trtllm import llm_api_options, router
from oe_adapter_trtllm.llm_api_options import ATTENTION_DP
from oe_adapter_trtllm.options import NAME_OPTION, YAML_OPTION

LAUNCHER = "trtllm-llmapi-launch"
# The launcher leaves its arguments to a shell unquoted, which splits and expands them.
_NOT_ONE_WORD = re.compile(r"[\s*?\[\]\\]|^$")


def check_deployment(deployment: Deployment, faults: Faults) -> None:
    """Refuse files and allocations on which TensorRT-LLM would not come up as asked."""
    llm_api_options.check_files(deployment, faults)
    if faults:
        return
    for replica in deployment.replicas.values():
        _check_host(deployment.plan, replica, faults)
        if replica.role is not None:
            _check_served_name(deployment.plan, replica, faults)
            _check_ranks(deployment, replica, faults)


def _check_host(plan: Plan, replica: Replica, faults: Faults) -> None:
    if not is_ipv6(replica.primary.endpoint.host):
        return
    where = pointer(replica.primary.pointer, "endpoint", "host")
    if plan.router is not None:
        what = f"is IPv6, but {router.NAME} listens on IPv4 and splits URLs at every colon"
        faults.add(where, what, "give an IPv4 address, or use the routing_backend builtin")
    elif "ipv6" not in plan.table.features:
        what = f"is IPv6, but TensorRT-LLM {plan.table.version} listens on IPv4 only"
        faults.add(where, what, "give an IPv4 address, or use 1.4 or newer")


def _check_served_name(plan: Plan, replica: Replica, faults: Faults) -> None:
    name, locator = plan.scope.model.served_name, replica.primary.model_locator
    own = posixpath.basename(locator.rstrip("/"))
    if NAME_OPTION not in plan.table and name not in (locator, own):
        what = f"TensorRT-LLM {plan.table.version} cannot call {shown(locator)} {shown(name)}"
        faults.add("/input/model/served_name", what, f"call it {shown(own)}, or use 1.3 or newer")


def _check_ranks(deployment: Deployment, replica: Replica, faults: Faults) -> None:
    """Several processes are one MPI job with a process a GPU, which the launcher enters."""
    if len(replica.ranks) == 1:
        return
    primary = replica.primary
    if len(primary.allocation.devices) != 1:
        what = (
            "TensorRT-LLM forms a replica of several processes from one MPI job with a process "
            "a GPU, and these have more than one device each"
        )
        hint = "allocate one rank on one machine, or one rank a device inside one PMIx step"
        faults.add(pointer(primary.pointer, "rank_count"), what, hint)
        return
    for token in render_rank(deployment, replica, primary).argv:
        if _NOT_ONE_WORD.search(token):
            what = f"{LAUNCHER} would take {shown(token)} apart"
            hint = "use no white space and none of *?[]\\ with several ranks"
            faults.add(primary.pointer, what, hint)


def render_rank(deployment: Deployment, replica: Replica, rank: Rank) -> Command:
    """Tokens, environment and YAML of one rank.

    All ranks of a replica are given the same: rank 0 serves, the others wait for its work.
    """
    plan, role = deployment.plan, replica.role
    assert role is not None
    cache, endpoint = rank.allocation.cache, replica.primary.endpoint
    several = len(replica.ranks) > 1
    argv = [LAUNCHER] if several else []
    argv += [*router.PROGRAM, "serve", rank.model_locator]
    argv += plan.argument("host", endpoint.host)
    argv += plan.argument("port", endpoint.port)
    if NAME_OPTION in plan.table:
        argv += plan.argument(NAME_OPTION, plan.scope.model.served_name)
    argv += _shape(plan, role.layout)
    if several:
        # Of the devices that a process sees, which is the one of its allocation.
        argv += plan.argument("gpus_per_node", 1)
    files = []
    data = llm_api_options.of_role(deployment, role)
    if data:
        from inferlab_adapters import yaml_text

        file = LaunchFile("extra_llm_api_options.yaml", yaml_text.write(data))
        argv += plan.argument(YAML_OPTION, file.path(cache))
        files.append(file)
    argv += role.settings.argv(plan.table, leave_out=llm_api_options.in_yaml(data))
    env = _environment(plan, rank) | role.settings.extra_env
    return Command(argv=argv, env=env, files=files)


def _shape(plan: Plan, layout: Layout) -> list[str]:
    """Every size above 1; attention data parallel where the command line knows it."""
    argv = plan.sizes(
        {
            "tensor_parallel_size": layout.tensor,
            "pipeline_parallel_size": layout.pipeline,
            "moe_expert_parallel_size": layout.expert,
        }
    )
    if layout.attention_data > 1 and ATTENTION_DP in plan.table:
        argv.append(plan.option(ATTENTION_DP).names[0])
    return argv


def _environment(plan: Plan, rank: Rank) -> dict[str, str]:
    folders = {"TLLM_TORCH_PROFILER_DIR": "profiles"} if plan.scope.profiling else {}
    env = cache_environment(rank.allocation.cache, folders)
    if len(rank.allocation.devices) > 1:
        # A process a device would compile in it at once; by itself each finds a folder of its own.
        del env["FLASHINFER_WORKSPACE_BASE"]
    return env


def render_router(deployment: Deployment, rank: Rank) -> Command:
    """The command of the orchestrator."""
    return router.render(deployment, rank)
