"""The ``kv_transfer_params`` of vLLM's connectors: what a decode server needs, field by field.

Sources (vLLM 0.32.0): distributed/kv_transfer/kv_connector/v1/nixl/{base,pull}_scheduler.py and
nixl/metadata.py (run on two CPU servers), mooncake/mooncake_connector.py (read, not run).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from inferlab_adapters.openengine.engine import Endpoint

WILDCARDS = frozenset(("", "*", "0.0.0.0", "::", "[::]", "0"))


class Odd(Exception):
    """What is wrong with the parameters of a session."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """A connector's way of naming a session: ``backend`` is its ``transfer_backend``.

    ``check`` takes the parameters of a session and returns them as vLLM needs them, or raises
    :class:`Odd`. ``locate`` finds the endpoint in them.
    """

    backend: str
    check: Callable[[Mapping[str, Any]], dict[str, Any]]
    locate: Callable[[Mapping[str, Any]], Endpoint]


def _whole(value: Any, name: str, least: int, most: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 21:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Odd(f"{name} must be an integer from {least} to {most}, got {_short(value)}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 512 or not value.isprintable():
        raise Odd(f"{name} must be a text of 1 to 512 characters, got {_short(value)}")
    return value


def _short(value: Any) -> str:
    return repr(value)[:60]


def _roles(parameters: Mapping[str, Any]) -> None:
    if parameters.get("do_remote_prefill") is not True:
        raise Odd("do_remote_prefill must be true")
    if parameters.get("do_remote_decode") not in (None, False):
        raise Odd("do_remote_decode must be false")


def _host(value: Any, name: str) -> str:
    host = _text(value, name)
    if host.strip() in WILDCARDS:
        raise Odd(f"{name} is no address that can be reached, got {host!r}")
    return host


_INTEGERS = {
    "tp_size": 2**16,
    "dcp_size": 2**16,
    "pp_size": 2**16,
    "remote_block_size": 2**31,
    "remote_num_tokens": 2**63 - 1,
    "remote_prefill_cached_tokens": 2**63 - 1,
}
_NIXL_FIELDS = frozenset(
    (
        "do_remote_prefill",
        "do_remote_decode",
        "remote_block_ids",
        "remote_engine_id",
        "remote_request_id",
        "remote_host",
        "remote_port",
        "remote_blocks_expiry_time",
        "transfer_mode",
        *_INTEGERS,
    )
)


def _check_nixl(parameters: Mapping[str, Any]) -> dict[str, Any]:
    _roles(parameters)
    unknown = parameters.keys() - _NIXL_FIELDS
    if unknown:
        raise Odd(f"unknown field {min(unknown)!r}")
    checked = dict(parameters)
    for name in ("remote_engine_id", "remote_request_id"):
        checked[name] = _text(parameters.get(name), name)
    checked["remote_host"] = _host(parameters.get("remote_host"), "remote_host")
    checked["remote_port"] = _whole(parameters.get("remote_port"), "remote_port", 1, 65535)
    groups = parameters.get("remote_block_ids")
    if not isinstance(groups, list | tuple) or not groups:
        raise Odd("remote_block_ids must be a list of lists")
    checked["remote_block_ids"] = [_blocks(group) for group in groups]
    if not any(checked["remote_block_ids"]):
        raise Odd("remote_block_ids is empty")
    for name, most in _INTEGERS.items():
        if parameters.get(name) is not None:
            checked[name] = _whole(parameters[name], name, int(name.endswith("_size")), most)
    expiry = parameters.get("remote_blocks_expiry_time")
    if expiry is not None and (isinstance(expiry, bool) or not isinstance(expiry, int | float)):
        raise Odd(f"remote_blocks_expiry_time must be a number, got {_short(expiry)}")
    mode = parameters.get("transfer_mode")
    if mode is not None and mode != "pull":
        raise Odd(f"transfer_mode must be 'pull', got {_short(mode)}")
    return checked


def _blocks(group: Any) -> list[int]:
    if not isinstance(group, list | tuple):
        raise Odd("remote_block_ids must be a list of lists")
    return [_whole(block, "a block id", 0, 2**63 - 1) for block in group]


def _locate_nixl(parameters: Mapping[str, Any]) -> Endpoint:
    host, port = parameters["remote_host"], parameters["remote_port"]
    return Endpoint(host=host, port=port, protocol="nixl")


_MOONCAKE_TEXTS = ("transfer_id", "remote_engine_id", "remote_bootstrap_addr")


def _check_mooncake(parameters: Mapping[str, Any]) -> dict[str, Any]:
    _roles(parameters)
    unknown = parameters.keys() - {"do_remote_prefill", "do_remote_decode", *_MOONCAKE_TEXTS}
    if unknown:
        raise Odd(f"unknown field {min(unknown)!r}")
    checked = dict(parameters)
    for name in _MOONCAKE_TEXTS:
        checked[name] = _text(parameters.get(name), name)
    _locate_mooncake(checked)
    return checked


def _locate_mooncake(parameters: Mapping[str, Any]) -> Endpoint:
    scheme, _, address = parameters["remote_bootstrap_addr"].rpartition("://")
    host, _, port = address.rpartition(":")
    _host(host, "the host of remote_bootstrap_addr")
    if scheme != "http" or not (port.isascii() and port.isdigit()):
        raise Odd("remote_bootstrap_addr must be http://HOST:PORT")
    whole = _whole(port, "the port of remote_bootstrap_addr", 1, 65535)
    return Endpoint(host=host.strip("[]"), port=whole, protocol="mooncake")


NIXL = Transfer(backend="nixl", check=_check_nixl, locate=_locate_nixl)
MOONCAKE = Transfer(backend="mooncake", check=_check_mooncake, locate=_locate_mooncake)
