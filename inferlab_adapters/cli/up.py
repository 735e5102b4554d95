"""``oe up``: start a deployment and hold it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note
from inferlab_adapters.cli.progress import progress

if TYPE_CHECKING:
    from inferlab_adapters.control.placement import Taken
    from inferlab_adapters.control.prepare import Prepared


@click.command("up")
@common.file_argument
@common.inventory_option
@common.framework_option
@common.engine_env_option
@common.model_option
@common.name_option
@common.timeout_option
@common.grace_option
@click.option(
    "--strict", is_flag=True, help="Refuse routing builtin instead of taking the native router."
)
@click.option("--detach", is_flag=True, help="Return once it is ready, and hold it in background.")
def command(
    file: str,
    inventory: str | None,
    framework: str | None,
    engine_env: Path | None,
    model: str | None,
    name: str | None,
    timeout: float,
    grace: float,
    strict: bool,
    detach: bool,
) -> int:
    """Start a deployment, wait until it is ready, and hold it.

    Ctrl-C, SIGTERM, SIGHUP and "oe down" stop all of it: TERM, then KILL after the grace; a second
    Ctrl-C ends the grace. So does a process that ends, or is not ready in time: then the reason
    and the end of its log are shown. Logs are below $OE_STATE_DIR (~/.local/state/oe).

    The exit code is 0 when it was stopped after it was ready, 3 when something failed, and 128 and
    the signal's number (130 for Ctrl-C) when it was stopped before it was ready.

    \b
    Examples:
      oe up deployment.yaml
      oe up deployment.yaml --inventory machines.yaml --engine-env .engines/vllm
      oe up deployment.yaml --detach && oe logs deployment -f
    """
    from inferlab_adapters.control.state import StateRoot

    if detach:
        from inferlab_adapters.cli.detached import follow

        options = {
            "--inventory": inventory,
            "--framework": framework,
            "--engine-env": engine_env,
            "--model": model,
            "--timeout": timeout,
            "--grace": grace,
        }
        given = [f"{key}={value}" for key, value in options.items() if value is not None]
        flags = ["--strict"] if strict else []
        return follow(file, framework, name, [*given, *flags])

    wanted = common.load_wanted(file, framework, model)
    if name:
        wanted = replace(wanted, name=name)
    root = StateRoot.default()
    root.deployment(wanted.name).refuse_if_up()
    machines = common.load_inventory(inventory, engine_env)
    client = common.connect(wanted, machines, None)

    def prepared(taken: Taken) -> Prepared:
        from inferlab_adapters.control.prepare import prepare

        found = prepare(wanted, client, machines, taken=taken, native_router=True, strict=strict)
        for text in found.notes:
            note(text)
        return found

    from inferlab_adapters.control.run import Interrupted, launched

    ready = False
    try:
        with (
            progress() as report,
            launched(prepared, root=root, timeout=timeout, grace=grace, report=report) as running,
        ):
            ready = True
            running.hold()
    except Interrupted as interrupted:
        return 0 if ready else 128 + interrupted.number
