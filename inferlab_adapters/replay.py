"""A plan that comes back: render takes exactly what plan returned, and checks that it is.

The serving roles are read back as a request, planned again, and compared.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from inferlab_adapters.deployment import (
    PLANNED,
    ROUTER,
    Plan,
    RoleRequest,
)
from inferlab_adapters.errors import Faults, pointer, shown
from inferlab_adapters.topology import links, roles, routing

if TYPE_CHECKING:
    from inferlab_adapters.protocol import RenderServeInput


def planned_roles(wire: RenderServeInput) -> tuple[RoleRequest, ...]:
    """The serving roles of a plan, read back as a request; the native router is not asked for."""
    native = wire.routing.owner == "integration_native"
    return tuple(
        RoleRequest.read(position, role, PLANNED)
        for position, role in enumerate(wire.roles)
        if not (native and role.kind == ROUTER and role.id == ROUTER)
    )


def check_unchanged(plan: Plan, wire: RenderServeInput) -> None:
    """Render takes back exactly what plan returned."""
    expected: dict[str, Any] = {
        "roles": roles(plan),
        "routing": routing(plan),
        "links": links(plan),
    }
    faults = Faults("invalid_request")
    for name, value in expected.items():
        sent = _plain(getattr(wire, name))
        if sent != value:
            where, now, was = _first_difference(sent, value, f"/input/{name}")
            what = f"differs from the plan: {now}, planned was {was}"
            faults.add(where, what, "send back what plan_serve returned")
    faults.check()


def supplied_inputs(planned: list[str], wire: RenderServeInput) -> dict[str, str]:
    """The texts of the planned render inputs: each given once, with a true digest."""
    faults = Faults("invalid_request")
    texts: dict[str, str] = {}
    for position, supplied in enumerate(wire.render_inputs):
        where = f"/input/render_inputs/{position}"
        if supplied.source_path not in planned or supplied.source_path in texts:
            what = f"{shown(supplied.source_path)} is no planned render input"
            if supplied.source_path in texts:
                what = f"{shown(supplied.source_path)} is supplied twice"
            faults.add(pointer(where, "source_path"), what, "send what the plan asks for")
        texts[supplied.source_path] = supplied.text
        digest = hashlib.sha256(supplied.text.encode("utf-8")).hexdigest()
        if supplied.sha256 != digest:
            what = f"does not match the text, whose digest is {digest}"
            faults.add(pointer(where, "sha256"), what, "send text and digest of one read")
    for path in planned:
        if path not in texts:
            faults.add("/input/render_inputs", f"{shown(path)} is missing: the plan asks for it")
    faults.check()
    return texts


def _plain(value: Any) -> Any:
    """A validated part of the request as the dictionaries in which plan answered it."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value


_ABSENT = object()


def _first_difference(sent: Any, planned: Any, where: str) -> tuple[str, str, str]:
    """The first place where two JSON values differ, and both values there as text."""
    pairs: list[tuple[str | int, Any, Any]] = []
    if isinstance(sent, dict) and isinstance(planned, dict):
        keys = list(dict.fromkeys([*planned, *sent]))
        pairs = [(key, sent.get(key, _ABSENT), planned.get(key, _ABSENT)) for key in keys]
    elif isinstance(sent, list) and isinstance(planned, list) and len(sent) == len(planned):
        pairs = [(index, *pair) for index, pair in enumerate(zip(sent, planned, strict=True))]
    for key, mine, theirs in pairs:
        if mine != theirs or type(mine) is not type(theirs):
            return _first_difference(mine, theirs, pointer(where, key))
    return where, _said(sent), _said(planned)


def _said(value: Any) -> str:
    return "absent" if value is _ABSENT else shown(value)
