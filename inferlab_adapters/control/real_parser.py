"""What an engine's own parsers say to command lines, asked in the engine's environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from inferlab_adapters import engine_side
from inferlab_adapters.adapter import Adapter
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import Fault, shown


def ask(
    adapter: Adapter, engine_env: Path, argvs: Sequence[Sequence[str]], model: Path | None = None
) -> list[Json]:
    """What the engine in a virtual environment answers to each argv; see ``engine_side``.

    ``model`` is a folder that takes the place of every model. One process of the engine answers
    all, since importing it takes longest. Raises :class:`Refused` where it cannot be asked.
    """
    spec = find_spec(adapter.real_parser) if adapter.real_parser else None
    if spec is None or spec.origin is None:
        what = f"the adapter of {adapter.framework} cannot ask the engine's own parser"
        raise Refused(Fault("", what))
    python = engine_env / "bin" / "python"
    if not python.exists():
        what = f"{engine_env} is no virtual environment: it has no bin/python"
        raise Refused(Fault("", what, "give the folder of the engine's environment"))
    command = [str(python), engine_side.__file__, spec.origin]
    if model is not None:
        command.append(str(model))
    done = subprocess.run(
        command, input=json.dumps([*map(list, argvs)]), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        what = f"the engine in {engine_env} could not be asked: {lines[-1] if lines else ''}"
        raise Refused(Fault("", what, f"its environment must hold {shown(adapter.distribution)}"))
    answers: list[Json] = json.loads(done.stdout)
    return answers
