"""The orchestrator, ``trtllm-serve disaggregated``: its YAML and its command.

Source: tensorrt_llm/commands/serve.py and tensorrt_llm/llmapi/disagg_utils.py, 1.2.1 to 1.4.0rc.
"""

from __future__ import annotations

from typing import Any

from inferlab_adapters.adapter import Command
from inferlab_adapters.addresses import host_port
from inferlab_adapters.allocation import Deployment, Rank
from inferlab_adapters.deployment import POLICY, NativeRouter
from inferlab_adapters.launch_files import LaunchFile
from inferlab_adapters.values import SettingMap

NAME = "trtllm-disaggregated"
PROGRAM = ("python3", "-m", "tensorrt_llm.commands.serve")

# Both are 180 s by themselves: it ends when its workers are not up in time, and cuts long answers
# off.
SETTINGS: SettingMap = {"policy": POLICY, "server_start_timeout": 1800, "request_timeout": 3600}

ROUTERS = {
    NAME: NativeRouter(readiness={"kind": "http", "path": "/health"}, settings=SETTINGS),
}


def render(deployment: Deployment, rank: Rank) -> Command:
    """The router's command, with the servers in replica order in its file."""
    from inferlab_adapters import yaml_text

    plan, endpoint = deployment.plan, rank.endpoint
    config = {
        "hostname": endpoint.host,
        "port": endpoint.port,
        "context_servers": _servers(deployment, plan.role("prefill").id),
        "generation_servers": _servers(deployment, plan.role("decode").id),
    }
    file = LaunchFile("disaggregated.yaml", yaml_text.write(config))
    # The long names of the first option differ between versions.
    argv = [*PROGRAM, "disaggregated", "-c", file.path(rank.allocation.cache)]
    argv += ["-t", str(SETTINGS["server_start_timeout"])]
    argv += ["-r", str(SETTINGS["request_timeout"])]
    return Command(argv=argv, env={}, files=[file])


def _servers(deployment: Deployment, role_id: str) -> dict[str, Any]:
    """Exactly these keys: any other is handed down to the servers without a word."""
    replicas = deployment.of_role(role_id)
    return {
        "num_instances": len(replicas),
        "urls": [host_port(replica.primary.endpoint) for replica in replicas],
        "router": {"type": POLICY},
    }
