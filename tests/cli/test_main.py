"""The command ``oe`` itself: help, exit codes, what it loads."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from inferlab_adapters.cli import start
from inferlab_adapters.cli.main import COMMANDS
from tests.cli.invoke import oe

PACKAGE = Path(start.__file__).parent
EXAMPLES = Path(__file__).parents[2] / "examples" / "deployments"


def walk(command: click.Command, name: str) -> list[tuple[str, click.Command]]:
    found = [(name, command)]
    if isinstance(command, click.Group):
        for below, child in command.commands.items():
            found += walk(child, f"{name} {below}")
    return found


ALL = [
    item
    for name in COMMANDS
    for item in walk(import_module(f"inferlab_adapters.cli.{name}").command, name)
]


def test_help_lists_every_command() -> None:
    done = oe("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.out
    assert "3  something that was started failed" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_line_in_the_list_is_the_one_of_its_own_help(name: str) -> None:
    command: click.Command = import_module(f"inferlab_adapters.cli.{name}").command
    assert command.name == name
    assert (command.help or "").strip().splitlines()[0] == COMMANDS[name]


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_every_command_has_examples_and_says_what_its_options_do(
    name: str, command: click.Command
) -> None:
    done = oe(*name.split(), "--help")
    assert done.code == 0
    if not isinstance(command, click.Group):
        assert "Examples:" in done.out
        assert f"oe {name}" in done.out
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_no_command_module_is_missing_from_the_list() -> None:
    commands = {
        file.stem
        for file in PACKAGE.glob("*.py")
        if "@click.command(" in (text := file.read_text(encoding="utf-8"))
        or "@click.group(" in text
    }
    assert commands - {"main"} == set(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["plann"], 2, 'Did you mean "plan"?'),
        (["plan"], 2, "Missing argument 'FILE'"),
        (["plan", "x.yaml", "--no-such-option"], 2, "No such option"),
        (["plan", "no-such-file.yaml"], 1, "oe: no-such-file.yaml: cannot be read"),
        (["render", "x.yaml", "--image", "x"], 2, "--format compose"),
        (["check", "x.yaml", "--against", "e", "--engine-version", "1"], 2, "leave one out"),
    ],
)
def test_exit_codes(arguments: list[str], code: int, said: str) -> None:
    done = oe(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_the_installed_program_is_this_one() -> None:
    (entry,) = entry_points(group="console_scripts", name="oe")
    assert entry.load() is start.main


def test_without_its_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "find_spec", lambda name: None if name == "rich" else name)
    assert start.main() == 2
    said = capsys.readouterr().err
    assert said == "oe: rich not found; pip install 'inferlab-adapters[cli]'\n"


def test_help_loads_no_command_and_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from inferlab_adapters.cli.main import run\n"
        "run(['--help'])\n"
        "names = ('pydantic', 'rich', 'yaml', 'inferlab_adapters.control.prepare')\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    program = [sys.executable, "-m", "inferlab_adapters.cli", "catalogue", "list", "--json"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    done = oe("completion", shell)
    assert done.code == 0
    assert "_OE_COMPLETE" in done.out


def test_the_shell_completes_commands_and_options() -> None:
    environment = {**os.environ, "_OE_COMPLETE": "bash_complete"}

    def completions(words: str, index: int) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", "from inferlab_adapters.cli.main import run; run([])"],
            env={**environment, "COMP_WORDS": words, "COMP_CWORD": str(index)},
            stdout=subprocess.PIPE,
            text=True,
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert completions("oe pl", 1) == ["plan"]
    assert completions("oe render --form", 2) == ["--format"]
    assert completions("oe render --format j", 3) == ["json"]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_terminal_gets_colour_unless_it_wants_none(wanted: bool) -> None:
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    if not wanted:
        environment["NO_COLOR"] = "1"
    program = [sys.executable, "-m", "inferlab_adapters.cli", "diff"]
    program += [str(EXAMPLES / "vllm-single.yaml"), "--versions", "0.32.0", "0.33.0"]
    master, terminal = pty.openpty()
    with subprocess.Popen(program, stdout=terminal, env=environment):
        os.close(terminal)
        shown = b""
        # Linux answers EIO once the other side is closed.
        with suppress(OSError):
            while piece := os.read(master, 4096):
                shown += piece
    os.close(master)
    assert b"0.33.0" in shown
    assert (b"\x1b[32m" in shown) is wanted
