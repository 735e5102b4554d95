"""``oe plan``: the topology that a deployment becomes."""

from __future__ import annotations

from pathlib import Path

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json, print_table
from inferlab_adapters.control.types import Json

SHORT = {
    ("outer", "tensor_parallel_size"): "tp",
    ("outer", "pipeline_parallel_size"): "pp",
    ("attention", "tensor_parallel_size"): "attention tp",
    ("attention", "data_parallel_size"): "attention dp",
    ("attention", "context_parallel_size"): "cp",
    ("experts", "tensor_parallel_size"): "expert tp",
    ("experts", "data_parallel_size"): "expert dp",
    ("experts", "expert_parallel_size"): "ep",
    ("experts", "dense_tensor_parallel_size"): "dense tp",
}
"""What people call the nine sizes."""


@click.command("plan")
@common.file_argument
@common.framework_option
@common.engine_version_option
@common.engine_env_option
@common.json_option
def command(
    file: str,
    framework: str | None,
    engine_version: str | None,
    engine_env: Path | None,
    as_json: bool,
) -> int:
    """Show what a deployment becomes: roles, replicas, devices, ports, links.

    With --json the response of the adapter, as it is on the wire.

    \b
    Examples:
      oe plan deployment.yaml
      oe plan request.json --framework vllm --engine-version 0.32.0 --json
    """
    from inferlab_adapters.control.client import connect
    from inferlab_adapters.control.prepare import planned

    wanted = common.load_wanted(file, framework)
    client = connect(wanted.framework, engine_version=engine_version, engine_env=engine_env)
    if as_json:
        response = client.ask(wanted.request)
        print_json(response)
        return int(response["status"] != "ok")
    plan = planned(wanted, client)
    for text in client.notes:
        note(text)
    show(plan)
    return 0


def show(plan: Json) -> None:
    """Print a plan for people."""
    identity = plan["integration"]
    print_table(
        f"{identity['framework']} {identity['framework_version']}, planned by "
        f"{identity['adapter_id']} {identity['adapter_version']}",
        ("role", "kind", "replicas", "devices each", "sizes above 1", "settings"),
        [_role(plan, role) for role in plan["roles"]],
    )
    print_table(
        "replicas",
        ("replica", "role", "devices", "ports", "ports of rank 0", "ready when"),
        [_replica(replica) for replica in plan["replicas"]],
    )
    if plan["links"]:
        print_table(
            "links", ("link", "from", "to", "over"), [_link(link) for link in plan["links"]]
        )
    endpoint = plan["endpoint"]
    rows = [("routing", routing(plan["routing"]))]
    rows += [("completions", endpoint["completions_path"])]
    rows += [("chat", endpoint["chat_completions_path"])]
    reset = endpoint.get("prefix_cache_reset")
    if reset:
        rows.append(("prefix cache reset", f"{reset['method'].upper()} {reset['path']}"))
    rows += [("render input", declared["source_path"]) for declared in plan["render_inputs"]]
    print_table("endpoint", ("what", "how"), rows)


def sizes(parallelism: Json) -> str:
    """The sizes above 1 of an effective parallelism: ``tp 4, ep 8``."""
    named = (
        (name, parallelism.get(group, {}).get(size, 1)) for (group, size), name in SHORT.items()
    )
    return ", ".join(f"{name} {value}" for name, value in named if value > 1)


def routing(result: Json) -> str:
    """Who sends requests where."""
    if result["owner"] == "direct":
        return f"clients reach replica {result['replica']} of {result['role']}"
    if result["owner"] == "integration_native":
        return f"the engine's own router, role {result['role']}, {result['policy']}"
    return f"the control plane's router {result['implementation']}, {result['policy']}"


def readiness(probe: Json) -> str:
    """When a process counts as ready."""
    if probe["kind"] == "http":
        return f"GET {probe['path']}"
    if probe["kind"] == "process_alive":
        return "it runs"
    return f"GET {probe['readiness_path']}, all servers healthy in {probe['registry_path']}"


def _role(plan: Json, role: Json) -> tuple[str, ...]:
    devices = next(
        replica["device_count"] for replica in plan["replicas"] if replica["role_id"] == role["id"]
    )
    return (
        role["id"],
        role["kind"],
        str(role["effective_replica_count"]),
        str(devices),
        sizes(role["effective_parallelism"]) or "-",
        ", ".join(role["effective_settings"]) or "-",
    )


def _replica(replica: Json) -> tuple[str, ...]:
    return (
        replica["id"],
        replica["role_id"],
        str(replica["device_count"]),
        ", ".join(replica["ports"]) or "-",
        ", ".join(replica["primary_ports"]) or "-",
        readiness(replica["primary_readiness"]),
    )


def _link(link: Json) -> tuple[str, ...]:
    targets = link.get("targets") or [link["target"]]
    over = link.get("mechanism") or (f"port {link['port']}" if "port" in link else "HTTP")
    return link["kind"], link["source"], ", ".join(targets), over
