"""vLLM's own parsers and checks, asked in vLLM's environment; see ``engine_side.py`` of the core.

Nothing but the standard library, vLLM and that module is imported.
"""

from __future__ import annotations

import os

from inferlab_adapters.engine_side import Parsed, Parser, parser_of_console_script

# No GPU is needed to parse, and a plug-in may add options that the release does not have.
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ["VLLM_PLUGINS"] = ""


def parse_server(argv: list[str], model: str | None) -> Parsed:
    """What ``vllm serve`` does with its command line before it loads anything."""
    from vllm.entrypoints.cli.serve import ServeSubcommand

    parser, _ = parser_of_console_script("vllm", ["serve", "a-model"])
    args = parser.parse_args(argv[1:])
    args.model = getattr(args, "model_tag", None) or args.model
    ServeSubcommand().validate(args)
    return Parsed(args)


def parse_router(argv: list[str], model: str | None) -> Parsed:
    """What vllm-router reads."""
    from vllm_router.launch_router import parse_router_args

    return Parsed(parse_router_args(argv[1:]))


def parse_wrapped(argv: list[str], model: str | None) -> Parsed:
    """The server that the program beside it starts."""
    return parse_server(argv[argv.index("--") + 1 :], model)


PARSERS: dict[str, Parser] = {
    "vllm": parse_server,
    "vllm-router": parse_router,
    "inferlab_adapters.openengine": parse_wrapped,
}
"""By the program that a command starts."""
