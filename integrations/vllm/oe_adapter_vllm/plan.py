"""What planning adds to a role's settings for vLLM, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from inferlab_adapters.deployment import (
    MASTER,
    Plan,
    PortPlan,
    RoleRequest,
    Scope,
)
from inferlab_adapters.errors import Faults, one_of, shown
from inferlab_adapters.kv_transfer import with_default
from inferlab_adapters.openengine import launch as openengine
from inferlab_adapters.parallelism import Layout, divisors
from inferlab_adapters.settings import Settings
from oe_adapter_vllm import kv_transfer
from oe_adapter_vllm.options import option_table as option_table
from oe_adapter_vllm.parallelism import layout as layout
from oe_adapter_vllm.settings import absent_settings as absent_settings

if TYPE_CHECKING:
    from inferlab_adapters.protocol.answers import HttpActionSpec

OPENENGINE_NEEDS: Mapping[str, Any] = {
    "enable_scale_out": True,
    "enable_prompt_tokens_details": True,
}
"""Options without which the backend has no endpoint to ask, or no count of cached tokens."""

OPENENGINE_DEFAULTS: Mapping[str, Any] = {"scheduling_policy": "priority"}
"""Options without which a priority is refused; equal ones run first come, first served."""

DEFAULT_PROFILER = {"profiler": "cuda"}
_PROFILER_FOLDERS = {"cuda": None, "torch": "torch_profiler_dir", "proton": "proton_profiler_dir"}


def ports(scope: Scope, role: RoleRequest, shape: Layout) -> PortPlan:
    """Transfer ports for every rank, and one at which rank 0 of several is found."""
    transfer = kv_transfer.ports(scope.mechanism, role.kind, shape)
    speaks = role.settings.get(openengine.SETTING.name, openengine.SETTING.default)
    ports = (openengine.PORT, *transfer.ports) if speaks else transfer.ports
    return transfer._replace(ports=ports, primary_ports=(MASTER,))


def complete(
    scope: Scope, role: RoleRequest, shape: Layout, settings: Settings, faults: Faults
) -> Settings:
    """Fill in what reaches the command without being asked for, and refuse contradictions."""
    own, options = with_default(scope.mechanism, settings.own), dict(settings.options)
    if scope.profiling:
        options.setdefault("profiler_config", DEFAULT_PROFILER)
        _check_profiler(settings, faults)
    if openengine.is_on(settings):
        _check_openengine(settings, faults)
        options = {**OPENENGINE_DEFAULTS, **options, **OPENENGINE_NEEDS}
    done = settings._replace(own=own, options=options)
    _check_decode_context(shape, done, faults)
    if options.get("distributed_executor_backend") == "external_launcher":
        what = '"external_launcher" needs torchrun, which nothing here starts'
        faults.add(done.at("distributed_executor_backend"), what, "use mp")
    if options.get("enable_eplb") and shape.expert == 1:
        what = "balances expert parallel ranks, and this role has none"
        faults.add(done.at("enable_eplb"), what, "set experts.expert_parallel_size")
    kv_transfer.check_role(scope, role.kind, shape, done, faults)
    return done


def check_plan(plan: Plan, faults: Faults, note: Callable[[str], None]) -> None:
    """Refuse what contradicts between prefill and decode."""
    mechanism = plan.scope.mechanism
    if mechanism is not None:
        prefill, decode = plan.role("prefill"), plan.role("decode")
        kv_transfer.check_pair(mechanism, prefill, decode, faults, note)


def prefix_cache_reset(plan: Plan) -> HttpActionSpec | None:
    """``POST /reset_prefix_cache``: a development endpoint, and of the server itself only.

    With prefill and decode the public endpoint is a router, which does not pass it on.
    """
    if plan.mechanism is None and plan.role("serve").settings.own["dev_endpoints"]:
        return {"method": "post", "path": "/reset_prefix_cache"}
    return None


def render_inputs(plan: Plan) -> list[str]:
    """None: vLLM reads its files itself, on the machine it runs on."""
    return []


def _check_profiler(settings: Settings, faults: Faults) -> None:
    # Source: vllm/config/profiler.py: without a kind of profiler, the endpoints do not exist.
    given = settings.options.get("profiler_config", DEFAULT_PROFILER)
    where, profiler = settings.at("profiler_config"), given.get("profiler")
    if not isinstance(profiler, str) or profiler not in _PROFILER_FOLDERS:
        legal = one_of(map(shown, _PROFILER_FOLDERS))
        what = f"profiling needs a profiler, got {shown(given)}"
        faults.add(where, what, f'give it "profiler": {legal}')
        return
    folder = _PROFILER_FOLDERS[profiler]
    if folder and not given.get(folder):
        faults.add(where, f"the {profiler} profiler needs {folder}", "name a folder")


def _check_openengine(settings: Settings, faults: Faults) -> None:
    """Refuse what would leave OpenEngine's backend without its endpoint or without texts."""
    off = f"or set {openengine.SETTING.name} to false"
    for name, value in OPENENGINE_NEEDS.items():
        if settings.options.get(name, value) != value:
            what = f"must be {shown(value)} beside OpenEngine, got {shown(settings.options[name])}"
            faults.add(settings.at(name), what, f"remove it, {off}")
    if settings.options.get("skip_tokenizer_init"):
        what = "leaves OpenEngine without a tokenizer"
        faults.add(settings.at("skip_tokenizer_init"), what, f"remove it, {off}")


def _check_decode_context(shape: Layout, settings: Settings, faults: Faults) -> None:
    """Decode context parallel reuses ranks: source vllm/config/parallel.py, 0.32.0."""
    name = "decode_context_parallel_size"
    size = settings.options.get(name, 1)
    if shape.attention_context == 1:
        if size < 1 or shape.tensor % size:
            what = f"must divide tensor parallel {shape.tensor}, got {size}"
            faults.add(settings.at(name), what, f"use {one_of(divisors(shape.tensor))}")
        return
    whole = shape.tensor * shape.attention_context
    legal = sorted({1, shape.attention_context, whole})
    if size not in legal:
        what = f"must be {one_of(legal)} with prefill context parallel, got {size}"
        faults.add(settings.at(name), what)
