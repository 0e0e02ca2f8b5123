"""The audit trail: every decision as one JSON line, readable after a crash."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from streamtune.errors import StreamTuneError
from streamtune.outputs import check_output, redacted


class AuditTrail:
    """Appends events to a file. Each line is written whole and flushed, so a killed process loses nothing it said.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "audit.jsonl"
    ...     with AuditTrail(path) as trail:
    ...         trail.write("observed", {"backpressure": False})
    ...     read_audit(path)
    [{'event': 'observed', 'backpressure': False}]
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._descriptor: int | None = None
        if path is not None:
            check_output(path, "--audit")
            try:
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            except OSError as error:
                raise self._unwritable(error) from error
            self._end_broken_line(self._descriptor)

    @staticmethod
    def _end_broken_line(descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")

    def write(self, event: str, details: Mapping[str, Any]) -> None:
        if self._descriptor is not None:
            line = json.dumps({"event": event, **details}, allow_nan=True, default=str)
            try:
                self._put(f"{redacted(line)}\n".encode())
            except OSError as error:
                raise self._unwritable(error) from error

    def _put(self, line: bytes) -> None:
        """A disk that is nearly full takes a part of a line first, and says so only when asked for the rest."""
        while line and self._descriptor is not None:
            line = line[os.write(self._descriptor, line) :]

    def _unwritable(self, error: OSError) -> StreamTuneError:
        return StreamTuneError(
            f"the audit trail {self.path} cannot be written: {error.strerror}. What it says so far stays; make room, "
            "or choose another --audit file"
        )

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_audit(path: Path) -> list[dict[str, Any]]:
    """All whole events of a trail; a line that a crash cut short or that is not text is left out."""
    events = []
    for line in path.read_bytes().split(b"\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # cut short, or not UTF-8
            continue
        if isinstance(event, dict):
            events.append(event)
    return events
