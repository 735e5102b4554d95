"""``oe conformance``: does a server keep to OpenEngine?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inferlab_adapters.cli import common
from inferlab_adapters.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from inferlab_adapters.openengine.conformance.known import Deviation
    from inferlab_adapters.openengine.conformance.report import Report

_FAILED, _UNREACHABLE = 1, 3
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("conformance")
@click.argument("address", metavar="HOST:PORT")
@click.option(
    "--revision",
    type=click.Choice(["seed", "v0.1.0"]),
    help="The revision to ask in; left out, every one that the server serves.",
)
@click.option("--model", metavar="NAME", default="", help="A model of the server; else its first.")
@click.option(
    "--peer",
    metavar="HOST:PORT",
    help="The decode server of the pair whose prefill server is asked, or the other way round.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=30,
    show_default=True,
    help="Until a call counts as hanging. A tenth of it is soon.",
)
@click.option(
    "--known-deviations",
    metavar="FILE",
    type=_FILE,
    help="YAML or JSON: a list of {rule, reason}, and a revision if just one. They do not fail.",
)
@click.option("--drain", is_flag=True, help="Also drain the server, which then must be restarted.")
@click.option(
    "--lora", metavar="DIR", default="", help="An adapter's folder, as the server sees it."
)
@click.option("--tls-ca", metavar="FILE", type=_FILE, help="PEM; the server is asked over TLS.")
@click.option("--token-file", metavar="FILE", type=_FILE, help="The bearer token to send.")
@common.json_option
def command(
    address: str,
    revision: str | None,
    model: str,
    peer: str | None,
    timeout: float,
    known_deviations: Path | None,
    drain: bool,
    lora: str,
    tls_ca: Path | None,
    token_file: Path | None,
    as_json: bool,
) -> int:
    """Ask an OpenEngine server everything that the contract demands, rule by rule.

    A rule is passed, failed, known (a failure that --known-deviations names) or skipped, with the
    reason. The server should have no other users: all its requests are aborted once.

    \b
    Exit codes:
      0  no rule failed
      1  a rule failed
      2  wrong command line
      3  the server cannot be reached

    \b
    Examples:
      oe conformance 127.0.0.1:9000
      oe conformance 127.0.0.1:9000 --revision v0.1.0 --json
      oe conformance prefill:9000 --peer decode:9000 --known-deviations known.yaml
    """
    try:
        from inferlab_adapters.openengine.conformance.known import apply
        from inferlab_adapters.openengine.conformance.runner import Asked, Unreachable, run
        from inferlab_adapters.openengine.conformance.subject import Allowed
    except ModuleNotFoundError as error:
        what = f"needs {error.name}: install inferlab-adapters[openengine]"
        raise click.UsageError(what) from None

    asked = Asked(
        address=_address("HOST:PORT", address),
        peer=_address("--peer", peer) if peer else "",
        revisions=(revision,) if revision else (),
        model=model,
        timeout=timeout,
        ca=_authority(tls_ca) if tls_ca else None,
        token=_token(token_file) if token_file else "",
        allowed=Allowed(drain=drain, lora=lora),
    )
    deviations = _deviations(known_deviations) if known_deviations else []
    try:
        reports = asyncio.run(run(asked))
    except Unreachable as error:
        note(f"{error}; check the address, and that the server is up")
        return _UNREACHABLE
    for report in reports:
        apply(report, deviations)
    if as_json:
        print_json({"server": address, "revisions": [report.as_json() for report in reports]})
    else:
        for report in reports:
            _show(report)
    return _FAILED if any(report.failed for report in reports) else 0


def _show(report: Report) -> None:
    print_table(report.title(), ("RULE", "RESULT", "WHAT"), report.rows())
    click.echo(f"{report.revision}: {report.summary()}")
    if report.failed:
        click.echo(f"{report.revision}: failed: {', '.join(report.states('failed'))}")
    for rule in report.stale:
        note(f"{rule}: is a known deviation and passes in {report.revision}; take it off the list")


def _address(what: str, text: str) -> str:
    from inferlab_adapters.addresses import host_problem

    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise click.UsageError(f"{what}: must be HOST:PORT (got {text!r})")
    problem = host_problem(bare)
    if problem is not None or (":" in host and bare == host):
        what_is = problem[0] if problem else "an IPv6 address needs brackets"
        raise click.UsageError(f"{what}: {what_is} (got {text!r})")
    return text


def _authority(path: Path) -> bytes:
    import ssl

    try:
        # gRPC itself takes any bytes, and then no handshake succeeds.
        raw = path.read_bytes()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=raw.decode())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no PEM"
        raise click.UsageError(f"--tls-ca: cannot use {path} ({reason})") from None
    return raw


def _token(path: Path) -> str:
    from inferlab_adapters.openengine.auth import read_token
    from inferlab_adapters.openengine.files import UnusableFile

    try:
        return read_token(path)
    except UnusableFile as error:
        raise click.UsageError(f"--token-file: {error}") from None


def _deviations(path: Path) -> list[Deviation]:
    from inferlab_adapters.openengine.conformance.known import BadDeviations, read

    try:
        return read(path)
    except BadDeviations as error:
        raise click.UsageError(f"--known-deviations: {path}: {error}") from None
