"""The command line of ``serve``: read once, checked whole, refused in one sentence."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias
from urllib.parse import urlsplit

from inferlab_adapters.addresses import is_loopback, url_host
from inferlab_adapters.openengine.engine import Role
from inferlab_adapters.openengine.tls import TlsFiles

_Type: TypeAlias = Callable[[str], Any]

PROGRAM = "python3 -m inferlab_adapters.openengine"

_EPILOG = """\
Everything behind -- is the engine's own command: it runs as a child, and serve ends with its exit
code (128 + n after signal n). Without it, serve attaches to an engine that already runs.

Exit codes of serve itself: 2 for a wrong command line or file, 3 for a port that is taken.

Examples:
  {prog} --framework vllm --role aggregated --listen 127.0.0.1:50051 \\
      --engine http://127.0.0.1:8000 -- vllm serve MODEL --port 8000
  {prog} --framework vllm --role decode --listen 127.0.0.1:50051 --engine http://127.0.0.1:8000
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPort:
    """Where to listen. Port 0 is any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{url_host(self.host)}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """What ``serve`` was asked to do. ``argv`` empty: attach. Times are seconds."""

    framework: str
    backend: str
    role: Role
    listen: HostPort
    engine: str
    argv: tuple[str, ...]
    instance_id: str
    session_key_file: Path | None
    tls: TlsFiles | None
    token_file: Path | None
    metrics: HostPort | None
    max_message_mib: int
    grace: float
    linger: float


def parse(arguments: Sequence[str]) -> ServeOptions:
    """Read a command line; a wrong one ends the program with exit code 2."""
    own, argv = list(arguments), None
    if "--" in own:
        cut = own.index("--")
        own, argv = own[:cut], tuple(own[cut + 1 :])
    top, serve = _parsers()
    found = top.parse_args(own)
    if argv is not None and not argv:
        serve.error("--: no engine command behind it; give one, or leave -- out to attach")
    if argv is None and found.linger:
        serve.error("--linger: only for an engine command behind --")
    if not found.framework and not found.backend:
        serve.error("--framework: required; give the engine's name, such as vllm")
    if (found.tls_cert is None) != (found.tls_key is None):
        serve.error("--tls-cert, --tls-key: one without the other; give both")
    if found.tls_client_ca is not None and found.tls_cert is None:
        serve.error("--tls-client-ca: only together with --tls-cert and --tls-key")
    tls = None
    if found.tls_cert is not None:
        tls = TlsFiles(certificate=found.tls_cert, key=found.tls_key, client_ca=found.tls_client_ca)
    return ServeOptions(
        framework=found.framework,
        backend=found.backend,
        role=Role(found.role),
        listen=found.listen,
        engine=found.engine,
        argv=argv or (),
        instance_id=found.instance_id,
        session_key_file=found.session_key_file,
        tls=tls,
        token_file=found.token_file,
        metrics=found.metrics,
        max_message_mib=found.max_message_mib,
        grace=found.grace,
        linger=found.linger,
    )


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        text = message.removeprefix("argument ")
        sys.stderr.write(f"openengine: {text} (--help says more)\n")
        raise SystemExit(2)


def _parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    top = _Parser(prog=PROGRAM, allow_abbrev=False, description="OpenEngine beside an engine.")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    serve = commands.add_parser(
        "serve",
        help="serve OpenEngine over gRPC for one engine",
        description="Serves both OpenEngine revisions for one engine, from the first second on.",
        epilog=_EPILOG.format(prog=f"{PROGRAM} serve"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="%(prog)s --framework NAME --role ROLE --listen HOST:PORT --engine URL "
        "[OPTIONS] [-- ENGINE COMMAND]",
        allow_abbrev=False,
    )
    add = serve.add_argument
    add("--framework", metavar="NAME", default="", help="the engine: vllm, sglang, tensorrt-llm")
    add("--backend", default="", help=argparse.SUPPRESS)
    roles = [role.value for role in Role]
    add("--role", metavar="ROLE", required=True, choices=roles, help=", ".join(roles))
    for flag, metavar, kind, text in _REQUIRED:
        add(flag, metavar=metavar, required=True, type=kind, help=text)
    for flag, metavar, kind, default, text in _OPTIONAL:
        add(flag, metavar=metavar, type=kind, default=default, help=text)
    return top, serve


def _host_port(text: str) -> HostPort:
    host, colon, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise argparse.ArgumentTypeError(f"{text!r} has an IPv6 host; put it into brackets")
    if not colon or not host or any(c in host for c in "/[]@ "):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} has no port from 0 to 65535")
    return HostPort(host=host, port=int(digits))


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.username is not None or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as http://127.0.0.1:8000")
    return text.rstrip("/")


def _mib(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1024")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 86400 at most")
    return seconds


_REQUIRED: Sequence[tuple[str, str, _Type, str]] = (
    ("--listen", "HOST:PORT", _host_port, "where gRPC listens; an IPv6 host in brackets"),
    ("--engine", "URL", _url, "where the engine answers HTTP"),
)
_OPTIONAL: Sequence[tuple[str, str, _Type, Any, str]] = (
    ("--instance-id", "ID", str, "", "the server's name in discovery; left out, a new one"),
    (
        *("--session-key-file", "FILE", Path, None),
        "the secret of all prefill and decode servers that work together: with it they know "
        "their KV sessions from forged ones",
    ),
    ("--tls-cert", "FILE", Path, None, "the server's certificate chain, PEM"),
    ("--tls-key", "FILE", Path, None, "its key, PEM, not encrypted"),
    ("--tls-client-ca", "FILE", Path, None, "demand client certificates of these authorities, PEM"),
    (
        *("--token-file", "FILE", Path, None),
        "holds the token that every call must carry as 'authorization: Bearer TOKEN'",
    ),
    ("--metrics", "HOST:PORT", _host_port, None, "serve /metrics for Prometheus there"),
    ("--max-message-mib", "N", _mib, 16, "the largest message taken, in MiB (16)"),
    (
        *("--grace", "SECONDS", _seconds, 30.0),
        "how long the engine, or streams where it is another's, may take to end (30)",
    ),
    (
        *("--linger", "SECONDS", _seconds, 0.0),
        "how long Health answers NOT_READY after the engine ended by itself (0)",
    ),
)
