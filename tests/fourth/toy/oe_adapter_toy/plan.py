"""What planning adds to a role's settings for toy, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

from inferlab_adapters.deployment import MASTER, Plan, PortPlan, RoleRequest, Scope
from inferlab_adapters.errors import Faults
from inferlab_adapters.kv_transfer import SIDE_CHANNEL, check_protocol, check_same_protocol
from inferlab_adapters.parallelism import Layout
from inferlab_adapters.settings import Settings

from .options import option_table as option_table
from .parallelism import layout as layout
from .settings import absent_settings as absent_settings


def ports(scope: Scope, role: RoleRequest, shape: Layout) -> PortPlan:
    """A side channel for every rank, and one place where rank 0 of several is found."""
    return PortPlan(ports=(SIDE_CHANNEL,) if scope.mechanism else (), primary_ports=(MASTER,))


def complete(
    scope: Scope, role: RoleRequest, shape: Layout, settings: Settings, faults: Faults
) -> Settings:
    """Refuse settings that contradict; toy needs nothing added."""
    check_protocol(scope.mechanism, settings, faults)
    return settings


def check_plan(plan: Plan, faults: Faults, note: Callable[[str], None]) -> None:
    """Refuse pairs that would not understand each other."""
    if plan.mechanism is not None:
        check_same_protocol(plan.role("prefill"), plan.role("decode"), faults)


def prefix_cache_reset(plan: Plan) -> None:
    """None: toy has no endpoint that empties its prefix cache."""


def render_inputs(plan: Plan) -> list[str]:
    """None: toy reads no files of the workspace."""
    return []
