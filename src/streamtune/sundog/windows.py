"""Windows by merging panes, then features, scores and rankings: phases 2 and 3 on Spark.

A window of w days that ends on a day is that day and the w − 1 before it, UTC. One task per bucket merges the panes of
the window's days and keeps the numbers; those of entities go to every task, those of a pair, in both directions, to the
task of its first entity. From there on an entity and all that is related to it are in one place: features, score and
rank need no further shuffle, and every task writes its part of the two tables itself.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from streamtune.sundog import storage
from streamtune.sundog.knowledge import Knowledge
from streamtune.sundog.packed import Packed, read_groups
from streamtune.sundog.panes import Panes, State, live_files
from streamtune.sundog.ranking import FEATURE_TABLE, RANKING_TABLE, Scorer, pair_counts, tables
from streamtune.sundog.workers import settle

_NUMBERS = "target int, keys binary, events binary, users binary"
_NUMBER_SCHEMA = pa.schema(
    [("target", pa.int32()), ("keys", pa.binary()), ("events", pa.binary()), ("users", pa.binary())]
)
_NOTE_SCHEMA = pa.schema([("note", pa.string())])
_TASK_ROWS = 4_000_000
_EPOCH = date(1970, 1, 1).toordinal()
FEATURE_OPTIONS: dict[str, Any] = {"compression": "SNAPPY", "use_dictionary": ["entity", "related"]}


class Catalogue(NamedTuple):
    """What phases 2 and 3 need of the knowledge base: broadcast to all workers."""

    ids: pa.StringArray
    entity_type: NDArray[np.int16]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    forward_type: NDArray[np.int16]
    backward_type: NDArray[np.int16]
    relations: NDArray[np.int16]

    @classmethod
    def of(cls, knowledge: Knowledge) -> Catalogue:
        pairs = knowledge.pairs
        return cls(
            pa.array(knowledge.ids, pa.string()),
            knowledge.entity_type,
            pairs.low,
            pairs.high,
            pairs.forward_type,
            pairs.backward_type,
            pairs.relations,
        )


class Totals(NamedTuple):
    """Events and users of everything (at 0) and of each entity (at its number plus one)."""

    events: NDArray[np.int64]
    users: NDArray[np.int64]


@dataclass(frozen=True)
class Ranked:
    """What a ranking left behind."""

    day: date
    window: int
    pairs: int
    entities: int
    ranked: int
    events: int
    users: int


def day_number(day: date) -> int:
    """Days since 1970."""
    return day.toordinal() - _EPOCH


def day_of_number(number: int) -> date:
    return date.fromordinal(number + _EPOCH)


def window_days(day: date, window: int) -> range:
    """The days of a window, as numbers.

    >>> [day_of_number(number).isoformat() for number in window_days(date(2014, 1, 12), 7)][::6]
    ['2014-01-06', '2014-01-12']
    """
    return range(day_number(day) - window + 1, day_number(day) + 1)


def rank_window(
    spark: SparkSession,
    panes: Panes,
    state: State,
    catalogue: Broadcast[Catalogue],
    out: str,
    day: date,
    window: int,
    *,
    scorer: Broadcast[Scorer],
    top: int,
) -> Ranked:
    """Make the tables ``features`` and ``rankings`` of one day and window; what stood there is replaced."""
    days = window_days(day, window)
    work = [[(f"{panes.files}/{name}", groups, of_day) for name, groups, of_day in live_files(state, bucket, days)]
            for bucket in range(state.buckets)]  # fmt: skip
    staging = f"{out}/_staging/{uuid.uuid4().hex}"
    for table in (FEATURE_TABLE, RANKING_TABLE):
        storage.make_folder(f"{staging}/{table}")
    tasks = _tasks(spark, state, set(days))
    numbers = spark.range(0, state.buckets, 1, tasks).mapInArrow(window_counter(work, catalogue, tasks), _NUMBERS)
    numbers.persist()
    try:
        totals = spark.sparkContext.broadcast(_totals(numbers, len(catalogue.value.ids)))
        ranked = (
            numbers.where("target >= 0")
            .repartitionById(tasks, "target")
            .mapInArrow(ranker(catalogue, totals, scorer, staging, top), "note string")
        )
        notes = [json.loads(row.note) for row in ranked.collect()]
        _publish(out, staging, day, window, notes)
    finally:
        numbers.unpersist()
        storage.delete_folder(staging)
    return Ranked(
        day,
        window,
        pairs=sum(note["pairs"] for note in notes),
        entities=sum(note["entities"] for note in notes),
        ranked=sum(note["ranked"] for note in notes),
        events=int(totals.value.events[0]),
        users=int(totals.value.users[0]),
    )


def _tasks(spark: SparkSession, state: State, days: set[int]) -> int:
    """One task per core, more where there is much to hold; a task costs as much as some 10,000 pairs."""
    rows = sum(file.rows for part in state.parts for file in part.files if not days.isdisjoint(file.days))
    return min(state.buckets, max(spark.sparkContext.defaultParallelism, -(-rows // _TASK_ROWS)))


def window_counter(
    work: list[list[tuple[str, tuple[int, ...], tuple[int, ...]]]], catalogue: Broadcast[Catalogue], targets: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """First task: numbers of buckets in; events and users of entities (target −1) and of directed pairs out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket in batch.column(0).to_pylist():
                parts = [part for name, groups, days in work[bucket] for part in read_groups(name, groups, days)]
                if not parts:
                    continue
                yield _directed(*Packed.joined(parts).totals(), catalogue.value, targets)
        settle()

    return count


