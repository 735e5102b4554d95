"""A real SGLang server on the CPU, by ``oe smoke``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.smoke.oe import ALL_ENDED_WELL, EXAMPLES, oe_smoke

pytestmark = pytest.mark.smoke

drive = partial(oe_smoke, "sglang", "sglang-serve")


def test_a_single_server_completes_on_each_path(tmp_path: Path) -> None:
    report = drive(EXAMPLES / "sglang-cpu-single.json", tmp_path)
    assert report["reset"]["ok"]
    assert report["exits"] == {"server": ALL_ENDED_WELL}
