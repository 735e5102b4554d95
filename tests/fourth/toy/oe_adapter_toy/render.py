"""The command of one toy process: ``toy serve MODEL``, owned options, settings, extra arguments."""

from __future__ import annotations

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import host_port
from inferlab_adapters.allocation import Deployment, Rank, Replica
from inferlab_adapters.deployment import MASTER
from inferlab_adapters.environment import cache_environment
from inferlab_adapters.errors import Faults

from . import kv_transfer


def check_deployment(deployment: Deployment, faults: Faults) -> None:
    """Nothing: toy comes up wherever the core's own checks let it."""


def render_rank(deployment: Deployment, replica: Replica, rank: Rank) -> Command:
    """Tokens and environment of one rank; the core has checked all that they are made of."""
    plan, role = deployment.plan, replica.role
    assert role is not None
    argv = ["toy", "serve", rank.model_locator]
    argv += plan.argument("served_name", plan.scope.model.served_name)
    if rank is replica.primary:
        argv += plan.argument("host", rank.endpoint.host)
        argv += plan.argument("port", rank.endpoint.port)
    if role.layout.tensor > 1:
        argv += plan.argument("tensor_size", role.layout.tensor)
    if len(replica.ranks) > 1:
        argv += plan.argument("rank", rank.allocation.rank)
        argv += plan.argument("ranks", len(replica.ranks))
        argv += plan.argument("master", host_port(replica.primary.port(MASTER)))
    if plan.mechanism is not None:
        argv += plan.argument("transfer_role", role.kind)
    argv += role.settings.argv(plan.table)
    env = cache_environment(rank.allocation.cache, {"TOY_CACHE": "toy"})
    env |= kv_transfer.environment(plan, role, rank)
    return Command(argv=argv, env=env | role.settings.extra_env)


def render_router(deployment: Deployment, rank: Rank) -> Command:
    """Never asked for: toy brings no router."""
    raise NotImplementedError
