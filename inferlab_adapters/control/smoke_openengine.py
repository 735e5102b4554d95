"""What a smoke test asks over OpenEngine; nothing of gRPC is loaded before it is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from inferlab_adapters.addresses import url_host
from inferlab_adapters.control.apart import run_apart
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault
from inferlab_adapters.openengine.launch import PORT, is_wrapped

_CHECKS = "inferlab_adapters.control.openengine_checks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Speaker:
    """A replica whose rank 0 is rendered so that it speaks OpenEngine.

    ``replica`` is its id in the plan, ``instance`` the name under which it must show itself,
    ``role`` is aggregated, prefill or decode, and ``address`` is ``host:port``.
    """

    replica: str
    instance: str
    role: str
    address: str


def speakers(prepared: Prepared) -> tuple[Speaker, ...]:
    """The replicas that speak OpenEngine, in the order of their allocations."""
    plan = prepared.plan
    kinds = {role["id"]: role["kind"] for role in plan["roles"]}
    names = {(one["role_id"], one["replica_index"]): one["id"] for one in plan["replicas"]}
    argv = {one["process"]: one["command"]["argv"] for one in prepared.rendered["processes"]}
    return tuple(
        Speaker(
            replica=names[one["role"], one["replica"]],
            instance=one["process"],
            role="aggregated" if kinds[one["role"]] == "serve" else kinds[one["role"]],
            address=_address(one["ports"][PORT]),
        )
        for one in prepared.allocations
        if is_wrapped(argv[one["process"]])
    )


def refuse_without_grpc() -> None:
    """Raises :class:`Refused` where this Python cannot ask an OpenEngine server anything."""
    try:
        import_module(_CHECKS)
    except ImportError as error:
        what = f"the deployment speaks OpenEngine, which oe cannot ask here: {error}"
        hint = (
            "pip install 'inferlab-adapters[openengine]' where oe runs, or give --no-openengine"
            " to leave these checks out"
        )
        raise Refused(Fault("", what, hint)) from None


def check(asked: tuple[Speaker, ...], *, model: str, prompt: str) -> tuple[Json, list[str]]:
    """Ask them all; what they said (see docs/smoke.md), and what is wrong, a sentence each."""
    checks: Any = import_module(_CHECKS)
    found: tuple[Json, list[str]] = run_apart(lambda: checks.ask(asked, model=model, prompt=prompt))
    return found


def notes(asked: tuple[Speaker, ...]) -> list[str]:
    """What cannot be asked although one might expect it."""
    roles = {one.role for one in asked}
    if len(roles & {"prefill", "decode"}) != 1:
        return []
    other = "decode" if "prefill" in roles else "prefill"
    return [f"no handoff is made over OpenEngine, for the role {other} does not speak it"]


def _address(port: Json) -> str:
    return f"{url_host(port['host'])}:{port['port']}"
