"""``oe down``: stop a deployment, wherever it was started."""

from __future__ import annotations

import click

from inferlab_adapters.cli.progress import progress


@click.command("down")
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Every deployment that oe ps lists.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="For one whose oe crashed: how long processes may take to end when asked. [default: as "
    "given to oe up]",
)
@click.option(
    "--forget", is_flag=True, help="Forget it even where a machine of it cannot be reached."
)
def command(name: str | None, everything: bool, grace: float | None, forget: bool) -> int:
    """Stop a deployment; nothing of it survives.

    A living oe is asked to stop it and waited for. What an oe left that was killed is found by its
    mark in the environment of every process, and stopped. Logs, caches and launch files stay.

    \b
    Examples:
      oe down deployment
      oe down --all
    """
    if (name is None) != everything:
        raise click.UsageError("Give either the NAME of a deployment or --all.")
    from inferlab_adapters.control.down import take_down
    from inferlab_adapters.control.refusal import Failed
    from inferlab_adapters.control.state import StateRoot

    root = StateRoot.default()
    chosen = root.deployments() if name is None else [root.known(name)]
    problems: list[str] = []
    with progress() as report:
        for deployment, state in chosen:
            try:
                take_down(deployment, state, grace=grace, report=report, forget=forget)
            except Failed as failed:
                problems += [failed.message, *failed.details]
    if problems:
        raise Failed(*problems)
    return 0
