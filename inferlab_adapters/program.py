"""An adapter as a program: command line, files, standard streams and exit codes.

An adapter's ``main`` is one call of :func:`main`. The streams are injected, so that tests run
the whole program in memory.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from errno import EBADF
from typing import BinaryIO, TextIO

from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.errors import did_you_mean
from inferlab_adapters.strict_json import MAX_BYTES
from inferlab_adapters.wire import PROTOCOL_VERSION, respond


def main(
    adapter: Adapter,
    arguments: Sequence[str] | None = None,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run an adapter as a program; returns the exit code.

    0 whenever a response was written, 1 where it could not be, 2 for a wrong command line, an
    unreadable file, or no input (a terminal), where a short usage is printed instead.
    """
    # Python sets a standard stream to None when the caller closed it.
    stdin = stdin or (sys.stdin.buffer if sys.stdin else None)
    stdout = stdout or (sys.stdout.buffer if sys.stdout else None)
    program = _Program(adapter, stdin, stdout, stderr or sys.stderr)
    try:
        return program.run(sys.argv[1:] if arguments is None else arguments)
    except _Unwritable as error:
        if not isinstance(error.cause, BrokenPipeError):
            program.say(f"cannot write the response: {error.cause.strerror}")
        return 1
    except KeyboardInterrupt:
        return 130


class _Unwritable(Exception):
    """Standard output does not take what is written."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause)
        self.cause = cause


class _Program:
    """The command line around :func:`respond`."""

    def __init__(
        self,
        adapter: Adapter,
        stdin: BinaryIO | None,
        stdout: BinaryIO | None,
        stderr: TextIO | None,
    ) -> None:
        self._adapter = adapter
        self._stdin = stdin
        self._stdout = stdout
        self._stderr = stderr

    def run(self, arguments: Sequence[str]) -> int:
        options = [argument for argument in arguments if _is_option(argument)]
        files = [argument for argument in arguments if not _is_option(argument)]
        unknown = [option for option in options if option not in _OPTIONS]
        if unknown:
            return self._usage(f"unknown option {unknown[0]}", did_you_mean(unknown[0], _OPTIONS))
        if "--help" in options or "-h" in options:
            self._write(_help(self._adapter).encode())
            return 0
        if "--version" in options:
            self._write(f"{self._adapter.name} {self._adapter.version}\n".encode())
            return 0
        if len(files) > 1:
            return self._usage(f"one FILE at most, got {len(files)}")
        answer = self._answer_lines if "--ndjson" in options else self._answer_one
        if not files or files[0] == "-":
            if self._stdin is None or self._stdin.isatty():
                self._print(_usage(self._adapter))
                return 2
            answer(self._stdin, "stdin")
            return 0
        try:
            file = open(files[0], "rb")  # noqa: SIM115 (closed below, apart from this try)
        except OSError as error:
            return self._usage(f"cannot read {files[0]}: {error.strerror}")
        with file:
            answer(file, files[0])
        return 0

    def say(self, text: str) -> None:
        """A line for people."""
        self._print(f"{self._adapter.name}: {text}\n")

    def _context(self) -> Context:
        return Context(framework_version=self._adapter.observed_version(), note=self.say)

    def _answer_one(self, stream: BinaryIO, source: str) -> None:
        raw = stream.read(MAX_BYTES + 1)
        if stream is self._stdin and (name := _file_name(raw)):
            try:
                with open(name, "rb") as file:
                    raw, source = file.read(MAX_BYTES + 1), name
            except OSError as error:
                source = f"stdin (which names no readable file: {error.strerror})"
        self._write(respond(raw, self._adapter, self._context(), source))

    def _answer_lines(self, stream: BinaryIO, source: str) -> None:
        gc.enable()
        context = self._context()
        for number, line in _lines(stream):
            self._write(respond(line, self._adapter, context, f"line {number}"))

    def _write(self, line: bytes) -> None:
        if self._stdout is None:
            raise _Unwritable(OSError(EBADF, "standard output is closed"))
        try:
            self._stdout.write(line)
            self._stdout.flush()
        except OSError as error:
            # What is still buffered would fail once more, with a traceback, when Python ends.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._stdout.fileno())
            raise _Unwritable(error) from None

    def _print(self, text: str) -> None:
        # Nobody may be listening to warnings; the answer matters more.
        if self._stderr is not None:
            with suppress(OSError, ValueError):
                self._stderr.write(text)
                self._stderr.flush()

    def _usage(self, what: str, hint: str = "") -> int:
        tail = f"; {hint}" if hint else ""
        self.say(f"{what}{tail} (--help says more)")
        return 2


_OPTIONS = ("--help", "-h", "--version", "--ndjson")


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and argument != "-"


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; blank ones carry no request and are passed over.

    A line over the limit comes cut just beyond it, so that it is refused for its size, and
    the rest of it is skipped.
    """
    number = 0
    while line := stream.readline(MAX_BYTES + 1):
        number += 1
        rest = line
        while len(rest) > MAX_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_BYTES + 1)
        if line.strip():
            yield number, line.rstrip(b"\r\n")


def _file_name(raw: bytes) -> str | None:
    """The only line of the input, if it may be the name of a file rather than JSON."""
    name = raw.strip()
    if not name or len(name) > 4096 or name[:1] in b'{["' or b"\n" in name or b"\0" in name:
        return None
    return os.fsdecode(name)


def _usage(adapter: Adapter) -> str:
    return (
        f"usage: {adapter.name} [FILE | -] [--ndjson]\n"
        "Reads one JSON request from FILE or standard input, writes one JSON response.\n"
        f"Try: {adapter.name} --help\n"
    )


def _help(adapter: Adapter) -> str:
    name = adapter.name
    return f"""\
{name} {adapter.version}
Plans and renders {adapter.framework} deployments for a control plane.

usage: {name} [FILE | -] [--ndjson]

Reads one JSON request (framework integration protocol, version {PROTOCOL_VERSION}), writes one
line of JSON: for plan_serve the topology, for render_serve the argv, env and
launch files of every process. Starts nothing and imports no engine.

  FILE        read FILE instead of standard input; a standard input whose only
              line names an existing file is read from there too
  --ndjson    a request a line in, a response a line out, until the input ends
  --version   print the adapter's version
  -h, --help  print this

The response says "status": "ok" or "error". The exit code is 0 whenever one was
written, 2 for a wrong command line. Warnings go to standard error.

  {name} request.json
  echo request.json | {name}
  {name} < request.json | jq .result.output.roles
"""
