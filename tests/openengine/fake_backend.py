"""A backend for :mod:`fake_child`; its URL's path is the folder where that program writes."""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from inferlab_adapters.openengine.engine import (
    Check,
    EngineFacts,
    EngineFault,
    GenerateRequest,
    Role,
    TokenEvent,
)
from tests.openengine.scripted import ScriptedEngine, Step, tokens


class HttpEngine(ScriptedEngine):
    """Scripted, but it is there only while the program is.

    A request with the prompt ``endless`` runs until the program ends.
    """

    def __init__(self, url: str, role: Role) -> None:
        super().__init__(role, script=self._steps)
        self._folder = Path(urlsplit(url).path)

    async def facts(self) -> EngineFacts:
        if not self._healthy():
            raise EngineFault("not_ready", "the engine is loading", retryable=True)
        return await super().facts()

    async def checks(self, probe: bool) -> Sequence[Check]:
        return (Check(name="http", state="ready" if self._healthy() else "not_ready"),)

    def _steps(self, request: GenerateRequest) -> Iterable[Step]:
        if request.prompt != "endless":
            yield from tokens(3)
            return
        while self._healthy():
            yield TokenEvent(0, (66,), "a")
            yield 0.02
        yield EngineFault("internal", "the engine is gone")

    def _healthy(self) -> bool:
        connection = None
        try:
            port = int((self._folder / "port").read_text())
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            if connection is not None:
                connection.close()


def create(url: str, role: Role, options: Mapping[str, Any]) -> HttpEngine:
    """What the supervisor loads."""
    engine = HttpEngine(url, role)
    engine.described = replace(engine.described, engine_name=" ".join(options.get("argv", ["-"])))
    return engine
