"""Run by an engine environment's Python: real answers of vLLM's and vllm-router's parsers.

Reads a JSON array of argvs on standard input; writes a JSON array, in the same order, of
``{"error": …}`` for a command line that is refused, else ``{"values": …}``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ["VLLM_PLUGINS"] = ""

from record_catalogue import parser_of_console_script, stdout_kept_clean


def parse_vllm(argv: list[str]) -> Any:
    """What ``vllm serve`` does with its command line before it loads anything."""
    from vllm.entrypoints.cli.serve import ServeSubcommand

    parser, _ = parser_of_console_script("vllm", ["serve", "a-model"])
    args = parser.parse_args(argv)
    args.model = getattr(args, "model_tag", None) or args.model
    ServeSubcommand().validate(args)
    return args


def parse_router(argv: list[str]) -> Any:
    from vllm_router.launch_router import parse_router_args

    return parse_router_args(argv)


def answer(argv: list[str]) -> dict[str, Any]:
    parse = {"vllm": parse_vllm, "vllm-router": parse_router}[argv[0]]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args = parse(argv[1:])
    except SystemExit:
        return {"error": said.getvalue().strip().splitlines()[-1]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"values": {name: plain(value) for name, value in vars(args).items()}}


def plain(value: Any) -> Any:
    """A value as JSON; what JSON cannot hold, as text."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def main() -> None:
    argvs = json.load(sys.stdin)
    with stdout_kept_clean():
        answers = [answer(argv) for argv in argvs]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
