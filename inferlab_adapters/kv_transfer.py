"""What the transfer libraries themselves need, whichever engine links them: UCX and Mooncake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inferlab_adapters.deployment import RolePlan
from inferlab_adapters.errors import Faults, one_of, pointer, shown
from inferlab_adapters.settings import OwnSetting, Settings

BOOTSTRAP: Final = "bootstrap"
SIDE_CHANNEL: Final = "side_channel"

PROTOCOL = "kv_transfer_protocol"

# cuda_copy moves GPU memory through the host where the wire is TCP, self is a process's own
# lane; without them UCX finds no way to reach GPU memory. "ib" is UCX's name for all RDMA
# transports.
_UCX_TLS: Mapping[str, str] = {
    "tcp": "tcp,cuda_copy,self",
    "rdma": "ib,cuda_copy,cuda_ipc,sm,self",
}


def protocol_setting(meaning: str, *choices: str) -> OwnSetting:
    """The setting that says what carries the KV cache."""
    return OwnSetting(name=PROTOCOL, kind="string", meaning=meaning, choices=choices)


def with_default(mechanism: str | None, own: Mapping[str, Any]) -> dict[str, Any]:
    """The adapter's own settings with the protocol that is used where none was asked for.

    Mooncake must be told one; NIXL's UCX chooses by itself.
    """
    return {PROTOCOL: "rdma", **own} if mechanism == "mooncake" else dict(own)


def check_protocol(mechanism: str | None, settings: Settings, faults: Faults) -> None:
    """Refuse a protocol that the mechanism lacks, and a UCX_TLS beside one that sets it."""
    protocol = settings.own.get(PROTOCOL)
    if mechanism == "mooncake" and protocol not in (None, *_UCX_TLS):
        legal = one_of(map(shown, _UCX_TLS))
        faults.add(settings.at(PROTOCOL), f"must be {legal} with mooncake, got {shown(protocol)}")
    if mechanism == "nixl" and protocol in _UCX_TLS and "UCX_TLS" in settings.extra_env:
        where = pointer(settings.at("extra_env"), "UCX_TLS")
        faults.add(where, f"is decided by the setting {PROTOCOL}", "keep one of them")


def check_same_protocol(prefill: RolePlan, decode: RolePlan, faults: Faults) -> None:
    """Refuse a pair whose sides would not understand each other."""
    ours, theirs = (role.settings.own.get(PROTOCOL) for role in (prefill, decode))
    if ours != theirs:
        what = f"decode has {theirs or 'none'} and prefill {ours or 'none'}"
        faults.add(decode.settings.at(PROTOCOL), what, "set the same in both roles")


def environment(mechanism: str | None, settings: Settings) -> dict[str, str]:
    """The variables that hold the library to the wanted protocol."""
    protocol = settings.own.get(PROTOCOL, "")
    if mechanism == "nixl" and protocol in _UCX_TLS:
        return {"UCX_TLS": _UCX_TLS[protocol]}
    if mechanism == "mooncake" and protocol == "tcp":
        return {"MC_FORCE_TCP": "1"}
    return {}
