"""The command: its table and JSON, its exit codes, known deviations."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from inferlab_adapters.cli.conformance import command
from inferlab_adapters.openengine.conformance.rules import of
from tests.openengine.conformance.broken import TIMEOUT
from tests.openengine.conformance.faults import Fault, sets
from tests.openengine.conformance.served import served

_FAULT = Fault(
    rule="I3", name="a branch", method="GetServerInfo", reply=sets("schema_release", "main")
)


@dataclass(frozen=True, kw_only=True)
class Done:
    code: int
    out: str
    err: str


def conformance(*arguments: object) -> Done:
    """Run the command as ``oe`` does."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = command.main([str(one) for one in arguments], standalone_mode=False)
        except click.ClickException as error:
            error.show()
            code = error.exit_code
    return Done(code=code, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of v0.1.0 that breaks I3."""
    with served(_FAULT) as found:
        yield found


@pytest.fixture(scope="module")
def as_json(address: str) -> tuple[int, dict[str, Any]]:
    done = conformance(address, "--json", "--timeout", TIMEOUT)
    return done.code, json.loads(done.out)


def _known(folder: Path, text: str) -> Path:
    path = folder / "known.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_json_names_every_rule_once(as_json: tuple[int, dict[str, Any]]) -> None:
    code, document = as_json
    (run,) = document["revisions"]
    assert code == 1
    assert run["revision"] == "v0.1.0"
    assert [one["rule"] for one in run["rules"]] == [rule.id for rule in of("v0.1.0")]
    failed = [one for one in run["rules"] if one["state"] == "failed"]
    assert [one["rule"] for one in failed] == ["I3"]
    assert "main" in failed[0]["message"]
    assert sum(run["counts"].values()) == len(run["rules"])


def test_the_table_shows_what_was_seen(address: str) -> None:
    done = conformance(address, "--revision", "v0.1.0", "--timeout", TIMEOUT)
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if line.split()[:1] == ["I3"])
    assert "failed" in line
    assert "'main'" in line
    assert done.out.splitlines()[-1] == "v0.1.0: failed: I3"


def test_a_known_deviation_does_not_fail_and_a_stale_one_is_named(
    address: str, tmp_path: Path
) -> None:
    known = _known(
        tmp_path,
        "- {rule: I3, reason: released from a branch}\n"
        "- {rule: I1, reason: it was so once}\n"
        "- {rule: I2, reason: of the other revision, revision: seed}\n",
    )
    done = conformance(address, "--json", "--timeout", TIMEOUT, "--known-deviations", known)
    (run,) = json.loads(done.out)["revisions"]
    found = {one["rule"]: one for one in run["rules"]}
    assert done.code == 0
    assert found["I3"]["state"] == "known"
    assert found["I3"]["message"].startswith("released from a branch")
    assert run["stale"] == ["I1"]


def test_a_revision_that_is_not_served_cannot_be_reached(address: str) -> None:
    done = conformance(address, "--revision", "seed", "--timeout", TIMEOUT)
    assert done.code == 3
    assert "does not serve OpenEngine seed" in done.err
    assert not done.out


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = conformance(f"127.0.0.1:{free.getsockname()[1]}", "--timeout", TIMEOUT)
    assert done.code == 3
    assert "UNAVAILABLE" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("127.0.0.1",),
        ("127.0.0.1:0",),
        ("127.0.0.1:70000",),
        ("::1:9000",),
        ("0.0.0.0:9000",),
        ("127.0.0.1:9000", "--peer", "nowhere"),
        ("127.0.0.1:9000", "--revision", "v2"),
        ("127.0.0.1:9000", "--timeout", "0"),
        ("127.0.0.1:9000", "--tls-ca", "no-such-file"),
        ("127.0.0.1:9000", "--tls-ca", __file__),
        ("127.0.0.1:9000", "--token-file", "no-such-file"),
        ("127.0.0.1:9000", "--known-deviations", "no-such-file"),
    ],
)
def test_wrong_command_lines(arguments: tuple[str, ...]) -> None:
    done = conformance(*arguments)
    assert done.code == 2
    assert done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{rule: I3}", "must be a list"),
        ("- I3", "/0: must be an object"),
        ("- {rule: I3}", "/0/reason"),
        ("- {rule: I99, reason: x}", "/0/rule"),
        ("- {rule: I3, reason: x, because: y}", "/0/because"),
        ("- {rule: I3, reason: x, revision: v2}", "/0/revision"),
        ('[{"rule": "I3",}]', "is not JSON"),
        ("- {rule: I3, reason: x}\n- {rule: [", "line 2:"),
        ("rule: I3", "must be a list"),
    ],
)
def test_wrong_deviations(text: str, told: str, tmp_path: Path) -> None:
    known = _known(tmp_path, text)
    done = conformance("127.0.0.1:9000", "--known-deviations", known)
    assert done.code == 2
    assert told in done.err
