"""Phase 1 on Spark: log files to a part of the state (events and users per day, entity and pair).

A task reads a slice, matches, counts and sorts in compiled code, and hands on one row of packed columns per bucket; the
shuffle brings those of one bucket together; a second task merges them and writes its pane file itself. Rows of lines
never pass through the JVM. Files are written under passing names and get their own, which follow from the batch's id,
when the job has succeeded: a batch that is done again replaces them by the same.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import SparkSession

from streamtune.spark.files import FileStatus
from streamtune.sundog import storage
from streamtune.sundog.errors import SundogError
from streamtune.sundog.kernels.packing import count_sorted, split_by_day
from streamtune.sundog.kernels.scanning import CANDIDATES, NOT_UTF8, PASSED, RELATED, WITH_ENTITY, WITHOUT_ENTITY, scan
from streamtune.sundog.knowledge import Matcher
from streamtune.sundog.packed import BLOBS, Packed, day_tables, from_blob, to_blobs
from streamtune.sundog.panes import Counts, PaneFile, Panes, Part
from streamtune.sundog.readers import NOT_UTF8 as BAD_TEXT
from streamtune.sundog.readers import Lines, Reject, Slice, group_slices, plan_slices, read_slice
from streamtune.sundog.settings import SundogSettings
from streamtune.sundog.workers import settle

_BLOB_COLUMNS = "bucket int, days binary, keys binary, events binary, lengths binary, words binary, note string"
_NOTES = "note string"
_BLOB_SCHEMA = BLOBS.append(pa.field("note", pa.string()))
_NOTE_SCHEMA = pa.schema([("note", pa.string())])
_REJECTS = pa.schema([("file", pa.string()), ("position", pa.int64()), ("reason", pa.string()), ("raw", pa.string())])
PANE_OPTIONS: dict[str, Any] = {
    # Coupons are bits of hashes: nothing to compress.
    "compression": {"key": "ZSTD", "events": "ZSTD", "sketch": "NONE"},
    "use_dictionary": False,
    "write_statistics": False,
}


def count_lines(lines: Lines, matcher: Matcher, buckets: int) -> tuple[list[Packed], Counts, NDArray[np.int64]]:
    """Packed rows per bucket, the counts, and which lines turned out not to be UTF-8."""
    days, slots = _slots(lines.days)
    sightings, of_slot, outcome, pairs = scan(
        matcher.trie, matcher.relations, matcher.entities, lines.data, lines.begins, lines.ends, lines.coupons, slots
    )
    spread = int(slots.max(initial=0)) + 1
    apart, starts = split_by_day(sightings, of_slot, spread)
    for slot in range(spread):
        apart[starts[slot] : starts[slot + 1]].sort()
    row_starts, word_starts, of_day, keys, events, lengths, words = count_sorted(apart, starts, 0, buckets)
    broken = np.flatnonzero(outcome == NOT_UTF8)
    counts = Counts(
        lines=lines.read,
        broken=len(lines.rejects) + len(broken),
        without_entity=int((outcome == WITHOUT_ENTITY).sum()),
        with_entity=int((outcome == WITH_ENTITY).sum()),
        candidate_pairs=int(pairs[CANDIDATES]),
        passed_filter=int(pairs[PASSED]),
        related_pairs=int(pairs[RELATED]),
    )
    packed = [
        Packed(
            days[of_day[row_starts[bucket] : row_starts[bucket + 1]]],
            keys[row_starts[bucket] : row_starts[bucket + 1]],
            events[row_starts[bucket] : row_starts[bucket + 1]],
            lengths[row_starts[bucket] : row_starts[bucket + 1]],
            words[word_starts[bucket] : word_starts[buckets + bucket]],
        )
        for bucket in range(buckets)
    ]
    return packed, counts, broken


def _slots(days: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """The days that slots stand for, and the slot of each line."""
    if not len(days):
        return np.zeros(1, np.int32), np.empty(0, np.uint16)
    first, last = int(days.min()), int(days.max())
    if last - first < 4096:
        return np.arange(first, last + 1, dtype=np.int32), (days - first).astype(np.uint16)
    known, slots = np.unique(days, return_inverse=True)
    if len(known) > 65535:
        raise SundogError(f"one slice of a log has lines of {len(known):,} days: set slice_rows or slice_bytes lower")
    return known.astype(np.int32), slots.astype(np.uint16)


def batch_id(files: Sequence[FileStatus]) -> str:
    """The same for the same files, in whatever order they are given."""
    text = "\n".join(sorted(f"{file.path}\t{file.size_bytes}\t{file.modified_ms}" for file in files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def count_files(
    spark: SparkSession,
    files: Sequence[FileStatus],
    matcher: Broadcast[Matcher],
    panes: Panes,
    quarantine: str,
    buckets: int,
    settings: SundogSettings,
) -> Part:
    """Count all lines of the files. The part's files are in place when this returns; it counts once it is committed."""
    part = batch_id(files)
    slices, lost = plan_slices([file.path for file in files], settings.slice_bytes, settings.slice_rows)
    staging = f"{panes.location}/_staging/{uuid.uuid4().hex}"
    storage.make_folder(staging)
    storage.make_folder(panes.files)
    try:
        tasks = group_slices(slices, settings.slice_bytes, spark.sparkContext.defaultParallelism)
        notes = _run_job(spark, tasks, matcher, staging, buckets) if tasks else []
        counts = Counts(lines=len(lost), broken=len(lost))
        reasons = Counter(reject.reason for reject in lost)
        pane_files, rejected = [], []
        for note in notes:
            if "counts" in note:
                counts += Counts(**note["counts"])
                reasons.update(note["reasons"])
                rejected += [note["rejects"]] if note["rejects"] else []
            else:
                name = f"{part}-{note['bucket']:04d}.parquet"
                storage.move(f"{staging}/{note['name']}", f"{panes.files}/{name}")
                pane_files.append(PaneFile(**{**note, "name": name}))
        if lost:
            rejected.append(_write_rejects(staging, lost))
        _publish_rejects(quarantine, part, staging, sorted(rejected))
    finally:
        storage.delete_folder(staging)
    if not counts.add_up:
        raise SundogError(f"the counts do not add up: {counts}. This is a defect of StreamTune; please report it")
    ordered = tuple(sorted(pane_files, key=lambda file: file.bucket))
    return Part(id=part, files=ordered, counts=counts, reasons=dict(sorted(reasons.items())))


