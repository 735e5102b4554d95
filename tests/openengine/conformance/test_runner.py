"""Servers that vanish, hang, are closed to strangers, or fail at everything."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from inferlab_adapters.openengine.auth import BearerToken
from inferlab_adapters.openengine.conformance.check import ActiveCheck, active
from inferlab_adapters.openengine.conformance.report import Report
from inferlab_adapters.openengine.conformance.runner import Asked, Unreachable, run
from inferlab_adapters.openengine.engine import EngineFault
from inferlab_adapters.openengine.revisions import V0_1_0
from inferlab_adapters.openengine.server import Server
from inferlab_adapters.openengine.tls import TlsFiles, server_credentials
from tests.openengine.certificates import Authority
from tests.openengine.conformance.broken import model
from tests.openengine.conformance.model_server import Data, Hooks, Transport
from tests.openengine.conformance.model_tasks import Model
from tests.openengine.scripted import ScriptedEngine

_REVISION = ("v0.1.0",)
_TOKEN = "a-token-of-the-test"


def _checks(*rules: str) -> list[ActiveCheck]:
    return [check for check in active if check.rule in rules]


def _run(examined: Coroutine[Any, Any, list[Report]]) -> dict[str, tuple[str, str]]:
    (report,) = asyncio.run(examined)
    return {one.rule: (one.state, one.message) for one in report.outcomes}


def test_a_server_that_vanishes_ends_the_run() -> None:
    class Vanishes(Model):
        stop: Any = None

        async def Health(self, request: Any, metadata: Any) -> Data:
            asyncio.get_running_loop().call_soon(asyncio.ensure_future, self.stop())
            await asyncio.sleep(60)
            return {}

    async def examine() -> list[Report]:
        inner = model(Vanishes, "v0.1.0", "aggregated")
        assert isinstance(inner, Vanishes)
        async with Transport(inner, V0_1_0, Hooks()) as served:
            inner.stop = served.stop
            asked = Asked(address=served.address, revisions=_REVISION, timeout=5)
            return await run(asked, _checks("I1", "H1", "O10"))

    found = _run(examine())
    assert found["I1"][0] == "passed"
    assert found["H1"][0] == "failed"
    assert found["H1"][1].startswith("the server went away")
    assert found["O10"] == ("skipped", "the server is gone")


def test_a_stream_that_hangs_fails() -> None:
    class Hangs(Model):
        async def Generate(self, request: Any, metadata: Any) -> Any:
            async for event in super().Generate(request, metadata):
                if "finished" in event:
                    await asyncio.sleep(60)
                yield event

    async def examine() -> list[Report]:
        inner = model(Hangs, "v0.1.0", "aggregated")
        async with Transport(inner, V0_1_0, Hooks()) as served:
            asked = Asked(address=served.address, revisions=_REVISION, timeout=0.3)
            return await run(asked, _checks("O10"))

    state, message = _run(examine())["O10"]
    assert state == "failed"
    assert "did not end" in message


def test_a_server_whose_every_request_fails_is_not_let_off() -> None:
    async def examine() -> list[Report]:
        fault = EngineFault("internal", "it always fails")
        server = Server(ScriptedEngine(script=lambda request: [fault]), listen="127.0.0.1:0")
        port = await server.start()
        try:
            return await run(Asked(address=f"127.0.0.1:{port}", revisions=_REVISION, timeout=5))
        finally:
            await server.stop(0)

    failed = {rule for rule, (state, _) in _run(examine()).items() if state == "failed"}
    assert "O10" in failed


@pytest.mark.parametrize("trusted", [True, False])
def test_over_tls(trusted: bool, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "one"), Authority(tmp_path / "other")
    pair = authority.sign("server")
    credentials = server_credentials(TlsFiles(certificate=pair.certificate, key=pair.key))
    ca = (authority if trusted else other).certificate.read_bytes()

    async def examine() -> list[Report]:
        server = Server(ScriptedEngine(), listen="127.0.0.1:0", credentials=credentials)
        port = await server.start()
        asked = Asked(address=f"127.0.0.1:{port}", revisions=_REVISION, timeout=5, ca=ca)
        try:
            return await run(asked, _checks("I1"))
        finally:
            await server.stop(0)

    if trusted:
        assert _run(examine())["I1"] == ("passed", "")
    else:
        with pytest.raises(Unreachable, match="UNAVAILABLE"):
            asyncio.run(examine())


@pytest.mark.parametrize("token", [_TOKEN, "another"])
def test_the_token_opens_the_server(token: str) -> None:
    async def examine() -> list[Report]:
        server = Server(ScriptedEngine(), listen="127.0.0.1:0", interceptors=(BearerToken(_TOKEN),))
        port = await server.start()
        asked = Asked(address=f"127.0.0.1:{port}", revisions=_REVISION, timeout=5, token=token)
        try:
            return await run(asked, _checks("I1"))
        finally:
            await server.stop(0)

    if token == _TOKEN:
        assert _run(examine())["I1"] == ("passed", "")
    else:
        with pytest.raises(Unreachable, match="UNAUTHENTICATED"):
            asyncio.run(examine())
