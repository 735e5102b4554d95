"""``oe completion``: the script with which a shell completes ``oe``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Examples:
      oe completion bash > ~/.local/share/bash-completion/completions/oe
      oe completion zsh > "${fpath[1]}/_oe"
      oe completion fish > ~/.config/fish/completions/oe.fish
    """
    from inferlab_adapters.cli.main import command as oe

    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(completer(oe, {}, "oe", "_OE_COMPLETE").source())
