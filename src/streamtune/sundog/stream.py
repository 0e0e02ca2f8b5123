"""The pipeline as a Structured Streaming job: files that appear in a folder become fresher rankings.

Spark's file source only says which files are new, and its checkpoint gives every file to one micro-batch and repeats a
batch that was not finished. Each micro-batch takes the very way of the batch run: count the lines into a part of the
state, commit it, rank. A batch that is repeated after its commit finds itself in the state and only ranks again, which
changes nothing. So every line counts once, however often the job is killed. A line may come as late as it likes: it
goes to the pane of its own day. Files must appear in the folder whole: write them elsewhere and move them in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.util import inheritable_thread_target

from streamtune.spark.files import FileStatus
from streamtune.spark.new_files import files_of, stream_of_new_files
from streamtune.sundog import storage
from streamtune.sundog.compaction import compact
from streamtune.sundog.counting import batch_id
from streamtune.sundog.errors import SundogError
from streamtune.sundog.panes import Counts, State, check_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.places import day_number, day_of_number
from streamtune.sundog.settings import RankDays, StreamSettings
from streamtune.sundog.windows import Ranked


@dataclass(frozen=True)
class BatchReport:
    """What one micro-batch did."""

    files: int
    counts: Counts
    rankings: tuple[Ranked, ...]
    state_bytes: int
    new: bool


def days_to_rank(
    touched: Iterable[int], known: Iterable[int], window: int, settings: StreamSettings, today: date
) -> list[int]:
    """Days whose window has changed, among those that have panes. Days from the future (wrong clocks) do not count.

    >>> two = StreamSettings(late_days=2)
    >>> days_to_rank([3], [1, 2, 3, 4, 5, 6], 7, two, day_of_number(6))
    [4, 5, 6]
    >>> days_to_rank([6], [1, 2, 3, 4, 5, 6, 999], 7, two, day_of_number(6))
    [6]
    """
    present = [day for day in known if day <= day_number(today) + 1]
    changed = [day for day in touched if day <= day_number(today) + 1]
    if settings.rank is RankDays.none or not changed:
        return []
    newest = max(present)
    if settings.rank is RankDays.newest:
        return [newest]
    return [
        day
        for day in sorted(set(present))
        if day >= newest - settings.late_days and any(day - window < other <= day for other in changed)
    ]


def process_batch(
    sundog: Sundog, files: list[FileStatus], settings: StreamSettings, today: date | None = None
) -> BatchReport:
    """Count, commit, tidy, rank: all of one micro-batch. Doing it again changes nothing."""
    today = today or datetime.now(UTC).date()
    files = [file for file in files if file.size_bytes]
    state = sundog.panes.load() or State(knowledge=sundog.knowledge.fingerprint, buckets=sundog.settings.buckets)
    check_knowledge(state, sundog.knowledge.fingerprint, sundog.panes.location)
    part_id = batch_id(files)
    new = bool(files) and not state.knows(part_id)
    if new:
        part = sundog.count(files, state.buckets)
        state, counts, touched = sundog.panes.commit(state.with_part(part)), part.counts, part.days
    else:
        known = [part for part in state.parts if part.id == part_id]
        counts, touched = Counts(), known[0].days if known else state.days
    if files:
        state = _tidied(sundog, state, today)
    wanted = [
        (day_of_number(day), window)
        for window in settings.windows
        for day in days_to_rank(touched, state.days, window, settings, today)
    ]
    rankings = _ranked(sundog, wanted, state, settings.parallel_rankings)
    return BatchReport(len(files), counts, rankings, state.size_bytes, new)


def _ranked(sundog: Sundog, wanted: list[tuple[date, int]], state: State, at_once: int) -> tuple[Ranked, ...]:
    calls = [partial(sundog.rank, day, window, state) for day, window in wanted]
    if at_once > 1:
        sundog.share()
        # Each with a copy of this thread's properties, so that stopping the query also stops the jobs of these threads.
        calls = [inheritable_thread_target(sundog.spark)(call) for call in calls]
    return side_by_side(calls, at_once)


def side_by_side(calls: Sequence[Callable[[], Ranked]], at_once: int) -> tuple[Ranked, ...]:
    """Each is a small Spark job of its own: one is planned while another computes. In the order of the calls."""
    if at_once == 1 or len(calls) < 2:
        return tuple(call() for call in calls)
    with ThreadPoolExecutor(min(at_once, len(calls))) as pool:
        waiting = [pool.submit(call) for call in calls]
        try:
            return tuple(one.result() for one in waiting)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # those that run are waited for, the others not begun
            raise


def _tidied(sundog: Sundog, state: State, today: date) -> State:
    if len(state.parts) < sundog.settings.compact_after:
        return state
    first = None
    if sundog.settings.retention_days is not None:
        first = max(day for day in state.days if day <= day_number(today + timedelta(days=1)))
        first -= sundog.settings.retention_days - 1
    return compact(sundog.spark, sundog.panes, state, first)


def follow(
    sundog: Sundog,
    folder: str,
    settings: StreamSettings | None = None,
    *,
    on_batch: Callable[[BatchReport], None] | None = None,
) -> StreamingQuery:
    """Start to take in every file that is or will be in ``folder``; the query runs until it is stopped."""
    settings = settings or StreamSettings()
    writer = stream_writer(sundog, folder, settings, on_batch=on_batch)
    if settings.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{settings.every_s} seconds").start()


def stream_writer(
    sundog: Sundog,
    folder: str,
    settings: StreamSettings,
    *,
    on_batch: Callable[[BatchReport], None] | None = None,
) -> DataStreamWriter:
    """The same, not started and without a trigger: for who starts it in a way of his own, such as auto-configuration.

    The checkpoint belongs to the state: who gives another must give an empty ``sundog.out`` too.
    """
    state = sundog.panes.load()
    if state is not None and not storage.exists(sundog.checkpoint):
        raise SundogError(
            f"{sundog.out} has counts but no stream's checkpoint: lines would count twice. Give another --out"
        )
    if state is not None:
        check_knowledge(state, sundog.knowledge.fingerprint, sundog.panes.location)

    def take(names: DataFrame, _batch: int) -> None:
        report = process_batch(sundog, files_of(names), settings)
        if on_batch and report.files:
            on_batch(report)

    source = stream_of_new_files(sundog.spark, folder, settings.max_files)
    return source.writeStream.foreachBatch(take).option("checkpointLocation", sundog.checkpoint)
