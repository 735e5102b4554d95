"""Records on standard error: JSON for programs, plain lines for people."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from inferlab_adapters.openengine import logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger(logs.LOGGER)
    before = (root.handlers[:], root.level, ours.level, logging.raiseExceptions)
    yield
    root.handlers[:], level, ours_level, logging.raiseExceptions = before
    root.setLevel(level)
    ours.setLevel(ours_level)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_record_is_one_json_object_with_its_fields() -> None:
    stream = io.StringIO()
    logs.configure(stream)
    ours = logging.getLogger(f"{logs.LOGGER}.serve")
    ours.info("up at %s\nnow", "here", extra={"port": 1, "message_": "x"})
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "info",
        "logger": ours.name,
        "message": "up at here\nnow",
        "port": 1,
        "message_": "x",
    }


def test_a_field_never_replaces_what_every_record_has() -> None:
    stream = io.StringIO()
    logs.configure(stream)
    logging.getLogger(logs.LOGGER).warning("x", extra={"level": "mine", "path": logs})
    record = json.loads(stream.getvalue())
    assert record["level"] == "warning"
    assert "logs.py" in record["path"]


def test_others_are_heard_from_warnings_on_and_ours_from_info_on() -> None:
    stream = io.StringIO()
    logs.configure(stream)
    logging.getLogger("elsewhere").info("not heard")
    logging.getLogger("elsewhere").warning("heard")
    logging.getLogger(logs.LOGGER).debug("not heard")
    logging.getLogger(logs.LOGGER).info("heard too")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == [
        "heard",
        "heard too",
    ]


def test_a_traceback_stays_in_its_record() -> None:
    stream = io.StringIO()
    logs.configure(stream)
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger(logs.LOGGER).exception("failed")
    record = json.loads(stream.getvalue())
    assert record["exception"].endswith("ValueError: odd")


def test_people_get_plain_lines() -> None:
    stream = Terminal()
    logs.configure(stream)
    logging.getLogger(logs.LOGGER).info("up", extra={"port": 1, "host": "here"})
    logging.getLogger(logs.LOGGER).warning("odd")
    assert stream.getvalue().splitlines() == [
        "openengine: up (port=1, host=here)",
        "openengine: warning: odd",
    ]


def test_people_get_tracebacks_too() -> None:
    stream = Terminal()
    logs.configure(stream)
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger(logs.LOGGER).exception("failed")
    assert stream.getvalue().splitlines()[-1] == "ValueError: odd"


def test_a_closed_standard_error_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    logs.configure()
    logging.getLogger(logs.LOGGER).warning("nobody hears it")
