"""What a smoke test sends: to the eval client, for a prefix cache reset, for a profile window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from inferlab_adapters.addresses import url_host
from inferlab_adapters.control import eval_client, openai_http
from inferlab_adapters.control.prepare import Prepared
from inferlab_adapters.control.smoke_report import Asked
from inferlab_adapters.control.types import Json
from inferlab_adapters.protocol._v6_clients import EvalClientRequest

ANSWER_SECONDS = 120
"""How long one answer may take; the eval client's four have as much each."""

_CONTROL_SECONDS = 120.0
"""How long starting and stopping a profile may take; a stop writes the profile."""


def url(host: str, port: int, path: str) -> str:
    return f"http://{url_host(host)}:{port}{path}"


def eval_request(prepared: Prepared, asked: Asked) -> EvalClientRequest:
    """What the eval client is to ask a deployment."""
    host, port = prepared.endpoint
    endpoint, model = prepared.plan["endpoint"], prepared.request["input"]["model"]
    locators = (one["model_locator"] for one in prepared.allocations if "model_locator" in one)
    return EvalClientRequest.model_validate(
        {
            "protocol_version": prepared.request["protocol_version"],
            "workspace_root": str(prepared.wanted.workspace),
            "workspace_source_exclusions": [],
            "endpoint": {
                "protocol": endpoint["protocol"],
                "host": host,
                "port": port,
                "completions_path": endpoint["completions_path"],
                "chat_completions_path": endpoint["chat_completions_path"],
            },
            "model": {"locator": next(locators), "served_name": model["served_name"]},
            "definition": {
                "kind": "openai_smoke",
                "prompt": asked.prompt,
                "max_tokens": asked.max_tokens,
                "timeout_seconds": ANSWER_SECONDS,
            },
            "case_budget_seconds": float(ANSWER_SECONDS * len(eval_client.PROBES)),
            "artifact_dir": str(asked.artifacts),
        }
    )


def call(host: str, port: int, path: str, body: bytes = b"", *, seconds: float) -> Json:
    """POST and tell what came: ``url``, ``ok``, ``status`` and ``seconds`` (both ``None`` without
    an answer), the ``answer`` where it is JSON, and what was ``said``, in one line.

    ``ok`` is a status of 2xx, unless the answer says ``"success": false``.
    """
    where = url(host, port, path)
    try:
        reply = openai_http.post(host, port, path, body, seconds=seconds)
    except openai_http.NoReply as error:
        return {
            "url": where,
            "ok": False,
            "status": None,
            "seconds": None,
            "answer": None,
            "said": error.why,
        }
    try:
        answer = json.loads(reply.body)
    except ValueError:
        answer = None
    return {
        "url": where,
        "ok": reply.ok and not (isinstance(answer, dict) and answer.get("success") is False),
        "status": reply.status,
        "seconds": round(reply.seconds, 3),
        "answer": answer,
        "said": f"POST {path} answered {reply}",
    }


def capture_targets(plan: Json, allocations: list[Json]) -> dict[str, tuple[str, int, Json]]:
    """Host, port and control paths of every replica that the plan says can be profiled."""
    first = {
        (one["role"], one["replica"]): one["endpoint"] for one in allocations if one["rank"] == 0
    }
    found = {}
    for replica in plan["replicas"]:
        if target := replica.get("capture_target"):
            endpoint = first[replica["role_id"], replica["replica_index"]]
            found[replica["id"]] = endpoint["host"], endpoint["port"], target["control"]
    return found


def completion(model: Json, prompt: str, max_tokens: int) -> bytes:
    """The body of one completion request."""
    body = {"model": model["served_name"], "prompt": prompt, "max_tokens": max_tokens}
    return json.dumps(body).encode()


def profile(targets: Mapping[str, tuple[str, int, Json]], work: Callable[[], Json]) -> Json:
    """Start a profile on every target, do the work, stop those that were started."""
    found: Json = {"start": {}, "work": None, "stop": {}}
    for name, (host, port, control) in targets.items():
        found["start"][name] = call(host, port, control["start_path"], seconds=_CONTROL_SECONDS)
    found["work"] = work()
    for name, (host, port, control) in targets.items():
        if found["start"][name]["ok"]:
            found["stop"][name] = call(host, port, control["stop_path"], seconds=_CONTROL_SECONDS)
    return found


def calls(found: Json) -> Iterator[tuple[str, Json]]:
    """Every call of a profile window with words for it."""
    for name, one in found["start"].items():
        yield f"start of the profile of {name}", one
    yield "completion while profiling", found["work"]
    for name, one in found["stop"].items():
        yield f"stop of the profile of {name}", one
