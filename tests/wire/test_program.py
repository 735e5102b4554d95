"""An adapter as a program: its command line, streams and exit codes."""

from __future__ import annotations

import errno
import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from oe_adapter_vllm import ADAPTER

from inferlab_adapters import program, strict_json
from inferlab_adapters.adapter import Adapter
from tests.support.adapters import ADAPTERS
from tests.support.control_plane import (
    Json,
    allocate,
    output,
    plan_request,
    refused,
    render_request,
    role,
)
from tests.support.schema import check_response

PLAN = plan_request(role(settings={"seed": 1}))
RAW = json.dumps(PLAN).encode()
SCRIPTS = ("oe-adapter-vllm", "inferlab-adapter-vllm")
DEPRECATED = next(
    name
    for name, option in ADAPTER.option_table("unavailable").options.items()
    if option.deprecated and option.kind in ("switch", "negatable")
)


class Ran(NamedTuple):
    code: int
    stdout: bytes
    stderr: str

    @property
    def responses(self) -> list[Json]:
        assert self.stdout == b"" or self.stdout.endswith(b"\n")
        found = [json.loads(line) for line in self.stdout.splitlines()]
        for response in found:
            check_response(response)
        return found

    @property
    def response(self) -> Json:
        (response,) = self.responses
        return response


def run(arguments: Sequence[str] = (), stdin: bytes | io.RawIOBase | None = None) -> Ran:
    """The program in memory."""
    stdout, stderr = io.BytesIO(), io.StringIO()
    source: Any = io.BytesIO(stdin or b"") if not isinstance(stdin, io.RawIOBase) else stdin
    code = program.main(ADAPTER, list(arguments), source, stdout, stderr)
    return Ran(code, stdout.getvalue(), stderr.getvalue())


def command(script: str = SCRIPTS[0]) -> str:
    return str(Path(sys.executable).with_name(script))


