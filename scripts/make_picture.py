"""Make docs/oe-explain.svg from what ``oe explain`` really prints on a terminal.

Run it with the project's own Python: ``.venv/bin/python scripts/make_picture.py``.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "oe-explain.svg"
COLUMNS = 132
EXAMPLE = "examples/deployments/vllm-prefill-decode.yaml"
ARGUMENTS = ["explain", EXAMPLE, "--process", "decode", "--engine-version", "0.33.0"]
SHOWN = f"$ oe explain {EXAMPLE} --process decode"


def terminal_output(arguments: list[str]) -> str:
    """What a command prints on a terminal."""
    home = ROOT / "docs"
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env |= {"XDG_CACHE_HOME": "/var/cache", "HOME": str(home)}
    master, terminal = pty.openpty()
    program = [sys.executable, "-m", "inferlab_adapters.cli", *arguments]
    shown = b""
    with subprocess.Popen(program, stdout=terminal, env=env, cwd=ROOT) as process:
        os.close(terminal)
        # Linux answers EIO once the other side is closed.
        with suppress(OSError):
            while piece := os.read(master, 4096):
                shown += piece
    os.close(master)
    if process.returncode:
        raise SystemExit(f"oe ended with {process.returncode}")
    return shown.decode().replace("\r\n", "\n")


def main() -> None:
    from rich._export_format import CONSOLE_SVG_FORMAT

    template = re.sub(r"\s*@font-face \{\{.*?\n    \}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    console.print(Text(SHOWN, style="bold green"))
    # The command's own table; the environment below it says less.
    table = terminal_output(ARGUMENTS).split("decode: env")[0].rstrip()
    console.print(Text.from_ansi(table), soft_wrap=True)
    text = console.export_svg(
        title="oe", theme=SVG_EXPORT_THEME, code_format=template, unique_id="oe-explain"
    )
    PICTURE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
