"""What this room raises on purpose."""

from __future__ import annotations

import os
import re
from pathlib import Path

from streamtune.errors import StreamTuneError

# How a traceback of a Python task ends where one of our errors was the cause.
_OURS = re.compile(r"^\s*streamtune\.[\w.]+Error: (.+)$", re.MULTILINE)

_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_READ_ONLY = "Read-only file system"


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


def stopped(error: Exception, location: str) -> StorageError:
    """What to say when Spark, or a write, has failed in the middle of a step on the tables at a location.

    A full or read-only disk is said as such: Java tells of the one in the last of many causes, and of the other not at
    all (it could not make a folder).
    """
    full = _FULL.search(str(error))
    if full is not None:
        place = (error.filename if isinstance(error, OSError) else None) or location
        return StorageError(
            f"{place} cannot be written: {full.group()}. Make room there, and where Spark keeps what does not fit "
            "into memory (spark.local.dir), and run this step again: what is complete stays"
        )
    if _READ_ONLY in str(error) or _is_read_only(location):
        return StorageError(
            f"{location} cannot be written: {_READ_ONLY}. Mount it for writing, and run this step again: what is "
            "complete stays"
        )
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        place = error.filename or location
        return StorageError(
            f"{place} cannot be used: {error.strerror or error}. Check the disk, and run this step again"
        )
    return StorageError(f"Spark stopped while it worked on {location}: {told_by_spark(error)}")


def _is_read_only(location: str) -> bool:
    """Whether the local disk of a location, or of the first folder above it that is there, takes no writes."""
    path = Path(location.removeprefix("file:"))
    try:
        there = next(place for place in (path, *path.absolute().parents) if place.exists())
        return bool(os.statvfs(there).f_flag & os.ST_RDONLY)
    except (OSError, ValueError, StopIteration):
        return False
