"""What the checks of deployments that speak OpenEngine share."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from grpc import StatusCode, aio

from inferlab_adapters.openengine.client import Client, Outcome
from inferlab_adapters.openengine.revisions import SEED, Revision
from tests.support.control_plane import Json
from tests.support.engines import ROOT

PROMPT_IDS = list(range(10, 40))
OE = (sys.executable, "-m", "inferlab_adapters.cli")


CONNECT_SECONDS = 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """One that is up. ``addresses``: where each process speaks OpenEngine."""

    name: str
    addresses: Mapping[str, str]
    folder: Path

    @asynccontextmanager
    async def client(self, process: str, revision: Revision = SEED) -> AsyncIterator[Client]:
        """A client of one of its servers."""
        options = [("grpc.max_receive_message_length", -1)]
        async with aio.insecure_channel(self.addresses[process], options=options) as channel:
            # Two engines that poll for transfers leave little of two cores to anybody else.
            await asyncio.wait_for(channel.channel_ready(), CONNECT_SECONDS)
            yield Client(channel, revision)


Check: TypeAlias = Callable[[Deployment], Awaitable[None]]


class Checks(dict[str, Check]):
    """Checks by name, in the order in which they are made."""

    def __call__(self, function: Check) -> Check:
        self[function.__name__] = function
        return function


def oe(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``oe`` to its end."""
    return subprocess.run([*OE, *map(str, arguments)], cwd=ROOT, text=True, capture_output=True)


def state(name: str) -> Json:
    """What ``oe ps`` knows of a deployment."""
    found: list[Json] = json.loads(oe("ps", "--json").stdout)
    return next(one for one in found if one["name"] == name)


def speaking(state: Json) -> dict[str, str]:
    """Where each process of a deployment speaks OpenEngine."""
    return {
        process["name"]: f"{host}:{port}"
        for process in state["processes"]
        for kind, host, port in process["endpoints"]
        if kind == "openengine"
    }


def conforms(served: Deployment, process: str, revision: str, least: int, *more: str) -> None:
    """A server keeps every rule that can be checked on it, and so many are checked."""
    done = oe("conformance", served.addresses[process], "--revision", revision, "--json", *more)
    (served.folder / f"{process}-{revision}.json").write_text(done.stdout, encoding="utf-8")
    assert done.returncode in (0, 1), done.stderr
    (report,) = json.loads(done.stdout)["revisions"]
    failed = [one for one in report["rules"] if one["state"] not in ("passed", "skipped")]
    assert failed == [], failed
    assert (done.returncode, report["revision"]) == (0, revision)
    assert report["counts"]["passed"] >= least, report["counts"]


_number = 0


def asking(**fields: Any) -> Json:
    """A greedy request for 8 tokens after 30."""
    global _number
    _number += 1
    return {
        "request_id": f"check-{_number}",
        "model": "tiny",
        "token_ids": {"ids": PROMPT_IDS},
        "sampling": {"temperature": 0.0},
        "stopping": {"max_tokens": 8, "ignore_eos": True},
        **fields,
    }


def ids(outcome: Outcome) -> list[int]:
    """The tokens of a stream that ended well."""
    assert outcome.code is StatusCode.OK, outcome
    *tokens, last = outcome.messages
    assert last.WhichOneof("event") == "finished", last
    assert {message.WhichOneof("event") for message in tokens} == {"token"}
    return [token.token_id for message in tokens for token in message.token.tokens]


def refused(outcome: Outcome, code: StatusCode, about: str = "") -> None:
    """It was not accepted, and the message says why in one line."""
    assert (outcome.code, outcome.messages) == (code, ()), outcome
    assert about in outcome.details, outcome.details
    assert "\n" not in outcome.details


def engines() -> dict[int, bytes]:
    """The API servers of vLLM in this process namespace: their command lines by their ids."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if len(words) > 2 and words[1].endswith(b"/vllm") and words[2] == b"serve":
                found[int(entry.name)] = b" ".join(words)
    return found
