"""What planning adds to a role's settings for SGLang, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from inferlab_adapters.deployment import (
    MASTER,
    Plan,
    PortPlan,
    RolePlan,
    RoleRequest,
    Scope,
    span_names,
)
from inferlab_adapters.errors import Faults, shown
from inferlab_adapters.kv_transfer import (
    BOOTSTRAP,
    check_protocol,
    check_same_protocol,
    with_default,
)
from inferlab_adapters.parallelism import Layout
from inferlab_adapters.settings import Settings
from oe_adapter_sglang.options import option_table as option_table
from oe_adapter_sglang.parallelism import layout as layout
from oe_adapter_sglang.settings import absent_settings as absent_settings

if TYPE_CHECKING:
    from inferlab_adapters.protocol.answers import HttpActionSpec


# Source: PortArgs.init_new in sglang/srt/server_args.py, 0.5.23: with attention data parallel the
# rendezvous port, the six behind it and, for the handshake, the thirteenth are taken.
_DERIVED_PORTS = 14

# Source: sglang/srt/arg_groups of 0.5.23, where it was run: all others set ep_size to tp_size.
_FREE_A2A_BACKENDS = ("none", "ascend_tp")


def ports(scope: Scope, role: RoleRequest, shape: Layout) -> PortPlan:
    """The bootstrap port of prefill, and where the ranks meet.

    With attention data parallel even a lone process meets itself at a run of ports, which SGLang
    would otherwise derive from the HTTP port, where another server of the machine may be.
    """
    bootstrap = (BOOTSTRAP,) if scope.mechanism and role.kind == "prefill" else ()
    if shape.attention_data > 1:
        run = span_names(MASTER, _DERIVED_PORTS)
        return PortPlan(ports=(*bootstrap, *run), spans={MASTER: _DERIVED_PORTS})
    return PortPlan(ports=bootstrap, primary_ports=(MASTER,))


def complete(
    scope: Scope, role: RoleRequest, shape: Layout, settings: Settings, faults: Faults
) -> Settings:
    """Fill in what reaches the command without being asked for, and refuse contradictions."""
    done = settings._replace(own=with_default(scope.mechanism, settings.own))
    check_protocol(scope.mechanism, done, faults)
    if scope.mechanism and role.kind == "decode" and shape.attention_context > 1:
        base = settings.pointer.rpartition("/")[0]
        what = f"attention context parallel is {shape.attention_context} in the decode role"
        faults.add(base, f"{what}, where SGLang takes only 1", "set it to 1 for decode")
    return done


def check_plan(plan: Plan, faults: Faults, note: Callable[[str], None]) -> None:
    """Refuse names and pairs that SGLang cannot serve, and note what may not work."""
    for planned in plan.roles:
        _check_a2a_backend(planned, faults)
    name = plan.scope.model.served_name
    if ":" in name:
        what = f"{shown(name)} has a colon, which SGLang reads as model:adapter"
        faults.add("/input/model/served_name", what, "choose a name without one")
    if plan.mechanism is None:
        return
    prefill, decode = plan.role("prefill"), plan.role("decode")
    check_same_protocol(prefill, decode, faults)
    ours, theirs = prefill.layout, decode.layout
    if theirs.pipeline not in (1, ours.pipeline):
        where = decode.request.declared.pointer("pipeline")
        what = f"must be 1 or prefill's {ours.pipeline}, got {theirs.pipeline}"
        faults.add(where, what, "SGLang pairs no other stages")
    if ours.attention_tensor != theirs.attention_tensor:
        note(
            f"{decode.request.pointer}: attention tensor parallel is {theirs.attention_tensor} in "
            f"decode and {ours.attention_tensor} in prefill, which fails for some models"
        )


def _check_a2a_backend(role: RolePlan, faults: Faults) -> None:
    asked, shape = role.settings.options.get("moe_a2a_backend", "none"), role.layout
    if asked not in _FREE_A2A_BACKENDS and shape.expert != shape.tensor:
        what = f"{shown(asked)} makes expert parallel {shape.tensor}, this role has {shape.expert}"
        hint = f"set experts.expert_parallel_size to {shape.tensor}, or another backend"
        faults.add(role.settings.at("moe_a2a_backend"), what, hint)


def prefix_cache_reset(plan: Plan) -> HttpActionSpec | None:
    """``POST /flush_cache``: the server's own, or the one that sglang-router passes to all."""
    if plan.mechanism is None or plan.router is not None:
        return {"method": "post", "path": "/flush_cache"}
    return None


def render_inputs(plan: Plan) -> list[str]:
    """None: SGLang reads its files itself, on the machine it runs on."""
    return []
