"""Readiness as planned: what a process still waits for."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from inferlab_adapters.addresses import canonical, url_host
from inferlab_adapters.control.channel import Address
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import shown

ANSWER_SECONDS = 5.0
"""How long one probe waits for an answer."""

_MAX_BYTES = 16 * 1024 * 1024


class Probe(Protocol):
    """One process's readiness."""

    def waiting(self) -> str | None:
        """What is still missing, as the rest of ``waiting for``; ``None`` when it is ready."""


def of_processes(plan: Json, allocations: list[Json]) -> dict[str, Probe]:
    """The probe of every process, by its name: its replica's, for rank 0 or for the workers."""
    replicas = {(one["role_id"], one["replica_index"]): one for one in plan["replicas"]}
    probes: dict[str, Probe] = {}
    for allocation in allocations:
        replica = replicas[allocation["role"], allocation["replica"]]
        planned = replica["worker_readiness" if allocation["rank"] else "primary_readiness"]
        probes[allocation["process"]] = _probe(planned, allocation, plan, allocations)
    return probes


def _probe(planned: Json, allocation: Json, plan: Json, allocations: list[Json]) -> Probe:
    if planned["kind"] == "process_alive":
        return Alive()
    address = allocation["endpoint"]["host"], allocation["endpoint"]["port"]
    if planned["kind"] == "http":
        return Http(address=address, path=planned["path"])
    if planned["kind"] == "http_target_registry":
        targets = tuple(_targets(planned, plan, allocations))
        return TargetRegistry(address=address, planned=planned, targets=targets)
    raise AssertionError(f"the plan has a readiness of the unknown kind {planned['kind']}")


class Alive:
    """Ready as soon as it runs, which its supervisor watches anyway."""

    def waiting(self) -> str | None:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Http:
    """Ready when a GET succeeds."""

    address: Address
    path: str

    def waiting(self) -> str | None:
        try:
            _get(self.address, self.path)
        except _NotYet as reason:
            return str(reason)
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingTarget:
    """A server that a router must know. ``bootstrap_port`` is ``None`` where it needs none."""

    process: str
    url: tuple[str, str, int]
    role: str
    bootstrap_port: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetRegistry:
    """Ready when a GET succeeds and the registry holds every target: role, health, bootstrap port.

    ``planned`` is an ``http_target_registry`` readiness of the wire protocol.
    """

    address: Address
    planned: Json
    targets: tuple[ServingTarget, ...]

    def waiting(self) -> str | None:
        try:
            _get(self.address, self.planned["readiness_path"])
            known = self._known()
        except _NotYet as reason:
            return str(reason)
        missing = [lack for target in self.targets if (lack := self._lack(target, known))]
        return "; ".join(missing) or None

    def _known(self) -> dict[tuple[str, str, int], Json]:
        path, field = self.planned["registry_path"], self.planned["targets_field"]
        try:
            document = json.loads(_get(self.address, path))
        except ValueError:
            raise _NotYet(f"JSON from {_url(self.address, path)}") from None
        listed = document.get(field) if isinstance(document, dict) else None
        if not isinstance(listed, list):
            raise _NotYet(f'a list "{field}" in {_url(self.address, path)}')
        records = [record for record in listed if isinstance(record, dict)]
        urls = (
            (_place(record.get(self.planned["target_url_field"])), record) for record in records
        )
        return {url: record for url, record in urls if url is not None}

    def _lack(self, target: ServingTarget, known: dict[tuple[str, str, int], Json]) -> str | None:
        planned, record = self.planned, known.get(target.url)
        if record is None:
            return f"{target.process} to be registered"
        role = record.get(planned["target_role_field"])
        if role != target.role:
            return f"{target.process} to be registered as {target.role}, it is {shown(role)}"
        if record.get(planned["target_healthy_field"]) is not True:
            return f"{target.process} to be healthy"
        bootstrap = record.get(planned["target_bootstrap_port_field"])
        if target.bootstrap_port is not None and bootstrap != target.bootstrap_port:
            wanted = f"bootstrap port {target.bootstrap_port}"
            return f"{target.process} to be registered with {wanted}, it has {shown(bootstrap)}"
        return None


def _targets(planned: Json, plan: Json, allocations: list[Json]) -> Iterable[ServingTarget]:
    kinds = {role["id"]: role["kind"] for role in plan["roles"]}
    for allocation in allocations:
        kind = kinds[allocation["role"]]
        if kind not in ("prefill", "decode") or allocation["rank"]:
            continue
        endpoint = allocation["endpoint"]
        bootstrap = None
        if kind == "prefill":
            bootstrap = allocation["ports"][planned["prefill_bootstrap_port"]]["port"]
        yield ServingTarget(
            process=allocation["process"],
            url=(planned["target_scheme"], canonical(endpoint["host"]), endpoint["port"]),
            role=planned[f"{kind}_role_value"],
            bootstrap_port=bootstrap,
        )


def _place(url: Any) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL, the host in one spelling."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.hostname is None or port is None:
        return None
    return parts.scheme, canonical(parts.hostname), port


class _NotYet(Exception):
    """What is still missing."""


def _get(address: Address, path: str) -> bytes:
    """The body of a successful answer; never through a proxy."""
    connection = http.client.HTTPConnection(*address, timeout=ANSWER_SECONDS)
    url = _url(address, path)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(_MAX_BYTES)
    except TimeoutError:
        raise _NotYet(f"{url}, which does not answer") from None
    except ConnectionRefusedError:
        raise _NotYet(f"{url}, where nobody listens") from None
    except (OSError, http.client.HTTPException) as error:
        raise _NotYet(f"{url}, which gives no answer ({error})") from None
    finally:
        connection.close()
    if not 200 <= response.status < 300:
        raise _NotYet(f"{url}, which answers {response.status}")
    return body


def _url(address: Address, path: str) -> str:
    host, port = address
    return f"http://{url_host(host)}:{port}{path}"