def _run_job(
    spark: SparkSession, tasks: list[list[Slice]], matcher: Broadcast[Matcher], staging: str, buckets: int
) -> list[dict[str, Any]]:
    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        counter(tasks, matcher, staging, buckets), _BLOB_COLUMNS
    )
    merged = rows.repartitionById(buckets, "bucket").mapInArrow(merger(staging), _NOTES)
    return [json.loads(row.note) for row in merged.collect()]


def counter(
    tasks: list[list[Slice]], matcher: Broadcast[Matcher], staging: str, buckets: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The first task: numbers of tasks in, packed columns per bucket and a note with the counts out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in tasks[number]:
                    yield from _count_slice(part, matcher.value, staging, buckets)
        settle()

    return count


def _count_slice(part: Slice, matcher: Matcher, staging: str, buckets: int) -> Iterator[pa.RecordBatch]:
    lines = read_slice(part)
    packed, counts, broken = count_lines(lines, matcher, buckets)
    blobs = to_blobs(enumerate(packed))
    yield _with_notes(blobs, [None] * blobs.num_rows)
    rejects = lines.rejects + _not_utf8(part, lines, broken)
    note = {
        "counts": counts.model_dump(),
        "reasons": Counter(reject.reason for reject in rejects),
        "rejects": _write_rejects(staging, rejects) if rejects else None,
    }
    nothing = pa.RecordBatch.from_pylist([{"bucket": 0}], schema=BLOBS)
    yield _with_notes(nothing, [json.dumps(note)])


def _with_notes(blobs: pa.RecordBatch, notes: list[str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*blobs.columns, pa.array(notes, pa.string())], schema=_BLOB_SCHEMA)


def _not_utf8(part: Slice, lines: Lines, broken: NDArray[np.int64]) -> list[Reject]:
    return [
        Reject(
            part.path,
            int(lines.positions[line]),
            BAD_TEXT,
            lines.data[lines.begins[line] : lines.ends[line]].tobytes()[:500].decode("utf-8", "replace"),
        )
        for line in broken
    ]


def merger(staging: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The second task: all rows of some buckets in, a pane file per bucket and a note about it out."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: dict[int, list[Packed]] = {}
        notes: list[str] = []
        for batch in batches:
            passing = batch.column("note").to_pylist()
            for row, (bucket, note) in enumerate(zip(batch.column("bucket").to_pylist(), passing, strict=True)):
                if note is not None:
                    notes.append(note)
                else:
                    held.setdefault(bucket, []).append(from_blob(batch, row))
        for bucket, parts in sorted(held.items()):
            notes.append(json.dumps(write_pane(staging, bucket, Packed.joined(parts).merged())))
        yield pa.RecordBatch.from_arrays([pa.array(notes, pa.string())], schema=_NOTE_SCHEMA)
        settle()

    return merge


def write_pane(staging: str, bucket: int, merged: Packed) -> dict[str, Any]:
    """Write a pane file under a passing name; what a ``PaneFile`` says about it."""
    days, tables = day_tables(merged)
    name = f"{bucket:04d}-{uuid.uuid4().hex}.parquet"
    size = storage.write_parquet(f"{staging}/{name}", tables, **PANE_OPTIONS)
    return {"bucket": bucket, "name": name, "days": days, "rows": len(merged.days), "size_bytes": size}


def _write_rejects(staging: str, rejects: Sequence[Reject]) -> str:
    name = f"rejects-{uuid.uuid4().hex}.parquet"
    rows = [{"file": r.file, "position": r.position, "reason": r.reason, "raw": r.raw} for r in rejects]
    storage.write_parquet(f"{staging}/{name}", [pa.Table.from_pylist(rows, schema=_REJECTS)])
    return name


def _publish_rejects(quarantine: str, part: str, staging: str, names: Sequence[str]) -> None:
    """One file per batch, sorted by place, whichever tasks found what."""
    import pyarrow.parquet as pq

    if not names:
        return
    storage.make_folder(quarantine)
    system, folder = storage.locate(staging)
    tables = [pq.read_table(f"{folder}/{name}", filesystem=system) for name in names]
    table = pa.concat_tables(tables).sort_by([("file", "ascending"), ("position", "ascending")])
    storage.write_parquet(f"{staging}/rejects.parquet", [table])
    storage.move(f"{staging}/rejects.parquet", f"{quarantine}/{part}.parquet")
