"""A backend of OpenEngine for ``fake_vllm``: scripted, and there only while that answers HTTP.

``openengine`` in the variable ``FAKE_VLLM`` may be ``no_text`` for an engine that says nothing, and
``hang`` for one that never does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from inferlab_adapters.openengine.engine import (
    EngineFacts,
    EngineFault,
    FinishedEvent,
    GenerateRequest,
    Role,
    TokenEvent,
)
from tests.openengine.scripted import ScriptedEngine, Step, facts_with


class FakeEngine(ScriptedEngine):
    """Serves the model whose name its engine was given."""

    def __init__(self, url: str, role: Role, model: str) -> None:
        super().__init__(role)
        described = facts_with().models[0]
        self.described = replace(self.described, models=(replace(described, served_name=model),))
        self._url = urlsplit(url)
        how = json.loads(os.environ.get("FAKE_VLLM", "{}"))
        self.script = {"no_text": _no_text, "hang": _hang}.get(how.get("openengine", ""))

    async def facts(self) -> EngineFacts:
        try:
            self._answers()
        except OSError as error:
            raise EngineFault("not_ready", f"the engine is loading: {error}") from None
        return await super().facts()

    def _answers(self) -> None:
        connection = HTTPConnection(self._url.hostname or "", self._url.port, timeout=5)
        try:
            connection.request("GET", "/health")
            connection.getresponse().read()
        finally:
            connection.close()


def _no_text(request: GenerateRequest) -> Iterable[Step]:
    yield TokenEvent(0, (66,), "")
    yield FinishedEvent(0, "length")


def _hang(request: GenerateRequest) -> Iterable[Step]:
    yield 600.0


def create(url: str, role: Role, options: Mapping[str, Any]) -> FakeEngine:
    """What the supervisor loads."""
    argv = list(options["argv"])
    return FakeEngine(url, role, argv[argv.index("--served-model-name") + 1])
