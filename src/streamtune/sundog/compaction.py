"""Many parts of the state into one: fewer files to open, one row per day and key, expired days left out."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from streamtune.sundog import storage
from streamtune.sundog.counting import write_pane
from streamtune.sundog.packed import Packed, read_groups
from streamtune.sundog.panes import PaneFile, Panes, Part, State, live_files


def compact(spark: SparkSession, panes: Panes, state: State, first_day: int | None = None) -> State:
    """Commit a state with the same counts in one part, without the days before ``first_day``."""
    days = [day for day in state.days if first_day is None or day >= first_day]
    work = [
        [(f"{panes.files}/{name}", groups, of_day) for name, groups, of_day in live_files(state, bucket, days)]
        for bucket in range(state.buckets)
    ]
    part = f"merge-{state.number + 1:010d}"
    staging = f"{panes.location}/_staging/{uuid.uuid4().hex}"
    storage.make_folder(staging)
    try:
        merged = spark.range(0, state.buckets, 1, state.buckets).mapInArrow(_merger(work, staging), "note string")
        files = []
        for note in (json.loads(row.note) for row in merged.collect()):  # one per bucket, however large the state
            name = f"{part}-{note['bucket']:04d}.parquet"
            storage.move(f"{staging}/{note['name']}", f"{panes.files}/{name}")
            files.append(PaneFile(**{**note, "name": name}))
    finally:
        storage.delete_folder(staging)
    ordered = tuple(sorted(files, key=lambda file: file.bucket))
    return panes.commit(state.merged_into(Part(id=part, files=ordered)))


def _merger(
    work: list[list[tuple[str, tuple[int, ...], tuple[int, ...]]]], staging: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket in batch.column(0).to_pylist():
                parts = [read_groups(*of_file) for of_file in work[bucket]]
                if parts:
                    note = json.dumps(write_pane(staging, bucket, Packed.joined(parts).merged()))
                    yield pa.RecordBatch.from_arrays([pa.array([note])], names=["note"])

    return merge
