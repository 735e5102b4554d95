"""``oe smoke``: does a deployment start, answer, and leave nothing behind?"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import is_terminal, note, print_json, print_table
from inferlab_adapters.cli.progress import progress

if TYPE_CHECKING:
    from inferlab_adapters.control.events import Event
    from inferlab_adapters.control.placement import Taken
    from inferlab_adapters.control.prepare import Prepared
    from inferlab_adapters.control.smoke_report import SmokeReport

_FAILED = 3


@click.command("smoke")
@common.file_argument
@common.framework_option
@common.engine_version_option
@common.inventory_option
@common.engine_env_option
@common.model_option
@common.name_option
@common.timeout_option
@common.grace_option
@click.option("--prompt", default="hello world", show_default=True, help="What is sent.")
@click.option(
    "--max-tokens",
    metavar="N",
    type=click.IntRange(1, 2**32 - 1),
    default=16,
    show_default=True,
    help="How many tokens each answer may have.",
)
@click.option(
    "--no-openengine",
    is_flag=True,
    help="Ask nothing over OpenEngine, although replicas speak it.",
)
@click.option(
    "--artifacts",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where requests, answers and report.json go; left out, beside the deployment's logs.",
)
@common.json_option
def command(
    file: str,
    framework: str | None,
    engine_version: str | None,
    inventory: str | None,
    engine_env: Path | None,
    model: str | None,
    name: str | None,
    timeout: float,
    grace: float,
    prompt: str,
    max_tokens: int,
    no_openengine: bool,
    artifacts: Path | None,
    as_json: bool,
) -> int:
    """Start a deployment, send it requests, stop it, and report.

    Completions and chat are asked, whole and streamed, through the public endpoint, and every
    replica that speaks OpenEngine over that as well. The prefix cache is reset and a profile taken
    where the plan has them. After the end no process, port or GPU memory may be left. With --json
    the report is printed as JSON, and progress goes to standard error. See docs/smoke.md.

    \b
    Examples:
      oe smoke deployment.yaml
      oe smoke deployment.yaml --engine-env /opt/vllm --json > report.json
      oe smoke request.json --framework sglang --inventory machines.yaml --artifacts out
    """
    from inferlab_adapters.control.prepare import prepare
    from inferlab_adapters.control.run import Interrupted
    from inferlab_adapters.control.smoke import smoke
    from inferlab_adapters.control.smoke_report import Asked
    from inferlab_adapters.control.state import StateRoot

    wanted = common.load_wanted(file, framework, model)
    if name is not None:
        wanted = replace(wanted, name=name)
    root = StateRoot.default()
    deployment = root.deployment(wanted.name)
    deployment.refuse_if_up()
    folder = artifacts or deployment.folder / "smoke"
    machines = common.load_inventory(inventory, engine_env)
    client = common.connect(wanted, machines, engine_version)

    def placed(taken: Taken) -> Prepared:
        found = prepare(wanted, client, machines, taken=taken, native_router=True)
        for text in found.notes:
            note(text)
        return found

    asked = Asked(
        timeout=timeout,
        grace=grace,
        prompt=prompt,
        max_tokens=max_tokens,
        artifacts=folder.absolute(),
        openengine=not no_openengine,
    )
    shown = progress() if is_terminal() and not as_json else nullcontext(_say)
    try:
        with shown as report:
            found = smoke(placed, root=root, name=wanted.name, asked=asked, report=report)
    except Interrupted as interrupted:
        return 128 + interrupted.number
    if as_json:
        print_json(found.as_json())
    else:
        _show(found)
    return 0 if found.passed else _FAILED


def _say(event: Event) -> None:
    note(str(event))


def _show(found: SmokeReport) -> None:
    from inferlab_adapters.control.smoke_actions import calls

    rows = [("engine", f"{found.framework} {found.framework_version}".strip())]
    rows += [(f"{name} ready", f"{seconds:g} s") for name, seconds in found.ready_seconds.items()]
    if found.eval is not None:
        rows.append(("requests", found.eval["status"]))
        rows += _metrics(found.eval["metrics"])
    rows += _openengine(found)
    if found.reset is not None:
        rows.append(("prefix cache reset", found.reset["said"]))
    if found.profile is not None:
        good = all(call["ok"] for _, call in calls(found.profile))
        rows.append(("profile", "taken" if good else "failed"))
    rows += [(name, how) for name, how in found.exits.items()]
    rows.append(("left behind", "; ".join(found.leftovers) or "nothing"))
    rows.append(("artifacts", found.artifacts))
    rows.append(("logs", found.logs))
    rows.append(("result", "passed" if found.passed else "failed"))
    print_table(f"smoke test of {found.name}", ("what", "result"), rows)
    for line in found.reason:
        note(line)


def _openengine(found: SmokeReport) -> list[tuple[str, str]]:
    """A row for each replica that was asked over OpenEngine, and one for a handoff."""
    if found.openengine is None:
        return []
    rows = []
    for name, told in found.openengine["replicas"].items():
        words = [told["role"] or "", *sorted(set(told["health"].values()))]
        text = f"{', '.join(filter(None, words)) or 'not reached'} in {told['seconds']:.2f} s"
        rows.append((f"OpenEngine of {name}", text))
    if handoff := found.openengine["handoff"]:
        way = f"{handoff['prefill']} to {handoff['decode']}"
        text = f"{way}, {handoff['tokens']} tokens in {handoff['seconds']:.2f} s"
        rows.append(("OpenEngine handoff", text))
    return rows


def _metrics(metrics: dict[str, float]) -> list[tuple[str, str]]:
    """A row for each request that was answered, and one for what the streams said."""
    rows = []
    for key, seconds in metrics.items():
        name = key.removesuffix("_seconds")
        if name == key or f"{name}_completion_tokens" not in metrics:
            continue
        tokens = metrics[f"{name}_completion_tokens"]
        rate = metrics[f"{name}_tokens_per_second"]
        text = f"{tokens:g} tokens in {seconds:.2f} s, {rate:.1f} a second"
        first = metrics.get(f"{name}_first_text_seconds")
        if first is not None:
            text += f", the first after {first:.2f} s"
        rows.append((name.replace("_", " "), text))
    if "stream_matches" in metrics:
        same = "as the whole answers" if metrics["stream_matches"] else "other than when whole"
        rows.append(("streamed texts", same))
    return rows
