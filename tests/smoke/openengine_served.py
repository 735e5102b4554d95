"""``oe up`` of a deployment that speaks OpenEngine, and the checks on it.

``python -m tests.smoke.openengine_served FOLDER SHAPE``, in namespaces of its own: starts the
deployment, makes every check of the shape, ends what is left, and writes ``FOLDER/results.json``:
the checks' names to "" or to what went wrong.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.smoke.made import made
from tests.smoke.openengine_served_pair_checks import PAIR
from tests.smoke.openengine_served_single_checks import SINGLE
from tests.smoke.openengine_served_support import Checks, Deployment, oe, speaking, state
from tests.support.engines import ENGINES, ROOT, TINY_MODEL

DEPLOYMENTS = ROOT / "examples" / "deployments"
SHAPES: dict[str, tuple[str, Checks]] = {
    "single": ("vllm-cpu-single", SINGLE),
    "pair": ("vllm-cpu-prefill-decode", PAIR),
}
READY_SECONDS = 420
CHECK_SECONDS = 300


def main() -> int:
    folder, (name, checks) = Path(sys.argv[1]), SHAPES[sys.argv[2]]
    options = {
        "--engine-env": ENGINES / "vllm",
        "--model": TINY_MODEL,
        "--timeout": READY_SECONDS,
    }
    given = [f"{key}={value}" for key, value in options.items()]
    up = oe("up", DEPLOYMENTS / f"{name}.yaml", *given, "--detach")
    if up.returncode:
        sys.stderr.write(up.stdout + up.stderr)
        return up.returncode
    try:
        served = Deployment(name=name, addresses=speaking(state(name)), folder=folder)
        told = made(checks, served, CHECK_SECONDS)
        (folder / "results.json").write_text(json.dumps(told), encoding="utf-8")
    finally:
        (folder / "engines.log").write_text(oe("logs", name).stdout, encoding="utf-8")
        down = oe("down", name)
    if down.returncode:
        sys.stderr.write(down.stdout + down.stderr)
    return down.returncode


if __name__ == "__main__":
    sys.exit(main())
