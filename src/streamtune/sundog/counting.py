"""Phase 1 on Spark: log files to a part of the state (events and users per day, entity and pair).

A task reads a slice, matches, counts and sorts in compiled code, and hands on one row of packed columns per bucket; the
shuffle brings those of one bucket together; a second task merges them and writes its pane file itself. Rows of lines
never pass through the JVM. Files are written under passing names and get their own, which follow from the batch's id,
when the job has succeeded: a batch that is done again replaces them by the same. Counts are summed on their way, so
the driver gets one note per bucket, however many lines, slices or broken lines there are.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

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
_REJECTS_OF = "rejects-"
PANE_OPTIONS: dict[str, Any] = {
    # Coupons are bits of hashes: nothing to compress.
    "compression": {"keys": "ZSTD", "events": "ZSTD", "lengths": "ZSTD", "words": "NONE"},
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
        total = Tally(Counts(lines=len(lost), broken=len(lost)), Counter(reject.reason for reject in lost))
        pane_files = []
        for note in notes:
            total = total.plus(note)
            for pane in note.get("panes", ()):
                name = f"{part}-{pane['bucket']:04d}.parquet"
                storage.move(f"{staging}/{pane['name']}", f"{panes.files}/{name}")
                pane_files.append(PaneFile(**{**pane, "name": name}))
        if lost:
            _write_rejects(staging, len(slices), lost)
        _publish_rejects(quarantine, part, staging)
    finally:
        storage.delete_folder(staging)
    if not total.counts.add_up:
        raise SundogError(f"the counts do not add up: {total.counts}. This is a defect of StreamTune; please report it")
    ordered = tuple(sorted(pane_files, key=lambda file: file.bucket))
    return Part(id=part, files=ordered, counts=total.counts, reasons=dict(sorted(total.reasons.items())))


class Tally(NamedTuple):
    """Sums on their way to the driver."""

    counts: Counts
    reasons: Counter[str]

    def plus(self, note: Mapping[str, Any]) -> Tally:
        return Tally(self.counts + Counts(**note["counts"]), self.reasons + Counter(note["reasons"]))

    def note(self, **more: Any) -> str:
        return json.dumps({"counts": self.counts.model_dump(), "reasons": self.reasons, **more})


def _run_job(
    spark: SparkSession, tasks: list[list[Slice]], matcher: Broadcast[Matcher], staging: str, buckets: int
) -> list[dict[str, Any]]:
    rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        counter(tasks, matcher, staging, buckets), _BLOB_COLUMNS
    )
    merged = rows.repartitionById(buckets, "bucket").mapInArrow(merger(staging), _NOTES)
    return [json.loads(row.note) for row in merged.collect()]  # one per bucket


def counter(
    tasks: list[list[Slice]], matcher: Broadcast[Matcher], staging: str, buckets: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The first task: numbers of tasks in, packed columns per bucket and a note with the counts out."""
    firsts = [0, *accumulate(map(len, tasks))]

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for place, part in enumerate(tasks[number], start=firsts[number]):
                    yield from _count_slice(part, place, matcher.value, staging, buckets)
        settle()

    return count


def _count_slice(part: Slice, place: int, matcher: Matcher, staging: str, buckets: int) -> Iterator[pa.RecordBatch]:
    lines = read_slice(part)
    packed, counts, broken = count_lines(lines, matcher, buckets)
    blobs = to_blobs(enumerate(packed))
    yield _with_notes(blobs, [None] * blobs.num_rows)
    rejects = lines.rejects + _not_utf8(part, lines, broken)
    if rejects:
        _write_rejects(staging, place, rejects)
    tally = Tally(counts, Counter(reject.reason for reject in rejects))
    nothing = pa.RecordBatch.from_pylist([{"bucket": place % buckets}], schema=BLOBS)
    yield _with_notes(nothing, [tally.note()])


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
    """The second task: all rows of some buckets in, a pane file per bucket and one note about all of it out."""

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: dict[int, list[Packed]] = {}
        tally = Tally(Counts(), Counter())
        for batch in batches:
            passing = batch.column("note").to_pylist()
            for row, (bucket, note) in enumerate(zip(batch.column("bucket").to_pylist(), passing, strict=True)):
                if note is not None:
                    tally = tally.plus(json.loads(note))
                else:
                    held.setdefault(bucket, []).append(from_blob(batch, row))
        panes = [write_pane(staging, bucket, Packed.joined(parts).merged()) for bucket, parts in sorted(held.items())]
        yield pa.RecordBatch.from_arrays([pa.array([tally.note(panes=panes)], pa.string())], schema=_NOTE_SCHEMA)
        settle()

    return merge


def write_pane(staging: str, bucket: int, merged: Packed) -> dict[str, Any]:
    """Write a pane file under a passing name; what a ``PaneFile`` says about it."""
    days, tables = day_tables(merged)
    name = f"{bucket:04d}-{uuid.uuid4().hex}.parquet"
    size = storage.write_parquet(f"{staging}/{name}", tables, **PANE_OPTIONS)
    return {"bucket": bucket, "name": name, "days": days, "rows": len(merged.days), "size_bytes": size}


def _write_rejects(staging: str, place: int, rejects: Sequence[Reject]) -> None:
    """The broken lines of one slice, sorted by place. Should a task be run twice, the same file appears twice."""
    ordered = sorted(rejects, key=lambda reject: (reject.file, reject.position))
    rows = [{"file": r.file, "position": r.position, "reason": r.reason, "raw": r.raw} for r in ordered]
    waiting = f"{staging}/{uuid.uuid4().hex}"
    storage.write_parquet(waiting, [pa.Table.from_pylist(rows, schema=_REJECTS)])
    storage.move(waiting, f"{staging}/{_REJECTS_OF}{place:08d}.parquet")


def _publish_rejects(quarantine: str, part: str, staging: str) -> None:
    """One file per slice with broken lines; what an earlier attempt at this batch left is replaced."""
    for name in storage.names(quarantine):
        if name.startswith(f"{part}-"):
            storage.delete_file(f"{quarantine}/{name}")
    made = [name for name in storage.names(staging) if name.startswith(_REJECTS_OF)]
    if made:
        storage.make_folder(quarantine)
    for name in made:
        storage.move(f"{staging}/{name}", f"{quarantine}/{part}-{name.removeprefix(_REJECTS_OF)}")
