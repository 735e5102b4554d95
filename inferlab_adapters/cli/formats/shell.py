"""A deployment as bash: one block a process, safe to copy and paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from inferlab_adapters.cli.formats.blocks import Block, File, blocks, comment
from inferlab_adapters.control.channel import device_variables

if TYPE_CHECKING:
    from inferlab_adapters.control.prepare import Prepared

_HEAD = """\
# One block a process. Each runs in the foreground, in a terminal of its own: start them in this
# order. A block writes its launch files, checks their digests, and starts only if all is well.
"""


def script(prepared: Prepared) -> str:
    """The whole deployment, a block for each process, in the order to start them."""
    return "\n".join([_HEAD, *map(block_text, blocks(prepared))])


def block_text(block: Block) -> str:
    """One process: comments, launch files, and the command; ends with a line end."""
    lines = [f"# {line}" for line in _about(block)]
    lines += [_file(file) for file in block.files]
    return "\n".join([*lines, _command(block), ""])


def _about(block: Block) -> Iterator[str]:
    allocation, machine = block.allocation, block.machine
    ranks = allocation["rank_count"]
    rank = f", rank {allocation['rank']} of {ranks}" if ranks > 1 else ""
    yield f"{comment(block.name)}: role {comment(allocation['role'])}{rank}"
    if machine.ssh is None:
        yield f"machine: {comment(machine.name)}"
    else:
        yield f"machine: {comment(machine.name)}; run this block there: ssh {comment(machine.ssh)}"
    if machine.devices is None:
        yield "devices: none, it serves on the CPUs"
    else:
        yield f"devices: {_listed(allocation['devices'])}"
    yield f"start after: {_listed(map(comment, allocation['dependencies']))}"
    if block.readiness["kind"] == "http":
        yield f"ready once this answers: {comment(block.url + block.readiness['path'])}"


def _file(file: File) -> str:
    path = shlex.quote(file.path)
    folder = shlex.quote(file.path.rpartition("/")[0])
    # A here-document ends with a line end, and so must what it writes.
    if file.text.endswith("\n"):
        mark = _delimiter(file.text)
        write = f"cat > {path} <<'{mark}' &&\n{file.text}{mark}"
    else:
        write = f"printf %s {shlex.quote(file.text)} > {path} &&"
    check = f"printf '%s\\n' {shlex.quote(_digest_line(file))} | sha256sum --check --quiet - &&"
    return f"mkdir -p -- {folder} &&\n{write}\n{check}"


def _command(block: Block) -> str:
    """The command with the environment that ``oe up`` gives it; what is rendered comes last."""
    words = []
    if block.machine.engine_env is not None and "PATH" not in block.env:
        folder = f"{block.machine.engine_env.rstrip('/')}/bin"
        words.append(f'PATH={shlex.quote(folder)}:"$PATH"')
    env = dict(block.env)
    if block.machine.devices is not None:
        env = {**device_variables(block.allocation["devices"]), **env}
    words += [shlex.quote(f"{name}={value}") for name, value in env.items()]
    command = shlex.join(block.argv)
    return " \\\n  ".join([f"env {words[0]}", *words[1:], command]) if words else command


def _delimiter(text: str) -> str:
    lines = frozenset(text.split("\n"))
    mark = "EOF"
    while mark in lines:
        mark += "_"
    return mark


def _digest_line(file: File) -> str:
    """A line as ``sha256sum --check`` reads it; one that begins with a backslash is escaped."""
    escaped = file.path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != file.path else ""
    return f"{mark}{file.sha256}  {escaped}"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items)) or "none"
