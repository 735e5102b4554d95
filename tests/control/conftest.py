"""What the tests of launching share."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferlab_adapters.control import readiness, run, state, stop, supervisor
from inferlab_adapters.control.state import StateRoot
from tests.control.fake_engine import Launcher


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    """Launches with short waits; no test depends on how short."""
    monkeypatch.setattr(stop, "HELPERS_SECONDS", 0.3)
    monkeypatch.setattr(state, "_PATIENCE", 0.1)
    for module, name in (
        (stop, "_POLL_SECONDS"),
        (readiness, "_POLL_SECONDS"),
        (supervisor, "POLL_SECONDS"),
        (run, "POLL_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.02)
    return Launcher(StateRoot(tmp_path / "state"))
