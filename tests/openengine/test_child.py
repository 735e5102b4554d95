"""A child process: how it starts, and what its exit code says."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inferlab_adapters.openengine import exec_with_parent
from inferlab_adapters.openengine.child import Child


def _code(*argv: str) -> int:
    async def run() -> int:
        child = Child(argv)
        assert child.alive
        code = await child.ended()
        assert not child.alive
        # Nobody is there any more, and nobody else is meant.
        child.signal(signal.SIGKILL)
        return code

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("script", "code"), [("exit 9", 9), ("kill -ABRT $$", 134), ("kill -PIPE $$", 141), (":", 0)]
)
def test_the_exit_code_is_a_shells(script: str, code: int) -> None:
    assert _code("sh", "-c", script) == code


@pytest.mark.parametrize(("mode", "code"), [(None, 127), (0o644, 126)])
def test_a_program_that_cannot_be_started(
    tmp_path: Path, mode: int | None, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "no program"
    if mode is not None:
        program.write_text("#!/bin/sh\n")
        program.chmod(mode)
    assert _code(str(program)) == code
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"openengine: {str(program)!r} cannot be started: ")


def test_an_ignored_end_of_children_is_noticed_all_the_same() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert _code("sh", "-c", "exit 4") == 4
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_program_whose_parent_is_gone_already_does_not_start() -> None:
    wrapper = [sys.executable, "-I", "-S", exec_with_parent.__file__]
    ended = subprocess.run([*wrapper, str(os.getppid()), "echo", "up"], capture_output=True)
    assert (ended.returncode, ended.stdout) == (137, b"")
