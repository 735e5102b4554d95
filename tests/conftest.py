"""Options shared by all tests, and the signals that they send to what they start."""

from __future__ import annotations

import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden folders anew",
    )


def pytest_configure() -> None:
    # A shell's background job ignores these, and so would every program under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
