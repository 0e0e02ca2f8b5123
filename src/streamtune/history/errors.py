"""What the pipeline raises on purpose."""

from __future__ import annotations

from streamtune.errors import StreamTuneError


class HistoryError(StreamTuneError):
    """A step of the pipeline that cannot be done: no Java, no such table, an unreadable input."""
