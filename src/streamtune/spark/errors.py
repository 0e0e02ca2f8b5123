"""What this room raises on purpose."""

from __future__ import annotations

import re

from streamtune.errors import StreamTuneError

# How a traceback of a Python task ends where one of our errors was the cause.
_OURS = re.compile(r"^\s*streamtune\.[\w.]+Error: (.+)$", re.MULTILINE)


class StorageError(StreamTuneError):
    """No Java, no such file or table, or a table that another process is writing."""


def told_by_spark(error: Exception) -> str:
    """What an error of Spark says, in one line: our own words where a task raised them, else without the JVM's frames.

    >>> told_by_spark(RuntimeError("Traceback …\\nstreamtune.spark.errors.StorageError: a.parquet cannot be read"))
    'a.parquet cannot be read'
    """
    text = str(error)
    ours = _OURS.search(text)
    if ours is not None:
        return ours.group(1).strip()[:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = next((line for line in lines if "Exception: " in line or line.startswith("[")), lines[0] if lines else "")
    return told[:300] or type(error).__name__