def _directed(
    keys: NDArray[np.int64], events: NDArray[np.int64], users: NDArray[np.int64], catalogue: Catalogue, targets: int
) -> pa.RecordBatch:
    """Rows per target. The key of a directed pair is 2 × its number, plus 1 if it goes from high to low."""
    entities = len(catalogue.ids)
    single = keys <= entities
    of_row = [-1]
    rows = [(keys[single], events[single], users[single])]
    pair = keys[~single] - entities - 1
    directed = np.concatenate([2 * pair, 2 * pair + 1])
    first = np.concatenate([catalogue.low[pair], catalogue.high[pair]])
    target = first % targets
    order = np.argsort(target, kind="stable")
    both = np.tile(events[~single], 2)[order], np.tile(users[~single], 2)[order]
    directed = directed[order]
    starts = np.searchsorted(target[order], np.arange(targets + 1))
    for number in range(targets):
        begin, end = starts[number], starts[number + 1]
        if end > begin:
            of_row.append(number)
            rows.append((directed[begin:end], both[0][begin:end], both[1][begin:end]))
    columns = [pa.array(of_row, pa.int32())]
    columns += [pa.array([row[place].tobytes() for row in rows], pa.binary()) for place in range(3)]
    return pa.RecordBatch.from_arrays(columns, schema=_NUMBER_SCHEMA)


def _totals(numbers: DataFrame, entities: int) -> Totals:
    totals = Totals(np.zeros(entities + 1, np.int64), np.zeros(entities + 1, np.int64))
    for row in numbers.where("target < 0").collect():
        keys = np.frombuffer(row.keys, np.int64)
        totals.events[keys] = np.frombuffer(row.events, np.int64)
        totals.users[keys] = np.frombuffer(row.users, np.int64)
    return totals


def ranker(
    catalogue: Broadcast[Catalogue], totals: Broadcast[Totals], scorer: Broadcast[Scorer], staging: str, top: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Second task: directed pairs of some entities in, their parts of the two tables written, a note out."""

    def rank(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[tuple[NDArray[np.int64], ...]] = []
        for batch in batches:
            columns = [batch.column(name) for name in ("keys", "events", "users")]
            held += [
                tuple(np.frombuffer(column[row].as_buffer(), np.int64) for column in columns)
                for row in range(batch.num_rows)
            ]
        if not held:
            return
        directed, events, users = (np.concatenate([row[place] for row in held]) for place in range(3))
        counts = pair_counts(directed, events, users, catalogue.value, totals.value)
        features, rankings = tables(counts, catalogue.value.ids, totals.value, scorer.value, top)
        name = f"{uuid.uuid4().hex}.parquet"
        storage.write_parquet(f"{staging}/{FEATURE_TABLE}/{name}", [features], **FEATURE_OPTIONS)
        storage.write_parquet(f"{staging}/{RANKING_TABLE}/{name}", [rankings], **FEATURE_OPTIONS)
        note = {
            "first": int(counts.entity.min()),
            "name": name,
            "pairs": features.num_rows,
            "entities": len(np.unique(counts.entity)),
            "ranked": rankings.num_rows,
        }
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(note)])], schema=_NOTE_SCHEMA)
        settle()

    return rank


def _publish(out: str, staging: str, day: date, window: int, notes: list[dict[str, Any]]) -> None:
    """Name the parts in a fixed order and put the two folders in place."""
    for table in (FEATURE_TABLE, RANKING_TABLE):
        fresh = f"{staging}/new-{table}"
        storage.make_folder(fresh)
        for number, note in enumerate(sorted(notes, key=lambda note: note["first"])):
            storage.move(f"{staging}/{table}/{note['name']}", f"{fresh}/part-{number:04d}.parquet")
        if not notes:
            storage.write_parquet(f"{fresh}/part-0000.parquet", [_nothing(table)])
        target = table_folder(out, table, day, window)
        storage.make_folder(target.rpartition("/")[0])
        if storage.exists(target):
            storage.move(target, f"{staging}/old-{table}")
        storage.move(fresh, target)


def table_folder(out: str, table: str, day: date, window: int) -> str:
    """Where the rows of one day and window are, in the way that every reader of partitioned Parquet understands."""
    return f"{out}/{table}/day={day.isoformat()}/window={window}"


def _nothing(table: str) -> pa.Table:
    from streamtune.sundog.ranking import empty_table

    return empty_table(table)
