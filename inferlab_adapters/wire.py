"""The wire edge: one JSON request in, one JSON response out.

:func:`respond` is the whole of it as a pure function from bytes to bytes; :func:`main` puts
files, standard streams and exit codes around it. An adapter's ``main`` is one call of it.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, TextIO, TypeVar

from pydantic import BaseModel, ValidationError

from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.errors import (
    AdapterError,
    Fault,
    did_you_mean,
    json_type,
    one_of,
    refuse,
    shown,
)
from inferlab_adapters.protocol import AdapterError as ErrorMessage
from inferlab_adapters.protocol import (
    ErrorResponse,
    OkResponse,
    PlanServeAdapterResult,
    PlanServeRequest,
)
from inferlab_adapters.strict_json import MAX_BYTES, decode

if TYPE_CHECKING:
    from inferlab_adapters.protocol import AdapterResult

PROTOCOL_VERSION = "6"
OPERATIONS = ("plan_serve", "render_serve")

Request = TypeVar("Request", bound=BaseModel)


def respond(raw: bytes, adapter: Adapter, context: Context, source: str = "stdin") -> bytes:
    """Answer one request: bytes of one JSON document in, one line of JSON out.

    Never raises: what is wrong with the request comes back as an ``error`` response, and what
    is wrong with us as one with the code ``internal``, its traceback through ``context.note``.
    """
    try:
        result = _handle(decode(raw, source), adapter, context)
        response = OkResponse(status="ok", protocol_version=PROTOCOL_VERSION, result=result)
        return _line(response)
    except AdapterError as error:
        return _refusal(error)
    except Exception as error:
        context.note(traceback.format_exc().rstrip())
        what = f"{type(error).__name__} in {adapter.name}; this is a fault of the adapter"
        return _refusal(AdapterError("internal", Fault("", what)))


def main(
    adapter: Adapter,
    arguments: Sequence[str] | None = None,
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run an adapter as a program; returns the exit code.

    0 whenever a response was written, 2 for a wrong command line, an unreadable file, or a
    terminal as standard input, where a short usage is printed instead.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    stdin = stdin or sys.stdin.buffer
    stdout = stdout or sys.stdout.buffer
    stderr = stderr or sys.stderr
    try:
        return _Program(adapter, stdin, stdout, stderr).run(arguments)
    except BrokenPipeError:
        # The reader left; a second failure while Python flushes at exit would only add noise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def _handle(document: object, adapter: Adapter, context: Context) -> AdapterResult:
    if not isinstance(document, dict):
        refuse("invalid_request", "", f"the request must be an object, got {json_type(document)}")
    if "protocol_version" in document and document["protocol_version"] != PROTOCOL_VERSION:
        got = document["protocol_version"]
        named = "null" if got is None else f"{json_type(got)} {shown(got)}"
        refuse(
            "unsupported_protocol_version",
            "/protocol_version",
            f'must be the string "{PROTOCOL_VERSION}", got {named}',
        )
    operation = document.get("operation")
    if isinstance(operation, str) and operation not in OPERATIONS:
        refuse(
            "unsupported_operation",
            "/operation",
            f"must be {one_of(map(shown, OPERATIONS))}, got {shown(operation)}",
            did_you_mean(operation, OPERATIONS),
        )
    if operation == "render_serve":
        from inferlab_adapters.protocol import RenderServeAdapterResult, RenderServeRequest

        rendered = adapter.render(_validated(RenderServeRequest, document).input, context)
        return RenderServeAdapterResult(operation="render_serve", output=rendered)
    planned = adapter.plan(_validated(PlanServeRequest, document).input, context)
    return PlanServeAdapterResult(operation="plan_serve", output=planned)


def _validated(model: type[Request], document: object) -> Request:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        from inferlab_adapters.validation import faults_of

        raise AdapterError("invalid_request", *faults_of(error, model, document)) from None


def _refusal(error: AdapterError) -> bytes:
    message = ErrorMessage(code=error.code, message=error.message)
    return _line(ErrorResponse(status="error", protocol_version=PROTOCOL_VERSION, error=message))


def _line(response: BaseModel) -> bytes:
    return response.model_dump_json(exclude_none=True).encode("utf-8") + b"\n"


class _Program:
    """The command line around :func:`respond`."""

    def __init__(self, adapter: Adapter, stdin: BinaryIO, stdout: BinaryIO, stderr: TextIO) -> None:
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
            self._stdout.write(_help(self._adapter).encode())
            return 0
        if "--version" in options:
            self._stdout.write(f"{self._adapter.name} {self._adapter.version}\n".encode())
            return 0
        if len(files) > 1:
            return self._usage(f"one FILE at most, got {len(files)}")
        context = Context(framework_version=self._adapter.observed_version(), note=self._note)
        if not files or files[0] == "-":
            if self._stdin.isatty():
                self._stderr.write(_usage(self._adapter))
                return 2
            return self._answer(self._stdin, "stdin", "--ndjson" in options, context)
        try:
            with open(files[0], "rb") as file:
                return self._answer(file, files[0], "--ndjson" in options, context)
        except OSError as error:
            return self._usage(f"cannot read {files[0]}: {error.strerror}")

    def _answer(self, stream: BinaryIO, source: str, ndjson: bool, context: Context) -> int:
        if ndjson:
            for number, line in _lines(stream):
                self._write(respond(line, self._adapter, context, f"line {number}"))
            return 0
        raw = stream.read(MAX_BYTES + 1)
        named = _named_file(raw)
        if named is not None and stream is self._stdin:
            try:
                with open(named, "rb") as file:
                    raw, source = file.read(MAX_BYTES + 1), os.fsdecode(named)
            except OSError as error:
                return self._usage(f"cannot read {os.fsdecode(named)}: {error.strerror}")
        self._write(respond(raw, self._adapter, context, source))
        return 0

    def _write(self, line: bytes) -> None:
        self._stdout.write(line)
        self._stdout.flush()

    def _note(self, text: str) -> None:
        self._stderr.write(f"{self._adapter.name}: {text}\n")
        self._stderr.flush()

    def _usage(self, what: str, hint: str = "") -> int:
        tail = f"; {hint}" if hint else ""
        self._stderr.write(f"{self._adapter.name}: {what}{tail} (--help says more)\n")
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
            yield number, line


def _named_file(raw: bytes) -> bytes | None:
    """The file that standard input names, if its only line is the name of one."""
    name = raw.strip()
    if not name or len(name) > 4096 or name[:1] in b'{["' or b"\n" in name or b"\0" in name:
        return None
    return name if os.path.isfile(name) else None


def _usage(adapter: Adapter) -> str:
    return (
        f"usage: {adapter.name} [FILE | -] [--ndjson]\n"
        "Reads one JSON request from FILE or standard input, writes one JSON response.\n"
        f"Try: {adapter.name} --help\n"
    )


def _help(adapter: Adapter) -> str:
    name = adapter.name
    return f"""\
{name} {adapter.version}: plans and renders {adapter.framework} deployments for a control plane.

usage: {name} [FILE | -] [--ndjson]

Reads one JSON request (framework integration protocol, version {PROTOCOL_VERSION}) and writes one
line of JSON: for plan_serve the serve topology, for render_serve one process (argv,
env, launch files) per allocation. Nothing is started and no engine is imported.

  FILE         read the request from FILE instead of standard input; a standard
               input whose only line names an existing file is read from there too
  --ndjson     one request a line in, one response a line out, until end of input
  --version    print the adapter's version
  -h, --help   print this

The response says "status": "ok" or "error" (code and message); the exit code is 0
whenever a response was written, 2 for a wrong command line or an unreadable file.
Warnings go to standard error.

  {name} request.json
  echo request.json | {name}
  {name} < request.json | jq .result.output.roles
"""
