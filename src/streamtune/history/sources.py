"""Which of the listed files can be read at all, and whether all of them were: no file is lost without a reason.

Every file is looked at before Spark reads its rows: one that is damaged, or of a kind that nobody here can read,
becomes a rejected file with its reason, and the others go in. Afterwards what was listed is compared with what was
read, file by file.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from streamtune.history import reasons
from streamtune.history.errors import HistoryError
from streamtune.spark.files import FileStatus, literal

_OTHER_COMPRESSION = (".bz2", ".zst", ".lz4", ".snappy", ".deflate", ".xz", ".zip", ".7z", ".tar", ".tgz", ".rar")
_GZIP_STEP_BYTES = 1 << 20
_PROBED = "path string, is_whole boolean, rows bigint, bytes bigint, shape string"
_BYTE_ORDER_MARK_BYTES = 3


@dataclass(frozen=True)
class Refused:
    """A file of which not everything could be read, and why."""

    file: FileStatus
    reason: str


@dataclass(frozen=True)
class Sources:
    """Files by the way they are read; ``rows`` and ``sizes`` are what to expect of each, where that is known."""

    text: tuple[FileStatus, ...] = ()
    parquet: Mapping[str, tuple[FileStatus, ...]] = field(default_factory=dict)  # by shape
    refused: tuple[Refused, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def readable(self) -> tuple[FileStatus, ...]:
        return (*self.text, *(file for files in self.parquet.values() for file in files))


def distinct_files(files: Iterable[FileStatus]) -> list[FileStatus]:
    """Every local file once, whatever links lead to it; the shortest of its names that can be spelled stays."""
    found: dict[str, FileStatus] = {}
    for file in sorted(files, key=lambda one: (bool(one.spelled), len(one.path), one.path)):
        is_local = urlsplit(file.path).scheme in ("", "file")
        real = os.path.realpath(file.path.removeprefix("file:")) if is_local else file.path
        found.setdefault(file.spelled or real, file)
    return sorted(found.values(), key=lambda one: one.path)


def sort_out(spark: SparkSession, files: Sequence[FileStatus]) -> Sources:
    """Look into every file that can be damaged, in Spark tasks, and put the files in order."""
    refused = [Refused(file, reasons.UNSUPPORTED_FILE) for file in files if _is_unsupported(file)]
    left = [file for file in files if not _is_unsupported(file)]
    parquet = [file for file in left if _ends(file, ".parquet")]
    gzipped = [file for file in left if _ends(file, ".gz")]
    text = [file for file in left if not _ends(file, ".parquet")]
    # Spark does not open an empty file. As gzip that is fine, as Parquet it is damage.
    refused += [Refused(file, reasons.UNREADABLE_FILE) for file in parquet if not file.size_bytes]
    parquet, gzipped = ([file for file in files if file.size_bytes] for files in (parquet, gzipped))
    probes = {**_probe(spark, parquet, probe_parquet), **_probe(spark, gzipped, probe_gzip)}
    by_shape: dict[str, list[FileStatus]] = {}
    for file in parquet:
        probe = probes[file.path]
        if probe.is_whole:
            by_shape.setdefault(probe.shape, []).append(file)
        else:
            refused.append(Refused(file, reasons.UNREADABLE_FILE))
    # What can be decompressed of a damaged gzip file is kept beside the rejected file.
    refused += [Refused(file, reasons.UNREADABLE_FILE) for file in gzipped if not probes[file.path].is_whole]
    plain = {file.path: file.size_bytes for file in text if not _ends(file, ".gz")}
    return Sources(
        text=tuple(text),
        parquet={shape: tuple(group) for shape, group in sorted(by_shape.items())},
        refused=tuple(refused),
        rows={file.path: int(probes[file.path].rows) for group in by_shape.values() for file in group},
        sizes={**plain, **{file.path: int(probes[file.path].bytes) for file in gzipped if probes[file.path].is_whole}},
    )


def _ends(file: FileStatus, ending: str) -> bool:
    """As Hadoop compares endings: to it, .GZ is a gzip file too."""
    return file.path.lower().endswith(ending)


def _is_unsupported(file: FileStatus) -> bool:
    """Compressed in a way that cannot be checked for damage; or Hadoop cannot open it, or would wait forever."""
    name, place = file.path.rpartition("/")[2], urlsplit(file.path).path if "://" in file.path else file.path[5:]
    # Hadoop takes a colon for the end of a scheme: in a name always, in a folder if the path is matched as a pattern.
    has_bad_colon = ":" in name or (":" in place and literal(file.path) != file.path)
    return name.lower().endswith(_OTHER_COMPRESSION) or has_bad_colon or not file.is_ordinary


def _probe(spark: SparkSession, files: Sequence[FileStatus], task: Any) -> dict[str, Any]:
    """(path, is_whole, rows, bytes, shape) of every file: a handful of values each, whatever is in them."""
    if not files:
        return {}
    contents = spark.read.format("binaryFile").load([literal(file.path) for file in files]).select("path", "content")
    return {row.path: row for row in contents.mapInArrow(task, _PROBED).toLocalIterator()}


def probe_parquet(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decodes every page: a damaged footer, a flipped byte or a cut file is found here, not in the middle of a job."""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield _probed(path.as_py(), *_parquet(content.as_buffer()))


