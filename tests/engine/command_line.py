"""Run by an engine environment's Python: what the engine's own parsers and checks answer.

Reads a JSON array of argvs on standard input; writes a JSON array, in the same order, of
``{"error": …}`` for a command line that is refused, else ``{"values": …}``. The only argument is
a folder with a model, for checks that look into its configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
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
    args = parser.parse_args(argv[1:])
    args.model = getattr(args, "model_tag", None) or args.model
    ServeSubcommand().validate(args)
    return args


def parse_vllm_router(argv: list[str]) -> Any:
    from vllm_router.launch_router import parse_router_args

    return parse_router_args(argv[1:])


def parse_sglang(argv: list[str]) -> Any:
    """What the server does with its command line before it loads anything.

    The device is named, since the machine that asks need not have it.
    """
    from sglang.srt.server_args import prepare_server_args

    at = argv.index("--model-path") + 1
    command = [*argv[3:at], sys.argv[1], *argv[at + 1 :], "--device", "cuda"]
    args = prepare_server_args(command)
    args.resolve_once()
    args.check_server_args()
    fields = type(args).__struct_fields__
    return argparse.Namespace(**{name: getattr(args, name) for name in fields})


def parse_sglang_router(argv: list[str]) -> Any:
    from sglang_router.launch_router import parse_router_args

    return parse_router_args(argv[3:])


PARSERS: dict[str, Callable[[list[str]], Any]] = {
    "vllm": parse_vllm,
    "vllm-router": parse_vllm_router,
    "sglang.launch_server": parse_sglang,
    "sglang_router.launch_router": parse_sglang_router,
}


def answer(argv: list[str]) -> dict[str, Any]:
    program = argv[2] if argv[:2] == ["python3", "-m"] else argv[0]
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            args = PARSERS[program](argv)
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
