"""Why the command of sglang-router or vllm-router is as it is; see ``pd_router.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from inferlab_adapters import pd_router
from inferlab_adapters.origins import Cause, Servers

_METRICS = "serves the router's metrics here, which it would open on every interface"

OPTIONS: Final[Mapping[str, Cause]] = {
    "--host": Cause("allocation", "endpoint/host", "takes requests here"),
    "--port": Cause("allocation", "endpoint/port", "takes requests here"),
    "--policy": Cause("request", "routing/policy", "which server a request goes to"),
    "--worker-startup-timeout-secs": Cause(
        "adapter", "", "loading a large model takes longer than the router waits by itself"
    ),
    "--worker-startup-check-interval": Cause(
        "adapter", "", "by itself the router looks for its servers only every 30 s"
    ),
    "--prometheus-host": Cause("allocation", f"ports/{pd_router.PROMETHEUS}/host", _METRICS),
    "--prometheus-port": Cause("allocation", f"ports/{pd_router.PROMETHEUS}/port", _METRICS),
}

SERVERS: Final[Mapping[str, Servers]] = {"--prefill": "prefill", "--decode": "decode"}

ENVIRONMENT: Final[Mapping[str, Cause]] = {
    name: Cause("adapter", "", "the router would reach its own servers through a proxy")
    for name in pd_router.PROXIES
}
