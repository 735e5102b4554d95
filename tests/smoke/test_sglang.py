"""A real SGLang server on the CPU, launched exactly as rendered."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.smoke.launch import EXAMPLES, launch

pytestmark = pytest.mark.smoke

drive = partial(launch, "oe_adapter_sglang", "sglang-serve")


def test_a_single_server_completes_on_each_path(tmp_path: Path) -> None:
    report = drive(EXAMPLES / "sglang-cpu-single.json", tmp_path)
    assert "reset" in report
    assert report["exit_codes"] == {"server": 0}
