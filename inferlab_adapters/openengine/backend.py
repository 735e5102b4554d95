"""From a framework's name to what talks to its engine: found through the adapter's declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeAlias, cast

from inferlab_adapters.errors import did_you_mean
from inferlab_adapters.openengine.engine import Engine, Role

GROUP = "inferlab_adapters.adapters"

Create: TypeAlias = Callable[[str, Role, Mapping[str, Any]], Engine]
"""``create(url, role, options)`` of a backend's module.

``options``: ``argv``, the engine's command line, where it is started here.
"""


class NoBackend(Exception):
    """There is no backend; the message says why, in one sentence."""


def backend_module(framework: str) -> str:
    """The module that the adapter of ``framework`` declares. Raises :class:`NoBackend`."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name != framework)
    known = []
    for point in points:
        adapter = _adapter(point)
        if adapter.framework == framework:
            module = adapter.engine_backend
            if not module:
                raise NoBackend(f"--framework: {adapter.name} has no OpenEngine backend")
            return str(module)
        known.append(str(adapter.framework))
    hint = did_you_mean(framework, known) or "install its adapter beside this package"
    raise NoBackend(f"--framework: no installed adapter is for {framework!r}; {hint}")


def load(module: str) -> Create:
    """A backend's ``create``. Raises :class:`NoBackend` where the module cannot be imported."""
    try:
        return cast("Create", import_module(module).create)
    except ImportError as error:
        hint = "pip install 'inferlab-adapters[openengine]'"
        raise NoBackend(f"the backend {module} cannot be imported: {error}; {hint}") from None
    except AttributeError:
        raise NoBackend(f"the backend {module} has no create()") from None


def _adapter(point: EntryPoint) -> Any:
    try:
        return point.load()
    except ImportError as error:
        raise NoBackend(f"the adapter {point.value} cannot be imported: {error}") from None