def _parquet(content: Any) -> tuple[bool, int, int, str]:
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        rows = sum(len(part) for part in file.iter_batches(batch_size=4096))
        return rows == file.metadata.num_rows, rows, len(content), str(file.schema_arrow.remove_metadata())
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError):
        return False, 0, len(content), ""


def probe_gzip(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            size = gunzipped_bytes(content.as_buffer())
            yield _probed(path.as_py(), size is not None, 0, size or 0, "")


def gunzipped_bytes(content: Any) -> int | None:
    """Decompress and forget: how much there was, None where it is damaged.

    A gzip file may have several members, one after the other; an empty one has none.
    """
    view, size = memoryview(content), 0
    while len(view):
        member = zlib.decompressobj(wbits=31)
        used = 0
        try:
            while used < len(view) and not member.eof:
                size += len(member.decompress(view[used : used + _GZIP_STEP_BYTES]))
                used += _GZIP_STEP_BYTES
        except zlib.error:
            return None
        if not member.eof:
            return None
        view = view[min(used, len(view)) - len(member.unused_data) :]
    return size


def _probed(path: str, is_whole: bool, rows: int, size: int, shape: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"path": [path], "is_whole": [is_whole], "rows": [rows], "bytes": [size], "shape": [shape]}
    )


def compare(sources: Sources, staged: DataFrame) -> list[Refused]:
    """What was read of each file against what was listed; files with lines that were skipped, as refused ones.

    ``staged`` has the columns ``source_file`` and ``raw_bytes``, one row per line. A file that was read twice, or that
    nobody listed, is a defect in StreamTune and ends the ingest before anything is stored.
    """
    counts = staged.groupBy("source_file").agg(sql.count("*").alias("rows"), sql.sum("raw_bytes").alias("bytes"))
    read = {row.source_file: (int(row["rows"]), int(row["bytes"] or 0)) for row in counts.toLocalIterator()}
    listed = {file.path: file for file in sources.readable}
    for path in sorted(set(read) - set(listed)):
        raise _defect(f"'{path}' was read, but not listed")
    lost = []
    for path, file in listed.items():
        lines, size = read.get(path, (0, 0))
        if path in sources.rows and lines != sources.rows[path]:
            if lines > sources.rows[path]:
                raise _defect(f"'{path}' has {sources.rows[path]} rows, but {lines} were read")
            lost.append(Refused(file, reasons.UNREADABLE_FILE))
        elif path in sources.sizes:
            if size > sources.sizes[path]:
                raise _defect(f"'{path}' has {sources.sizes[path]} bytes, but {size} were read")
            # A line ends with one byte that is not counted.
            if sources.sizes[path] - size > lines + _BYTE_ORDER_MARK_BYTES:
                lost.append(Refused(file, reasons.LINE_TOO_LONG))
    return lost


def _defect(problem: str) -> HistoryError:
    return HistoryError(
        f"the files that were read are not those that were listed: {problem}. Nothing was stored. This is a defect of "
        "StreamTune; please report it with the names of the files"
    )