def environment() -> dict[str, str]:
    """Ours, without what would change when Python flushes."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def start(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """The real program; ``redirect`` is shell text such as ``<&-``."""
    redirect = options.pop("redirect", None)
    argv = [command(), *arguments]
    if redirect:
        argv = ["sh", "-c", f'exec "$0" "$@" {redirect}', *argv]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "input": b"", **options}
    return subprocess.run(argv, env=environment(), check=False, **options)


# Where the request comes from


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "request one.json"
    path.write_bytes(RAW + b"\n")
    return path


def test_a_request_on_standard_input_is_answered() -> None:
    ran = run(stdin=RAW)
    assert ran.code == 0
    assert ran.stderr == ""
    assert output(ran.response)["roles"][0]["id"] == "serve"
    assert run(["-"], RAW) == ran


def test_a_file_is_read_instead_of_standard_input(file: Path) -> None:
    assert run([str(file)], b"not read") == run(stdin=RAW)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", " \n\n"])
def test_standard_input_may_name_a_file(file: Path, ending: str) -> None:
    assert run(stdin=f"{file}{ending}".encode()) == run(stdin=RAW)
    assert run(["-"], f"{file}{ending}".encode()) == run(stdin=RAW)


def test_a_named_file_is_the_source_in_messages(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(b"{")
    for ran in (run([str(bad)]), run(stdin=f"{bad}\n".encode())):
        assert ran.code == 0
        code, message = refused(ran.response)
        assert code == "invalid_request"
        assert message.startswith(f"{bad} is not JSON")


@pytest.mark.parametrize(("name", "why"), [("no.json", "No such file"), (".", "Is a directory")])
def test_a_name_of_no_file_is_an_invalid_request(tmp_path: Path, name: str, why: str) -> None:
    ran = run(stdin=str(tmp_path / name).encode() + b"\n")
    assert ran.code == 0
    code, message = refused(ran.response)
    assert code == "invalid_request"
    assert why in message
    assert "is not JSON" in message


@pytest.mark.parametrize("raw", [b"{", b"[1", b'"x', b"{}\n{}", b"a\0b", b"x" * 5000])
def test_what_looks_like_json_is_not_taken_for_a_file(raw: bytes) -> None:
    assert "no readable file" not in refused(run(stdin=raw).response)[1]


@pytest.mark.parametrize(("name", "why"), [("no.json", "No such file"), (".", "Is a directory")])
@pytest.mark.parametrize("options", [[], ["--ndjson"]])
def test_an_unreadable_file_is_a_wrong_command_line(
    tmp_path: Path, name: str, why: str, options: list[str]
) -> None:
    ran = run([*options, str(tmp_path / name)])
    assert (ran.code, ran.stdout) == (2, b"")
    assert f"cannot read {tmp_path / name}: {why}" in ran.stderr
    assert ran.stderr.count("\n") == 1


# One request a line


BAD, GOOD = b'{"operation":1', RAW


@pytest.mark.parametrize(
    ("stdin", "numbers"),
    [
        (b"", []),
        (b"\n\r\n  \n", []),
        (GOOD, [None]),
        (GOOD + b"\n", [None]),
        (GOOD + b"\r\n" + BAD + b"\r\n", [None, 2]),
        (BAD + b"\n" + GOOD + b"\n", [1, None]),
        (b"\n\n" + BAD + b"\n\n" + BAD, [3, 5]),
        (b"null\n\xff\xfe\n" + GOOD, [1, 2, None]),
    ],
    ids=["empty", "blank", "no-end", "one", "CRLF", "bad-then-good", "blank-between", "bytes"],
)
def test_every_line_gets_a_line(stdin: bytes, numbers: list[int | None], tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(stdin)
    ran = run(["--ndjson"], stdin)
    assert ran == run(["--ndjson", "-"], stdin) == run([str(path), "--ndjson"])
    assert ran.code == 0
    responses = ran.responses
    assert [response["status"] == "ok" for response in responses] == [n is None for n in numbers]
    good = run(stdin=GOOD).response
    for number, response in zip(numbers, responses, strict=True):
        if number is None:
            assert response == good
        elif "line" in refused(response)[1]:
            assert refused(response)[1].startswith(f"line {number} ")


def test_the_lines_are_numbered_as_an_editor_does() -> None:
    responses = run(["--ndjson"], b"{\n\n{\r\n" + GOOD + b"\n{").responses
    first = [refused(item)[1].partition(" is")[0] for item in responses if item["status"] != "ok"]
    assert first == ["line 1", "line 3", "line 5"]


@pytest.mark.parametrize("over", [1, 2, 1000, 1001, 2000, 2002, 3003])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_over_the_limit_is_refused_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, over: int, end: bytes
) -> None:
    limit = 1000
    monkeypatch.setattr(strict_json, "MAX_BYTES", limit)
    monkeypatch.setattr(program, "MAX_BYTES", limit)
    assert len(GOOD) + 1 < limit
    long = b"x" * (limit + over)
    first, second, third = run(["--ndjson"], long + end + GOOD + b"\n" + long).responses
    assert refused(first)[1].startswith("line 1 is over 64 MiB")
    assert second["status"] == "ok"
    assert refused(third)[1].startswith("line 3 is over 64 MiB")


def test_a_line_of_exactly_the_limit_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict_json, "MAX_BYTES", len(GOOD))
    monkeypatch.setattr(program, "MAX_BYTES", len(GOOD))
    for end in (b"", b"\n", b"\n" + GOOD):
        assert {item["status"] for item in run(["--ndjson"], GOOD + end).responses} == {"ok"}


def test_every_answer_is_out_before_the_next_request_is_read() -> None:
    argv = [command(), "--ndjson"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=environment()) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            for line in (GOOD, BAD, GOOD):
                child.stdin.write(line + b"\n")
                child.stdin.flush()
                ready, _, _ = select.select([child.stdout], [], [], 60)
                assert ready, "no answer while the next request is awaited"
                check_response(json.loads(child.stdout.readline()))
            child.stdin.close()
            assert child.stdout.read() == b""
            assert child.wait() == 0
        finally:
            child.kill()


# Words on the command line


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=ADAPTERS)
def test_help_fits_a_terminal(adapter: Adapter) -> None:
    stdout = io.BytesIO()
    assert program.main(adapter, ["--help"], io.BytesIO(), stdout, io.StringIO()) == 0
    lines = stdout.getvalue().decode("ascii").splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any("--ndjson" in line for line in lines)


def test_help_and_version_read_nothing() -> None:
    class Unread(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise AssertionError("was read")

    for argument in ("--help", "-h"):
        assert run([argument, "no.json"], Unread()) == run(["--help"])
    assert run(["--version"], Unread()) == Ran(
        0, f"{ADAPTER.name} {ADAPTER.version}\n".encode(), ""
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ndjsn"], 'unknown option --ndjsn; did you mean "--ndjson"?'),
        (["--versoin", "a.json"], 'unknown option --versoin; did you mean "--version"?'),
        (["-x"], "unknown option -x"),
        (["--help", "--zzz"], "unknown option --zzz"),
        (["a.json", "b.json"], "one FILE at most, got 2"),
        (["-", "b.json"], "one FILE at most, got 2"),
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], message: str) -> None:
    ran = run(arguments, RAW)
    assert (ran.code, ran.stdout) == (2, b"")
    assert ran.stderr == f"{ADAPTER.name}: {message} (--help says more)\n"


@pytest.mark.parametrize("arguments", [[], ["-"], ["--ndjson"]])
def test_a_terminal_without_input_gets_the_usage(arguments: list[str]) -> None:
    master, slave = os.openpty()
    try:
        with open(slave, "rb", buffering=0, closefd=False) as terminal:
            ran = run(arguments, terminal)
    finally:
        os.close(master)
        os.close(slave)
    assert (ran.code, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(f"usage: {ADAPTER.name} [FILE | -] [--ndjson]\n")
    assert ran.stderr.count("\n") <= 4


# Exit codes and what goes where


def test_a_refused_request_ends_with_0() -> None:
    ran = run(stdin=b'{"protocol_version":5}')
    assert ran.code == 0
    assert ran.stderr == ""
    assert refused(ran.response)[0] == "unsupported_protocol_version"


def test_warnings_go_to_standard_error_only() -> None:
    ran = run(stdin=json.dumps(plan_request(role(settings={DEPRECATED: True}))).encode())
    assert ran.code == 0
    assert ran.response["status"] == "ok"
    assert ran.stderr == (
        f"{ADAPTER.name}: /input/roles/0/settings/{DEPRECATED}: "
        "the framework calls this option deprecated\n"
    )


def test_a_fault_of_ours_is_told_on_both_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ADAPTER, "option_table", lambda version: 1 / 0)
    ran = run(stdin=RAW)
    assert ran.code == 0
    assert refused(ran.response)[0] == "internal"
    assert "Traceback" not in ran.stdout.decode()
    assert ran.stderr.startswith(f"{ADAPTER.name}: Traceback")
    assert "ZeroDivisionError" in ran.stderr


def test_a_failing_standard_error_does_not_cost_the_answer() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    stdout = io.BytesIO()
    raw = json.dumps(plan_request(role(settings={DEPRECATED: True}))).encode()
    assert program.main(ADAPTER, [], io.BytesIO(raw), stdout, Gone()) == 0
    assert json.loads(stdout.getvalue())["status"] == "ok"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), ""),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device\n"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--ndjson"], ["--help"], ["--version"]])
def test_an_answer_that_cannot_be_written_ends_with_1(
    error: OSError, message: str, arguments: list[str]
) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            raise error

    stderr = io.StringIO()
    assert program.main(ADAPTER, arguments, io.BytesIO(RAW), Full(), stderr) == 1
    assert stderr.getvalue().endswith(message)
    assert stderr.getvalue().count("\n") == bool(message)


def test_streams_may_all_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert program.main(ADAPTER, []) == 2
    assert program.main(ADAPTER, ["--version"]) == 1
    assert program.main(ADAPTER, ["--zzz"]) == 2


def test_the_command_line_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["oe-adapter-vllm", "--version"])
    stdout = io.BytesIO()
    assert program.main(ADAPTER, stdout=stdout) == 0
    assert stdout.getvalue() == run(["--version"]).stdout


def test_an_interrupt_ends_with_130() -> None:
    class Interrupted(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise KeyboardInterrupt

    assert run([], Interrupted()) == Ran(130, b"", "")


# The installed programs


@pytest.mark.parametrize("argv", [[command(name)] for name in SCRIPTS] + [["-m"]])
def test_the_installed_programs_answer(argv: list[str], file: Path) -> None:
    argv = [sys.executable, "-m", "oe_adapter_vllm"] if argv == ["-m"] else argv
    expected = run(stdin=RAW).stdout
    for arguments, stdin in (
        (["-"], RAW),
        ([], f"{file}\n".encode()),
        ([str(file)], b""),
        (["--ndjson"], RAW),
    ):
        done = subprocess.run([*argv, *arguments], input=stdin, capture_output=True, check=True)
        assert (done.stdout, done.stderr) == (expected, b"")


def test_a_relative_name_is_read_from_the_working_directory(file: Path) -> None:
    done = start(input=file.name.encode() + b"\n", cwd=file.parent)
    assert done.stdout == run(stdin=RAW).stdout


def test_a_terminal_gets_the_usage_from_the_real_program() -> None:
    master, slave = os.openpty()
    try:
        done = start(input=None, stdin=slave)
    finally:
        os.close(master)
        os.close(slave)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: ")


@pytest.mark.parametrize("form", ["stdin", "file", "ndjson", "--help", "--version"])
def test_a_reader_that_left_is_not_told_about(form: str, file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    forms = {"stdin": [], "file": [str(file)], "ndjson": ["--ndjson", str(file)]}
    try:
        done = start(*forms.get(form, [form]), input=RAW, stdout=writer)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["stdin", "file", "--help"])
def test_a_full_disk_is_one_line_and_not_the_request_s_fault(form: str, file: Path) -> None:
    forms = {"stdin": [], "file": [str(file)]}
    with open("/dev/full", "wb") as full:
        done = start(*forms.get(form, [form]), input=RAW, stdout=full)
    assert done.returncode == 1
    assert done.stderr.startswith(b"oe-adapter-vllm: cannot write")
    assert done.stderr.count(b"\n") == 1


def test_closed_streams_that_are_not_needed_do_no_harm(file: Path) -> None:
    expected = run(stdin=RAW).stdout
    done = start(str(file), redirect="<&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, b"")
    done = start("--version", redirect="<&-")
    assert (done.returncode, done.stderr) == (0, b"")
    # Here no response was written, which is what 0 would say.
    done = start(str(file), redirect=">&-")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    raw = json.dumps(plan_request(role(settings={DEPRECATED: True}))).encode()
    done = start(input=raw, redirect="2>&-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "ok"


def test_a_closed_standard_input_is_like_a_terminal() -> None:
    done = start(redirect="<&-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"usage: ")


HEAVY = {"asyncio", "click", "grpc", "jsonschema", "pkg_resources", "torch", "vllm", "yaml"}


@pytest.mark.parametrize("operation", ["plan_serve", "render_serve"])
def test_nothing_heavy_is_imported_for_one_request(operation: str) -> None:
    request = PLAN
    if operation == "render_serve":
        plan = output(run(stdin=RAW).response)
        request = render_request(PLAN, plan, allocate(plan))
    code = (
        "import sys; from oe_adapter_vllm.__main__ import main; sys.argv[1:] = []; main();"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(request).encode(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["status"] == "ok"
    loaded = set(done.stderr.decode().split())
    assert "oe_adapter_vllm" in loaded
    assert loaded & {*HEAVY, "difflib"} == set()
