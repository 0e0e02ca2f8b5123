"""Structured logs: one JSON object per line, or plain lines for a terminal."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Time, level, message, and whatever was said beside it.

    >>> record = logging.makeLogRecord({"msg": "applied", "levelname": "INFO", "created": 0, "job": "q5"})
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00+00:00", "level": "info", "message": "applied", "job": "q5"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            if record.created
            else datetime.fromtimestamp(0, UTC).isoformat(),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        said |= beside(record)
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


class PlainLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        more = "".join(f" {key}={value}" for key, value in beside(record).items())
        text = f"{datetime.fromtimestamp(record.created, UTC):%H:%M:%S} {record.levelname.lower()}: "
        text += "".join(sign if sign.isprintable() else "�" for sign in f"{record.getMessage()}{more}")
        return text + (f"\n{self.formatException(record.exc_info)}" if record.exc_info else "")


def beside(record: logging.LogRecord) -> dict[str, object]:
    """What a record says beyond its message."""
    return {key: value for key, value in vars(record).items() if key not in _USUAL}


def set_up_logs(form: Literal["json", "text"], level: str = "INFO") -> None:
    """Let the service's log go to stderr in a form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else PlainLines())
    for name in ("streamtune.service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level if name == "streamtune.service" else "WARNING")
        logger.propagate = False
