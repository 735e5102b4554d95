"""What the server says on standard error: lines for people on a terminal, else lines of JSON.

Records are those of :mod:`logging`; what a record is given as ``extra`` becomes its fields. The
engine writes to the same streams by itself, and nothing touches what it writes.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

LOGGER = "inferlab_adapters.openengine"
"""The logger of everything here; a module's own logger is below it."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


def configure(stream: TextIO | None = None) -> None:
    """Send all records to ``stream`` (standard error): ours from INFO on, others' from WARNING."""
    stream = stream or sys.stderr
    # Nobody may be listening; serving matters more, and a traceback would not be heard either.
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    if stream is None:
        # Python sets a standard stream to None when the caller closed it.
        root.addHandler(logging.NullHandler())
        return
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainLines() if stream.isatty() else JsonLines())
    root.addHandler(handler)


class PlainLines(logging.Formatter):
    """``openengine: message (field=value)``, with the level from WARNING on."""

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        shown = ", ".join(f"{name}={value}" for name, value in _fields(record).items())
        tail = f" ({shown})" if shown else ""
        lines = [f"openengine: {level}{record.getMessage()}{tail}"]
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        return "\n".join(lines)


class JsonLines(logging.Formatter):
    """One object a line: time (RFC 3339, UTC), level, logger, message, and the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        for name, value in _fields(record).items():
            line.setdefault(name, value)
        return json.dumps(line, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
