"""The command ``oe`` and its commands, each loaded when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from inferlab_adapters.errors import did_you_mean

COMMANDS: dict[str, str] = {
    "plan": "Show what a deployment becomes: roles, replicas, devices, ports, links.",
    "render": "Place a deployment on machines and print the command of every process.",
    "explain": "Say where every token, variable and line of a file comes from, and why.",
    "check": "Find everything that plan and render would refuse.",
    "diff": "Compare two deployments, two engine versions of one, or two engines for one.",
    "up": "Start a deployment, wait until it is ready, and hold it.",
    "ps": "List the deployments that are up, that failed, and that a crash left.",
    "logs": "Show what the processes of a deployment print.",
    "down": "Stop a deployment; nothing of it survives.",
    "smoke": "Start a deployment, send it requests, stop it, and report.",
    "conformance": "Ask an OpenEngine server everything that the contract demands, rule by rule.",
    "adapters": "List the installed adapters.",
    "catalogue": "List and search the recorded options of the engines.",
    "schema": "Print the JSON Schema of the wire protocol or of deployment files.",
    "completion": "Print the completion script of a shell.",
}
"""Every command with its one line; the module is ``inferlab_adapters.cli.<name>``."""

_HELP = """Plan, render, check and run LLM servers on vLLM, SGLang and TensorRT-LLM.

FILE is a deployment file (YAML), or a wire request as JSON, YAML or TOML; "-" reads standard
input. A wire request does not name its engine: add --framework.

\b
Examples:
  oe plan deployment.yaml
  oe render deployment.yaml --format shell
  oe up deployment.yaml

\b
Exit codes:
  0  fine
  1  refused: nothing was started
  2  wrong command line
  3  something that was started failed
"""


class _LazyGroup(click.Group):
    """Commands that are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"inferlab_adapters.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            hint = did_you_mean(name, COMMANDS)
            ctx.fail(f"No such command {name!r}." + (f" {hint.capitalize()}" if hint else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    "oe",
    cls=_LazyGroup,
    help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="inferlab-adapters", prog_name="oe")
def command() -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run ``oe`` with these arguments; returns the exit code."""
    from inferlab_adapters.control.refusal import Failed, Refused

    try:
        done = command.main(list(arguments), prog_name="oe", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except Refused as refused:
        return _say(refused.lines(), 1)
    except Failed as failed:
        return _say([failed.message, *failed.details], 3)
    except BrokenPipeError:
        # Python flushes once more when it ends, and nobody listens any longer.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return done if isinstance(done, int) else 0


def _say(lines: Sequence[str], code: int) -> int:
    for line in lines:
        click.echo(f"oe: {line}", err=True)
    return code
