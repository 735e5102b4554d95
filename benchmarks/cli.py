"""How long ``oe`` takes to start, against Python with click run in the same call.

Run it with the project's own Python: ``.venv/bin/python benchmarks/cli.py``. It prints one JSON
object: medians of interleaved runs in seconds, the difference, and the ratio.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
ROOT = Path(__file__).resolve().parent.parent
DEPLOYMENT = str(ROOT / "examples" / "deployments" / "vllm-prefill-decode.yaml")

OE = [sys.executable, "-m", "inferlab_adapters.cli"]
COMMANDS = {
    "click": [sys.executable, "-c", "import click"],
    "help": [*OE, "--help"],
    "plan": [*OE, "plan", DEPLOYMENT],
    "render": [*OE, "render", DEPLOYMENT],
    "explain": [*OE, "explain", DEPLOYMENT],
}


def seconds(command: list[str]) -> float:
    """How long a whole process takes."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(RUNS):
        for name, command in COMMANDS.items():
            taken[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    base = medians.pop("click")
    report = {
        "click_s": round(base, 3),
        **{
            name: {
                "s": round(value, 3),
                "more_than_click_s": round(value - base, 3),
                "ratio": round(value / base, 2),
            }
            for name, value in medians.items()
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
