"""An adapter as a control plane sees it: JSON bytes in, JSON bytes out.

The program of an adapter is ``respond`` with files and streams around it; asking ``respond``
itself sends the same bytes, and lets the caller hear all faults of a refusal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from inferlab_adapters.adapter import Adapter, Context
from inferlab_adapters.catalogue import UNAVAILABLE
from inferlab_adapters.control.refusal import Refused
from inferlab_adapters.control.types import Json
from inferlab_adapters.errors import AdapterError, Fault, did_you_mean, one_of, shown
from inferlab_adapters.installed import installed_version
from inferlab_adapters.origins import ProcessTrace
from inferlab_adapters.wire import respond

GROUP = "inferlab_adapters.adapters"


def installed_adapters() -> dict[str, Adapter]:
    """Every installed adapter by the framework's id on the wire, in name order."""
    found: list[Adapter] = [point.load() for point in entry_points(group=GROUP)]
    return {adapter.framework: adapter for adapter in sorted(found, key=lambda a: a.framework)}


class Client:
    """Asks one adapter, for one version of its framework.

    ``notes`` collects the warnings of every request, each once.
    """

    def __init__(self, adapter: Adapter, framework_version: str) -> None:
        self.adapter = adapter
        self.framework_version = framework_version
        self.notes: list[str] = []

    def plan(self, request: Json) -> Json:
        """The topology for a plan request. Raises :class:`Refused` with every fault."""
        return self._result(request, None)

    def render(self, request: Json, trace: Callable[[ProcessTrace], None] | None = None) -> Json:
        """The processes for a render request; ``trace`` hears why each token is there."""
        return self._result(request, trace)

    def ask(
        self,
        request: Json,
        refused: Callable[[AdapterError], None] | None = None,
        trace: Callable[[ProcessTrace], None] | None = None,
    ) -> Json:
        """The whole response to a request, as it is on the wire; ``refused`` hears all faults."""
        context = Context(self.framework_version, self._note, refused, trace)
        response: Json = json.loads(respond(json.dumps(request).encode(), self.adapter, context))
        return response

    def _result(self, request: Json, trace: Callable[[ProcessTrace], None] | None) -> Json:
        errors: list[AdapterError] = []
        response = self.ask(request, errors.append, trace)
        if response["status"] == "error":
            faults = errors[0].faults if errors else (Fault("", response["error"]["message"]),)
            raise Refused(*faults)
        result: Json = response["result"]["output"]
        return result

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def connect(
    framework: str, *, engine_version: str | None = None, engine_env: Path | None = None
) -> Client:
    """The client of a framework's adapter.

    Its framework version is ``engine_version``, else the one installed in the virtual environment
    ``engine_env``, else the one beside this program. Raises :class:`Refused` for a framework
    without an adapter, and for an environment without the engine.
    """
    adapters = installed_adapters()
    if framework not in adapters:
        what = f"no adapter is installed for framework {shown(framework)}"
        hint = did_you_mean(framework, adapters)
        hint = hint or (f"installed: {one_of(adapters)}" if adapters else "pip install one")
        raise Refused(Fault("", what, hint))
    adapter = adapters[framework]
    if engine_version is not None:
        return Client(adapter, engine_version)
    if engine_env is None:
        client = Client(adapter, adapter.observed_version())
    else:
        client = Client(adapter, version_in(engine_env, adapter))
    if client.framework_version == UNAVAILABLE:
        where = "here" if engine_env is None else f"in {engine_env}"
        newest = adapter.recorded_versions()[-1]
        client.notes.append(
            f"no {adapter.distribution} is installed {where}, so that the options of {newest} "
            "count and an unknown one is passed on; an engine environment or version helps"
        )
    return client


def version_in(engine_env: Path, adapter: Adapter) -> str:
    """The framework version installed in a virtual environment; ``unavailable`` without one.

    Raises :class:`Refused` where there is no such environment.
    """
    folders = sorted(map(str, engine_env.glob("lib/python3*/site-packages")))
    if not folders:
        what = f"{engine_env} is no virtual environment: it has no lib/python3*/site-packages"
        raise Refused(Fault("", what, "give the folder that holds bin/python"))
    return installed_version(adapter.distribution, folders) or UNAVAILABLE
