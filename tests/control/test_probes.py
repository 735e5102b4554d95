"""Readiness as planned, against real HTTP servers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from inferlab_adapters.control import probes
from inferlab_adapters.control.types import Json
from tests.control.fake_engine import free_port

REGISTRY: Json = {
    "kind": "http_target_registry",
    "target_scheme": "http",
    "readiness_path": "/readiness",
    "registry_path": "/workers",
    "targets_field": "workers",
    "target_url_field": "url",
    "target_role_field": "worker_type",
    "target_healthy_field": "is_healthy",
    "target_bootstrap_port_field": "bootstrap_port",
    "prefill_role_value": "prefill",
    "decode_role_value": "decode",
    "prefill_bootstrap_port": "bootstrap",
}


@contextmanager
def server(answers: dict[str, Any]) -> Iterator[int]:
    """A server that answers a path with a status or a document; the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path, 404)
            status, body = (answer, b"") if isinstance(answer, int) else (200, answer)
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/v1/models")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *unused: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield http.server_address[1]
        http.shutdown()
        thread.join()


def deployment(port: int, readiness: Json, *, host: str = "10.0.0.1") -> tuple[Json, list[Json]]:
    """Two prefills of two ranks and two decodes on ``host``, and a router on ``port``."""
    alive = {"kind": "process_alive"}
    http = {"kind": "http", "path": "/v1/models"}
    plan: Json = {
        "roles": [{"id": "p", "kind": "prefill"}, {"id": "d", "kind": "decode"}],
        "replicas": [],
    }
    plan["roles"].append({"id": "router", "kind": "router"})
    allocations: list[Json] = []
    for role, count, ranks in (("p", 2, 2), ("d", 2, 1), ("router", 1, 1)):
        for replica in range(count):
            asked = readiness if role == "router" else http
            found = {"role_id": role, "replica_index": replica}
            plan["replicas"].append(
                {**found, "primary_readiness": asked, "worker_readiness": alive}
            )
            for rank in range(ranks):
                number = 8000 + len(allocations)
                endpoint = {"host": host, "port": number}
                if role == "router":
                    endpoint = {"host": "127.0.0.1", "port": port}
                ports = {"bootstrap": {"host": host, "port": 9000 + replica}} if role == "p" else {}
                allocations.append(
                    {
                        "process": f"{role}-{replica}-{rank}",
                        "role": role,
                        "replica": replica,
                        "rank": rank,
                        "endpoint": endpoint,
                        "ports": ports,
                    }
                )
    return plan, allocations


def workers(host: str = "10.0.0.1") -> list[Json]:
    """What a router says that knows all of ``deployment``."""

    def one(port: int, role: str, bootstrap: int | None) -> Json:
        record: Json = {"url": f"http://{host}:{port}", "worker_type": role, "is_healthy": True}
        return {**record, "bootstrap_port": bootstrap}

    prefills = [one(8000, "prefill", 9000), one(8002, "prefill", 9001)]
    return [*prefills, one(8004, "decode", None), one(8005, "decode", None)]


def test_every_process_has_the_probe_of_its_rank() -> None:
    found = probes.of_processes(*deployment(1, REGISTRY))
    kinds = {name: type(probe).__name__ for name, probe in found.items()}
    assert kinds == {
        "p-0-0": "Http",
        "p-0-1": "Alive",
        "p-1-0": "Http",
        "p-1-1": "Alive",
        "d-0-0": "Http",
        "d-1-0": "Http",
        "router-0-0": "TargetRegistry",
    }
    assert found["p-0-1"].waiting() is None


@pytest.mark.parametrize(
    ("answer", "waiting"),
    [
        (200, None),
        (204, None),
        (503, "which answers 503"),
        (404, "which answers 404"),
        (302, "which answers 302"),
    ],
)
def test_http_is_ready_when_a_get_succeeds(answer: int, waiting: str | None) -> None:
    with server({"/ready": answer}) as port:
        said = probes.Http(address=("127.0.0.1", port), path="/ready").waiting()
    assert said == (waiting and f"http://127.0.0.1:{port}/ready, {waiting}")


def test_http_where_nobody_listens() -> None:
    port = free_port()
    said = probes.Http(address=("127.0.0.1", port), path="/ready").waiting()
    assert said == f"http://127.0.0.1:{port}/ready, where nobody listens"
    said = probes.Http(address=("::1", port), path="/ready").waiting()
    assert said is not None
    assert said.startswith(f"http://[::1]:{port}/ready, ")


def test_http_takes_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with server({"/ready": 200}) as port:
        assert probes.Http(address=("127.0.0.1", port), path="/ready").waiting() is None


def test_a_registry_with_every_target_is_ready() -> None:
    answers = {"/readiness": 200, "/workers": {"workers": [*workers()[::-1], {"url": None}, 3]}}
    with server(answers) as port:
        router = probes.of_processes(*deployment(port, REGISTRY))["router-0-0"]
        assert router.waiting() is None
        answers["/readiness"] = 503
        assert router.waiting() == f"http://127.0.0.1:{port}/readiness, which answers 503"


def test_a_registry_spells_addresses_as_it_likes() -> None:
    listed = workers("[FD00:0::0:1]")
    with server({"/readiness": 200, "/workers": {"workers": listed}}) as port:
        found = probes.of_processes(*deployment(port, REGISTRY, host="fd00::1"))
        assert found["router-0-0"].waiting() is None


CHANGES: list[tuple[Callable[[list[Json]], Any], str]] = [
    (lambda known: known.pop(0), "p-0-0 to be registered"),
    (lambda known: known[3].update(is_healthy=False), "d-1-0 to be healthy"),
    (lambda known: known[3].update(is_healthy="yes"), "d-1-0 to be healthy"),
    (
        lambda known: known[2].update(worker_type="prefill"),
        'd-0-0 to be registered as decode, it is "prefill"',
    ),
    (
        lambda known: known[1].update(bootstrap_port=9000),
        "p-1-0 to be registered with bootstrap port 9001, it has 9000",
    ),
    (lambda known: known[0].pop("bootstrap_port"), "p-0-0 to be registered with bootstrap port"),
    (lambda known: known[0].update(url="grpc://10.0.0.1:8000"), "p-0-0 to be registered"),
    (lambda known: known[0].update(url="http://10.0.0.1:8001"), "p-0-0 to be registered"),
    (lambda known: known[0].update(url="http://10.0.0.1:x"), "p-0-0 to be registered"),
    (lambda known: known.clear(), "p-0-0 to be registered; p-1-0 to be registered; d-0-0 to be"),
]


@pytest.mark.parametrize(("change", "waiting"), CHANGES, ids=[text for _, text in CHANGES])
def test_a_registry_that_lacks_something(change: Callable[[list[Json]], Any], waiting: str) -> None:
    known = workers()
    change(known)
    with server({"/readiness": 200, "/workers": {"workers": known}}) as port:
        said = probes.of_processes(*deployment(port, REGISTRY))["router-0-0"].waiting()
    assert said is not None
    assert said.startswith(waiting)


@pytest.mark.parametrize(
    ("document", "waiting"),
    [
        (b"<html>", "JSON from "),
        ([], 'a list "workers" in '),
        ({"workers": {}}, 'a list "workers" in '),
        (500, "http://127.0.0.1:"),
    ],
)
def test_a_registry_that_is_none(document: Any, waiting: str) -> None:
    with server({"/readiness": 200, "/workers": document}) as port:
        said = probes.of_processes(*deployment(port, REGISTRY))["router-0-0"].waiting()
    assert said is not None
    assert said.startswith(waiting)
    assert f"127.0.0.1:{port}/workers" in said
