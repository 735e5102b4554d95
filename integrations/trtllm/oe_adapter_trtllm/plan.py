"""What planning adds to a role's settings for TensorRT-LLM, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from inferlab_adapters.deployment import Plan, PortPlan, RoleRequest, Scope
from inferlab_adapters.errors import Faults
from inferlab_adapters.parallelism import Layout
from inferlab_adapters.settings import Settings
from oe_adapter_trtllm import llm_api_options
from oe_adapter_trtllm.options import option_table as option_table
from oe_adapter_trtllm.parallelism import layout as layout

if TYPE_CHECKING:
    from inferlab_adapters.protocol.answers import HttpActionSpec


def absent_settings(scope: Scope, role: RoleRequest) -> Mapping[str, str]:
    """None: every setting applies to every role."""
    return {}


def ports(scope: Scope, role: RoleRequest, shape: Layout) -> PortPlan:
    """None: the KV transfer is arranged in band, and ranks meet through MPI."""
    return PortPlan()


def complete(
    scope: Scope, role: RoleRequest, shape: Layout, settings: Settings, faults: Faults
) -> Settings:
    """Add nothing: what the request needs goes into the YAML that is rendered."""
    llm_api_options.check_path(settings, faults)
    return settings


def check_plan(plan: Plan, faults: Faults, note: Callable[[str], None]) -> None:
    """Refuse profiling where there is no endpoint for it, and patches that say wrong things."""
    if plan.scope.profiling and "http_profiling" not in plan.table.features:
        what = f"TensorRT-LLM {plan.table.version} has no endpoints that start and stop a profile"
        faults.add("/input/profiling", what, "leave it out, or use 1.3.0rc27 or newer")
    llm_api_options.check_patches(plan, faults)


def prefix_cache_reset(plan: Plan) -> HttpActionSpec | None:
    """None: no version has an endpoint that empties the cache for block reuse."""
    return None


def render_inputs(plan: Plan) -> list[str]:
    """The files of LLM API options, each once."""
    paths = (llm_api_options.source_path(role.settings) for role in plan.roles)
    return list(dict.fromkeys(path for path in paths if path is not None))
