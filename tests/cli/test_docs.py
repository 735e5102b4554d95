"""The pages about ``oe`` say what ``oe`` does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from inferlab_adapters.cli.main import COMMANDS, command

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(
        path
        for path in sorted((ROOT / "docs").glob("*.md"))
        if path.name not in ("cli.md", "adding-an-adapter.md")
    ),
]
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")


def commands(page: Path) -> list[list[str]]:
    """Every call of ``oe`` in a page's blocks of commands, as tokens."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, flags=re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", " ")
    calls = re.findall(r"^(?:\$ )?oe (.+)$", joined, flags=re.MULTILINE)
    return [shlex.split(re.split(r" [|>&]|  +#", call)[0], comments=True) for call in calls]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_call_in_a_page_is_a_command_line_that_is_taken(page: Path) -> None:
    for tokens in commands(page):
        assert tokens[0] in COMMANDS, tokens
        found = command.get_command(click.Context(command), tokens[0])
        assert found is not None
        rest = tokens[1:]
        context = click.Context(found, info_name=tokens[0])
        if isinstance(found, click.Group):
            found = found.get_command(context, rest.pop(0))
            assert found is not None, tokens
        found.make_context(tokens[0], rest)


def test_there_are_such_calls() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 15


def test_the_quickstart_quotes_its_example() -> None:
    example = ROOT / "examples" / "deployments" / "vllm-cpu-single.yaml"
    assert f"```yaml\n{example.read_text(encoding='utf-8')}```" in QUICKSTART


def test_every_link_leads_somewhere() -> None:
    for page in [*PAGES, ROOT / "docs" / "cli.md", ROOT / "docs" / "adding-an-adapter.md"]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
