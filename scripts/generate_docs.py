"""Write the pages that follow from the adapters' declarations and from what the tests show.

python scripts/generate_docs.py            write docs/settings-<adapter>.md, support.md and cli.md
python scripts/generate_docs.py --check    exit 1 with one line when they are stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import cli_page

from inferlab_adapters.adapter import Adapter
from inferlab_adapters.catalogue import Option
from inferlab_adapters.options import OptionTable

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

KINDS = {
    "switch": "`true`",
    "negatable": "`true` or `false`",
    "json": "JSON",
    "int": "integer",
    "float": "number",
    "str": "string",
    "human_int": "integer or `4k`",
    "human_int_or_auto": "integer, `4k` or `auto`",
}
OWN_KINDS = {
    "arguments": "array of strings",
    "environment": "object of strings",
}


def main(argv: list[str]) -> int:
    if argv not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    pages = {
        DOCS / f"settings-{adapter.name.removeprefix('oe-adapter-')}.md": page(adapter)
        for adapter in (point.load() for point in entry_points(group="inferlab_adapters.adapters"))
    }
    pages[DOCS / "support.md"] = support()
    pages[DOCS / "cli.md"] = cli_page.page()
    stale = []
    for path, text in pages.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not argv:
            path.write_text(text, encoding="utf-8")
    if argv and stale:
        print(f"stale: {', '.join(stale)}; run scripts/{Path(__file__).name}", file=sys.stderr)
        return 1
    return 0


def page(adapter: Adapter) -> str:
    return "\n".join([*head(adapter), *own(adapter), *owned(adapter), *options(adapter)]) + "\n"


def head(adapter: Adapter) -> Iterator[str]:
    yield f"# Settings of {adapter.name}"
    yield ""
    yield (
        "Written by `scripts/generate_docs.py` from the adapter's declarations and its recorded "
        "option lists; do not edit."
    )
    yield ""
    yield (
        f"A role's `settings` hold any {adapter.framework} option by its own name, with "
        "underscores, as JSON: `true` and `false` for switches (`false` becomes the negative "
        "form), numbers, strings, arrays for options that take several values, objects for "
        "options that take JSON. `null` is refused, and so is a name or value that the recorded "
        "version does not know. For a framework version without a recorded list, what is unknown "
        "is passed on with a warning."
    )
    yield ""


def own(adapter: Adapter) -> Iterator[str]:
    yield "## Settings of ours"
    yield ""
    yield "| setting | value | default | meaning |"
    yield "| --- | --- | --- | --- |"
    for setting in adapter.own_settings:
        value = OWN_KINDS.get(setting.kind, setting.kind)
        if setting.choices:
            value = ", ".join(f"`{choice}`" for choice in setting.choices)
        default = "" if setting.default is None else f"`{plain(setting.default)}`"
        yield f"| `{setting.name}` | {value} | {default} | {setting.meaning} |"
    yield ""


def owned(adapter: Adapter) -> Iterator[str]:
    table = newest(adapter)
    yield "## What settings cannot decide"
    yield ""
    yield (
        "These come from the request and the allocations, and are refused in `settings`, "
        "`extra_args` and `extra_env`, in every spelling the framework would accept."
    )
    yield ""
    yield "| option | decided by |"
    yield "| --- | --- |"
    for name, option in sorted(table.options.items()):
        owner = table.owner(option)
        if owner:
            yield f"| `{name}` | {owner} |"
    yield ""
    yield "| variable | decided by |"
    yield "| --- | --- |"
    for name, owner in sorted(adapter.reserved_env.names.items()):
        yield f"| `{name}` | {owner} |"
    for start, owner in sorted(adapter.reserved_env.prefixes.items()):
        yield f"| `{start}…` | {owner} |"
    yield ""


def options(adapter: Adapter) -> Iterator[str]:
    tables = {version: adapter.option_table(version) for version in adapter.recorded_versions()}
    versions = list(tables)
    yield "## Options by name"
    yield ""
    yield f"As recorded from {adapter.framework} {' and '.join(versions)}."
    yield ""
    yield "| option | value | " + " | ".join(versions) + " |"
    yield "| --- | --- |" + " --- |" * len(versions)
    for name in sorted({name for table in tables.values() for name in table.options}):
        known = [table.options.get(name) for table in tables.values()]
        option = next(entry for entry in reversed(known) if entry is not None)
        if any(table.owner(option) for table in tables.values()):
            continue
        marks = " | ".join("" if entry is None else mark(entry) for entry in known)
        yield f"| `{name}` | {value_of(option)} | {marks} |"


def mark(option: Option) -> str:
    return "deprecated" if option.deprecated else "yes"


def value_of(option: Option) -> str:
    if option.choices:
        value = ", ".join(f"`{choice}`" for choice in option.choices)
    elif option.kind == "json":
        value = "JSON" if option.shape == "any" else option.shape
    else:
        value = KINDS.get(option.kind) or KINDS[option.type]
    if option.kind == "list":
        return f"array of {value}"
    return f"{value} or object" if option.json else value


def support() -> str:
    """The page of capabilities, from the data that the tests hold against what they do."""
    sys.path.insert(0, str(ROOT))
    from tests.support.evidence import CAPABILITIES, EVIDENCE, state

    titles = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt-llm": "TensorRT-LLM"}
    lines = [
        "# What is supported",
        "",
        "Written by `scripts/generate_docs.py` from `tests/support/evidence.py`, which names the "
        "golden cases and tests behind every cell; do not edit.",
        "",
        "| | means |",
        "| --- | --- |",
        "| run | a real engine was started as rendered, by a smoke test, and completed prompts |",
        "| checked | it stands on a command line that the engine's own parser and argument checks "
        "took |",
        "| planned | it plans and renders by what the engine's sources say; nothing of the engine "
        "has seen it |",
        "| - | refused, or there is nothing to ask for |",
        "",
        "What no command line shows (environment variables, endpoints, the control plane's own "
        "router) can only be run or planned. The smoke tests run on one machine without GPUs.",
        "",
        f"| | {' | '.join(titles.get(name, name) for name in EVIDENCE)} |",
        f"| --- |{' --- |' * len(EVIDENCE)}",
    ]
    for capability in CAPABILITIES:
        cells = " | ".join(state(framework, capability) for framework in EVIDENCE)
        lines.append(f"| {capability} | {cells} |")
    return "\n".join(lines) + "\n"


def newest(adapter: Adapter) -> OptionTable:
    return adapter.option_table(adapter.recorded_versions()[-1])


def plain(value: object) -> str:
    return "false" if value is False else "true" if value is True else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
