"""Windows by merging panes, then features, scores and rankings: phases 2 and 3 on Spark.

A window of w days that ends on a day is that day and the w − 1 before it, UTC. A task merges the panes of the window's
days in some buckets and keeps the numbers; one shuffle brings those of entities to every task, those of a pair, in both
directions, to the task of its first entity. From there on an entity and all that is related to it are in one place:
features, score and rank need nothing else, and every task writes its part of the two tables itself. It is one Spark
job, since much of what a window costs is the job and not the work.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import SparkSession

from streamtune.sundog import storage
from streamtune.sundog.knowledge import Knowledge
from streamtune.sundog.packed import Packed, read_groups
from streamtune.sundog.panes import Panes, State, live_files
from streamtune.sundog.places import day_number, table_folder
from streamtune.sundog.ranking import FEATURE_TABLE, RANKING_TABLE, Scorer, pair_counts, tables
from streamtune.sundog.workers import settle

_NUMBERS = "target int, single boolean, keys binary, events binary, users binary"
_NUMBER_SCHEMA = pa.schema(
    [("target", pa.int32()), ("single", pa.bool_()), *((name, pa.binary()) for name in ("keys", "events", "users"))]
)
_NOTE_SCHEMA = pa.schema([("note", pa.string())])
_TASK_ROWS = 4_000_000
FEATURE_OPTIONS: dict[str, Any] = {
    "compression": "SNAPPY",
    "use_dictionary": ["entity", "related"],
    "write_statistics": ["entity", "related"],
    "store_schema": False,
}


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


def window_days(day: date, window: int) -> range:
    """The days of a window, as numbers.

    >>> from streamtune.sundog.places import day_of_number
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
    ranked = numbers.repartitionById(tasks, "target").mapInArrow(ranker(catalogue, scorer, staging, top), "note string")
    try:
        notes = [json.loads(row.note) for row in ranked.collect()]  # one per task
        _publish(out, staging, day, window, [note for note in notes if note["pairs"]])
    finally:
        storage.delete_folder(staging)
    return Ranked(
        day,
        window,
        pairs=sum(note["pairs"] for note in notes),
        entities=sum(note["entities"] for note in notes),
        ranked=sum(note["ranked"] for note in notes),
        events=max((note["events"] for note in notes), default=0),
        users=max((note["users"] for note in notes), default=0),
    )


def _tasks(spark: SparkSession, state: State, days: set[int]) -> int:
    """One task per core, more where there is much to hold; a task costs as much as some 10,000 pairs."""
    rows = sum(file.rows for part in state.parts for file in part.files if not days.isdisjoint(file.days))
    return min(state.buckets, max(spark.sparkContext.defaultParallelism, -(-rows // _TASK_ROWS)))


def window_counter(
    work: list[list[tuple[str, tuple[int, ...], tuple[int, ...]]]], catalogue: Broadcast[Catalogue], targets: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """First task: numbers of buckets in; events and users of single entities and of directed pairs out."""

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket in batch.column(0).to_pylist():
                parts = [read_groups(*of_file) for of_file in work[bucket]]
                if parts:
                    yield _directed(*Packed.joined(parts).totals(), catalogue.value, targets)
        settle()

    return count


def _directed(
    keys: NDArray[np.int64], events: NDArray[np.int64], users: NDArray[np.int64], catalogue: Catalogue, targets: int
) -> pa.RecordBatch:
    """Rows per target. The key of a directed pair is 2 × its number, plus 1 if it goes from high to low."""
    entities = len(catalogue.ids)
    is_single = keys <= entities
    single = (keys[is_single], events[is_single], users[is_single])
    pair = keys[~is_single] - entities - 1
    directed = np.concatenate([2 * pair, 2 * pair + 1])
    target = np.concatenate([catalogue.low[pair], catalogue.high[pair]]) % targets
    order = np.argsort(target, kind="stable")
    starts = np.searchsorted(target[order], np.arange(targets + 1))
    both = (directed[order], np.tile(events[~is_single], 2)[order], np.tile(users[~is_single], 2)[order])
    rows = [
        (number, of_entities, columns)
        for number, (begin, end) in enumerate(pairwise(starts))
        for of_entities, columns in ((True, single), (False, tuple(column[begin:end] for column in both)))
    ]
    made = [pa.array([number for number, _, _ in rows], pa.int32()), pa.array([kind for _, kind, _ in rows])]
    made += [pa.array([columns[place].tobytes() for _, _, columns in rows], pa.binary()) for place in range(3)]
    return pa.RecordBatch.from_arrays(made, schema=_NUMBER_SCHEMA)


def ranker(
    catalogue: Broadcast[Catalogue], scorer: Broadcast[Scorer], staging: str, top: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Second task: numbers of all entities and of some directed pairs in, the tables of these written, a note out."""

    def rank(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        totals, pairs = _gathered(batches, len(catalogue.value.ids))
        note: dict[str, Any] = {"pairs": 0, "entities": 0, "ranked": 0}
        note |= {"events": int(totals.events[0]), "users": int(totals.users[0])}
        if len(pairs[0]):
            counts = pair_counts(*pairs, catalogue.value, totals)
            features, rankings = tables(counts, catalogue.value.ids, totals, scorer.value, top)
            name = f"{uuid.uuid4().hex}.parquet"
            storage.write_parquet(f"{staging}/{FEATURE_TABLE}/{name}", [features], **FEATURE_OPTIONS)
            storage.write_parquet(f"{staging}/{RANKING_TABLE}/{name}", [rankings], **FEATURE_OPTIONS)
            note |= {"first": int(counts.entity[0]), "name": name, "pairs": features.num_rows}
            note |= {"entities": 1 + int((np.diff(counts.entity) != 0).sum()), "ranked": rankings.num_rows}
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(note)])], schema=_NOTE_SCHEMA)
        settle()

    return rank


Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _gathered(batches: Iterator[pa.RecordBatch], entities: int) -> tuple[Totals, Columns]:
    """The numbers of all entities, and those of the pairs that came to this task: keys, events, users."""
    totals = Totals(np.zeros(entities + 1, np.int64), np.zeros(entities + 1, np.int64))
    held: list[list[NDArray[np.int64]]] = [[], [], []]
    for batch in batches:
        columns = [batch.column(name) for name in ("keys", "events", "users")]
        for row, single in enumerate(batch.column("single").to_pylist()):
            keys, events, users = (np.frombuffer(column[row].as_buffer(), np.int64) for column in columns)
            if single:
                totals.events[keys], totals.users[keys] = events, users
            else:
                for of_column, values in zip(held, (keys, events, users), strict=True):
                    of_column.append(values)
    nothing = np.empty(0, np.int64)
    keys, events, users = (np.concatenate([nothing, *of_column]) for of_column in held)
    return totals, (keys, events, users)


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


def _nothing(table: str) -> pa.Table:
    from streamtune.sundog.ranking import empty_table

    return empty_table(table)
