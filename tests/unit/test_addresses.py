"""Hosts and ports."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferlab_adapters.addresses import (
    canonical,
    host_port,
    host_problem,
    http_url,
    is_ip,
    is_ipv6,
    is_loopback,
)
from inferlab_adapters.protocol import EndpointAssignment

LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,5}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABEL, min_size=1, max_size=3).map(".".join)
ADDRESSES = st.ip_addresses().map(str).filter(lambda host: host_problem(host) is None)


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1",
        "fd00::1",
        "::1",
        "FD00:0::1",
        "gpu-1",
        "gpu_1.cluster.local",
        "host.",
        "1a",
        "0x.example",
        "deadbeef",
    ],
)
def test_hosts_that_can_be_bound_and_reached(host: str) -> None:
    assert host_problem(host) is None


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("", "the host is empty"),
        ("0.0.0.0", "is a wildcard"),
        ("::", "is a wildcard"),
        ("0:0::0", "is a wildcard"),
        ("*", "is a wildcard"),
        ("::ffff:0.0.0.0", "is a wildcard"),
        ("fe80::1%eth0", "has a zone"),
        ("[fd00::1]", "is not a bare host"),
        ("http://gpu-1", "is not a bare host"),
        ("1", "is neither an IP address nor a host name"),
        ("127.1", "is neither an IP address nor a host name"),
        ("1.2.3.4.5", "is neither an IP address nor a host name"),
        ("256.0.0.1", "is neither an IP address nor a host name"),
        ("0x7f000001", "is neither an IP address nor a host name"),
        ("0x7f.1", "is neither an IP address nor a host name"),
        ("10.0.0.1.", "is neither an IP address nor a host name"),
        ("-x", "is not a host name"),
        ("x-", "is not a host name"),
        ("a b", "is not a host name"),
        ("a..b", "is not a host name"),
        ("a/b", "is not a host name"),
        ("a:80", "is not a host name"),
        ("ä.de", "is not a host name"),
        ("gpu-1\n", "is not a host name"),
        ("10.0.0.1\n", "is not a host name"),
        ("a\0", "is not a host name"),
    ],
)
def test_hosts_that_no_peer_can_reach_are_refused(host: str, why: str) -> None:
    found = host_problem(host)
    assert found is not None
    assert why in found[0]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0:0::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LocalHost.", True),
        ("10.0.0.1", False),
        ("fd00::1", False),
        ("localhost.example", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("GPU-1.", "gpu-1", True),
        ("fd00:0::1", "FD00::1", True),
        ("fd00::1", "fd00::2", False),
        ("gpu-1", "gpu-2", False),
    ],
)
def test_spellings_of_the_same_host(one: str, other: str, same: bool) -> None:
    assert (canonical(one) == canonical(other)) is same


@given(NAMES | ADDRESSES, st.integers(1, 65535))
def test_host_and_port_can_be_read_back(host: str, port: int) -> None:
    endpoint = EndpointAssignment(host=host, port=port)
    assert host_problem(host) is None
    url = urlsplit(http_url(endpoint))
    assert (url.scheme, url.hostname, url.port) == ("http", host.lower(), port)
    assert host_port(endpoint) == url.netloc
    assert ("[" in url.netloc) is is_ipv6(host)


@given(st.ip_addresses())
def test_addresses_are_told_from_names(address: ipaddress.IPv4Address) -> None:
    assert is_ip(str(address))
    assert is_ipv6(str(address)) is isinstance(address, ipaddress.IPv6Address)
    assert not is_ip(f"x{address.version}")
