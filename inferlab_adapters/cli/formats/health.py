"""Planned readiness as a check that a container runs on itself, with nothing but Python."""

from __future__ import annotations

import json
from collections.abc import Sequence

from inferlab_adapters.cli.formats.blocks import Block
from inferlab_adapters.control.types import Json

# Proxies of the container's environment are not for its own endpoint.
_ANSWERS = """\
import sys, urllib.request
get = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
get(sys.argv[1], timeout=5).close()
"""

# A target counts once the registry says of it all that is planned.
_LISTS = f"""\
{_ANSWERS}import json
with get(sys.argv[2], timeout=5) as answer:
    listed = json.load(answer)[sys.argv[3]]
def lists(target):
    return any(all(str(item.get(key)) == target[key] for key in target) for item in listed)
missing = [target for target in json.loads(sys.argv[4]) if not lists(target)]
sys.exit(f"not in the registry: {{missing}}" if missing else 0)
"""


def check(block: Block, peers: Sequence[Block]) -> list[str] | None:
    """The argv of a check that succeeds once ``block`` is ready; ``None``: it is while it runs.

    ``peers`` are all processes of the deployment, some of which a router must have registered.
    """
    probe = block.readiness
    if probe["kind"] == "http":
        return ["python3", "-c", _ANSWERS, block.url + probe["path"]]
    if probe["kind"] == "http_target_registry":
        urls = [block.url + probe[name] for name in ("readiness_path", "registry_path")]
        targets = [_target(probe, peer) for peer in peers if _is_target(peer)]
        return ["python3", "-c", _LISTS, *urls, probe["targets_field"], json.dumps(targets)]
    return None


def _is_target(block: Block) -> bool:
    return block.kind in ("prefill", "decode") and block.allocation["rank"] == 0


def _target(probe: Json, block: Block) -> dict[str, str]:
    """What the registry must say of a process: field and value as Python writes it."""
    said = {
        probe["target_url_field"]: block.url.replace("http", probe["target_scheme"], 1),
        probe["target_role_field"]: probe[f"{block.kind}_role_value"],
        probe["target_healthy_field"]: "True",
    }
    if block.kind == "prefill":
        port = block.allocation["ports"][probe["prefill_bootstrap_port"]]
        said[probe["target_bootstrap_port_field"]] = str(port["port"])
    return said
