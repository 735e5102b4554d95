"""TensorRT-LLM's own click commands, asked in its environment; see ``engine_side.py`` of the core.

Never run against the engine, which cannot be installed without its GPUs' libraries; the reading by
click is tested with commands rebuilt from the recorded options. Nothing but the standard library,
TensorRT-LLM with its click, and that module is imported.
"""

from __future__ import annotations

import argparse
from typing import Any

from inferlab_adapters.engine_side import Parsed, Parser


def parse(argv: list[str], model: str | None) -> Parsed:
    """What ``trtllm-serve`` reads."""
    from tensorrt_llm.commands.serve import main

    # A launcher may stand before it.
    return Parsed(read_by_click(main, argv[argv.index("-m") + 2 :]))


def read_by_click(group: Any, tokens: list[str]) -> argparse.Namespace:
    """The values that a click group gives the subcommand which the tokens name.

    The first token is the subcommand, which a command of ours always spells out. Raises
    ``SystemExit`` with click's words on stderr, as the command itself would.
    """
    import sys

    import click

    try:
        with click.Context(group, info_name="trtllm-serve") as context:
            command = group.get_command(context, tokens[0])
            if command is None:
                raise click.UsageError(f"No such command {tokens[0]!r}.")
            with command.make_context(tokens[0], list(tokens[1:]), parent=context) as below:
                return argparse.Namespace(**below.params)
    except click.ClickException as error:
        print(error.format_message(), file=sys.stderr)
        raise SystemExit(error.exit_code) from None


PARSERS: dict[str, Parser] = {"tensorrt_llm.commands.serve": parse}
"""By the module that a command starts."""
