"""Runs ``oe`` in this process, as its program would."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from inferlab_adapters.cli.main import run


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def oe(*arguments: object, stdin: str = "") -> Done:
    """Run ``oe`` with these arguments; nothing is a terminal."""
    out, err = io.StringIO(), io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", source):
        code = run([str(argument) for argument in arguments])
    return Done(code=code, out=out.getvalue(), err=err.getvalue())
