"""Hosts and ports: which host names can be bound and reached, and how each place spells them."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from inferlab_adapters.errors import shown

if TYPE_CHECKING:
    from inferlab_adapters.protocol import EndpointAssignment

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_WILDCARDS = frozenset({"0.0.0.0", "::", "*"})
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?"
_HOST_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
# inet_aton takes these for IPv4 addresses: 0x7f.1, 127.1, 2130706433.
_NUMBERS = re.compile(r"(0[xX][0-9a-fA-F]*|[0-9]+)(\.(0[xX][0-9a-fA-F]*|[0-9]+))*\.?")


def host_problem(host: str) -> tuple[str, str] | None:
    """Why a host cannot be bound, advertised and put into a URL: (what, what to do)."""
    if not host:
        return "the host is empty", "give the address that peers reach"
    address = _address(host)
    if host in _WILDCARDS or (address is not None and _unmapped(address).is_unspecified):
        return (
            f"{shown(host)} is a wildcard, which no peer can connect to",
            "give the address that peers reach",
        )
    if "%" in host:
        return f"{shown(host)} has a zone, which no URL can hold", "give a global address"
    if host.startswith("[") or "://" in host:
        return f"{shown(host)} is not a bare host", "give it without brackets and scheme"
    if address is not None:
        return None
    if _NUMBERS.fullmatch(host):
        what = f"{shown(host)} is neither an IP address nor a host name"
        return what, "give a host name, or an address in full"
    if not _HOST_NAME.fullmatch(host):
        return f"{shown(host)} is not a host name", "give a bare host name or IP address"
    return None


def is_loopback(host: str) -> bool:
    """Whether only processes of the same machine can reach the host."""
    address = _address(host)
    if address is not None:
        return _unmapped(address).is_loopback
    return host.rstrip(".").lower() == "localhost"


def is_ip(host: str) -> bool:
    """Whether the host is an IP address rather than a name."""
    return _address(host) is not None


def is_ipv6(host: str) -> bool:
    """Whether the host is an IPv6 address and needs brackets in URLs."""
    return isinstance(_address(host), ipaddress.IPv6Address)


def canonical(host: str) -> str:
    """One spelling for every spelling of the same host, for comparing."""
    address = _address(host)
    return str(address) if address is not None else host.rstrip(".").lower()


def url_host(host: str) -> str:
    """The host as URLs hold it: an IPv6 address in brackets."""
    return f"[{host}]" if is_ipv6(host) else host


def host_port(endpoint: EndpointAssignment) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"{url_host(endpoint.host)}:{endpoint.port}"


def http_url(endpoint: EndpointAssignment) -> str:
    """``http://host:port``, an IPv6 host in brackets."""
    return f"http://{host_port(endpoint)}"


def _unmapped(address: _Address) -> _Address:
    """An IPv4 address inside an IPv6 one counts as what it is."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=4096)
def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
