"""How fast the vLLM adapter is, as ratios against a baseline run in the same call.

Run it with the project's own Python: ``.venv/bin/python benchmarks/adapter.py``. It prints one
JSON object; nothing else in the repository depends on its figures.

``cold_plan``: a whole process that plans, against one that only builds a pydantic model, median
of 15 interleaved runs. ``ndjson``: plans a second through one ``--ndjson`` process, its start
taken off. ``render``: seconds to render deployments of 64 to 4,096 processes in one process, and
how much longer four times the processes take.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from oe_adapter_vllm import ADAPTER  # noqa: E402

from inferlab_adapters.adapter import Context  # noqa: E402
from inferlab_adapters.wire import respond  # noqa: E402
from tests.support import control_plane as cp  # noqa: E402

ADAPTER_COMMAND = [sys.executable, str(Path(sys.executable).parent / "oe-adapter-vllm")]
BASELINE_COMMAND = [
    sys.executable,
    "-c",
    "from pydantic import create_model; create_model('M', x=(int, ...))",
]
CONTEXT = Context(framework_version="0.32.0")


def run(command: list[str], stdin: bytes) -> float:
    """Seconds for one whole process."""
    start = time.perf_counter()
    subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True, env=environment())
    return time.perf_counter() - start


def environment() -> dict[str, str]:
    """The same for both programs; nothing that would favour one of them."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYDANTIC")}


def cold_plan(request: bytes, runs: int = 15) -> dict[str, Any]:
    run(BASELINE_COMMAND, b"")
    run(ADAPTER_COMMAND, request)
    baseline, adapter = [], []
    for _ in range(runs):
        baseline.append(run(BASELINE_COMMAND, b""))
        adapter.append(run(ADAPTER_COMMAND, request))
    base, ours = statistics.median(baseline), statistics.median(adapter)
    return {
        "baseline_seconds": round(base, 4),
        "seconds": round(ours, 4),
        "ratio": round(ours / base, 3),
        "goal": 1.15,
    }


def ndjson(request: bytes, plans: int = 4000) -> dict[str, Any]:
    one = min(run([*ADAPTER_COMMAND, "--ndjson"], request) for _ in range(3))
    many = run([*ADAPTER_COMMAND, "--ndjson"], request * (plans + 1))
    return {"plans_per_second": round(plans / (many - one)), "goal": 1000}


def render_requests(processes: int) -> bytes:
    """Prefill and decode, half each, two devices a process, one machine for every four."""
    half = processes // 2
    request = cp.plan_request(
        cp.role("prefill", count=half, outer={"tensor": 2}, settings={"max_num_seqs": 64}),
        cp.role("decode", count=half, outer={"tensor": 2}, settings={"max_num_seqs": 64}),
        kv_transfer="nixl",
    )
    plan = cp.output(cp.ask(ADAPTER, request))
    place = cp.Placement(hosts=lambda index: f"10.0.{index // 250}.{index % 250 + 1}")
    return json.dumps(cp.render_request(request, plan, cp.allocate(plan, place))).encode()


def render_seconds(raw: bytes) -> float:
    start = time.perf_counter()
    answer = respond(raw, ADAPTER, CONTEXT)
    seconds = time.perf_counter() - start
    assert answer.startswith(b'{"status":"ok"'), answer[:200]
    return seconds


def render(rounds: int = 7) -> dict[str, Any]:
    """The best of several interleaved rounds, without garbage collection, as the program runs."""
    raw = {count: render_requests(count) for count in (64, 256, 1024, 4096)}
    gc.disable()
    timed = [
        {count: render_seconds(request) for count, request in raw.items()} for _ in range(rounds)
    ]
    gc.enable()
    seconds = {count: min(row[count] for row in timed) for count in raw}
    return {
        "seconds": {str(count): round(value, 4) for count, value in seconds.items()},
        "ratio_4096_to_1024": round(seconds[4096] / seconds[1024], 2),
        "goal": 4.6,
    }


def main() -> None:
    request = json.dumps(
        cp.plan_request(cp.role(outer={"tensor": 8}, settings={"max_num_seqs": 256}))
    ).encode()
    line = request + b"\n"
    result = {"cold_plan": cold_plan(request), "ndjson": ndjson(line), "render": render()}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
