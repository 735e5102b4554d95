"""Run by an engine's own Python: asks the engine's parsers what they make of command lines.

``python engine_side.py PARSERS [MODEL]`` reads a JSON array of argvs on standard input and writes
a JSON array, in the same order: ``{"error": …}`` for a command line that is refused, else
``{"values": …}``, with ``"note"`` where less was asked than the engine would. PARSERS is the
``real_parser.py`` of an integration; MODEL is a folder that takes the place of every model, for
checks that look into its configuration.

The engine's environment need not hold this package or anything it depends on: only the standard
library and the engine are imported here and there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

Parser = Callable[[list[str], "str | None"], "Parsed"]
"""An argv and the folder that stands for its model: what the engine makes of it."""


class Parsed:
    """What an engine read: ``args`` by name, and ``note`` where not all checks were made."""

    def __init__(self, args: Any, note: str = "") -> None:
        self.args = args
        self.note = note


class Caught(BaseException):
    """Carries the parser out of the engine's command line, past any ``except Exception`` in it."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def parser_built_by(run: Callable[[], object]) -> argparse.ArgumentParser:
    """The parser that ``run`` builds, which is stopped when it hands that to argparse."""

    def stop(parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        raise Caught(parser)

    original = argparse.ArgumentParser.parse_args
    argparse.ArgumentParser.parse_args = stop  # type: ignore[method-assign, assignment]
    try:
        run()
    except Caught as caught:
        return caught.parser
    finally:
        argparse.ArgumentParser.parse_args = original  # type: ignore[method-assign]
    raise SystemExit("error: the engine ended without building a parser")


def parser_of_console_script(
    script: str, argv: list[str]
) -> tuple[argparse.ArgumentParser, dict[str, object]]:
    """The top-level parser that the installed command ``script`` builds for ``argv``.

    Modules that build parsers move from release to release; the installed command does not. So
    that command is run, and stopped at the moment it hands its finished parser to argparse.
    """
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name=script)
    if entry.dist is None:
        raise SystemExit(f"error: the command {script} belongs to no installed distribution")
    saved_argv = sys.argv
    sys.argv = [script, *argv]
    try:
        parser = parser_built_by(lambda: entry.load()())
        return parser, {"name": entry.dist.metadata["Name"], "version": entry.dist.version}
    finally:
        sys.argv = saved_argv


@contextlib.contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Engines log to stdout while they are imported; send that to stderr, at descriptor level."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def answer(parsers: dict[str, Parser], argv: list[str], model: str | None) -> dict[str, Any]:
    """What the engine says to one command line."""
    module = argv[:4].index("-m") + 1 if "-m" in argv[:4] else 0
    program = argv[module]
    if program not in parsers:
        return {"error": f"no parser is known for {program}"}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = parsers[program](argv, model)
    except SystemExit:
        lines = said.getvalue().strip().splitlines()
        return {"error": lines[-1] if lines else "it ended without a word"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    values = {name: plain(value) for name, value in vars(parsed.args).items()}
    return {"values": values, **({"note": parsed.note} if parsed.note else {})}


def plain(value: Any) -> Any:
    """A value as JSON; what JSON cannot hold, as text."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def load_parsers(file: str) -> dict[str, Parser]:
    """``PARSERS`` of an integration's file, which may import this module by its full name."""
    package = types.ModuleType("inferlab_adapters")
    package.__path__ = [str(Path(__file__).parent)]
    sys.modules.setdefault("inferlab_adapters", package)
    spec = importlib.util.spec_from_file_location("real_parser", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parsers: dict[str, Parser] = module.PARSERS
    return parsers


def main() -> None:
    file, *rest = sys.argv[1:]
    model = rest[0] if rest else None
    argvs = json.load(sys.stdin)
    with stdout_kept_clean():
        parsers = load_parsers(file)
        answers = [answer(parsers, argv, model) for argv in argvs]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
