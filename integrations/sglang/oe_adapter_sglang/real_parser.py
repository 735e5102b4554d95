"""SGLang's own parsers and checks, asked in its environment; see ``engine_side.py`` of the core.

Nothing but the standard library, SGLang and that module is imported.
"""

from __future__ import annotations

import argparse
import os

from inferlab_adapters.engine_side import Parsed, Parser


def parse_server(argv: list[str], model: str | None) -> Parsed:
    """What the server does with its command line before it loads anything.

    A device is named where the command names none, since the machine that asks need not have it.
    The checks of all options together read the model's configuration; where there is no model to
    read, only the parser is asked.
    """
    from sglang.srt.server_args import prepare_server_args

    at = argv.index("--model-path") + 1
    folder = model or argv[at]
    command = [*argv[3:at], folder, *argv[at + 1 :]]
    if "--device" not in command:
        command += ["--device", "cuda"]
    args = prepare_server_args(command)
    note = ""
    if os.path.isdir(folder):
        args.resolve_once()
        args.check_server_args()
    else:
        note = f"{folder} is not here, so that options were not checked against the model"
    fields = type(args).__struct_fields__
    return Parsed(argparse.Namespace(**{name: getattr(args, name) for name in fields}), note)


def parse_router(argv: list[str], model: str | None) -> Parsed:
    """What sglang-router reads."""
    from sglang_router.launch_router import parse_router_args

    return Parsed(parse_router_args(argv[3:]))


PARSERS: dict[str, Parser] = {
    "sglang.launch_server": parse_server,
    "sglang_router.launch_router": parse_router,
}
"""By the module that a command starts."""
