"""What this room raises on purpose."""

from __future__ import annotations

from streamtune.errors import StreamTuneError


class StorageError(StreamTuneError):
    """No Java, no such file or table, or a table that another process is writing."""
