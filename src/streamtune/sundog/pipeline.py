"""The whole way: log files to tables, in one batch or, by ``stream``, in many. Both call the same two steps.

An output folder holds::

    features/day=2014-01-20/window=7/part-….parquet     one row per directed pair that somebody searched for
    rankings/day=2014-01-20/window=7/part-….parquet     the first k of every entity
    quarantine/….parquet                                broken lines with their reason
    state/                                              daily panes, see ``panes``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property

from pyspark import Broadcast
from pyspark.sql import SparkSession

from streamtune.spark.files import Files, FileStatus
from streamtune.sundog import storage
from streamtune.sundog.counting import batch_id, count_files
from streamtune.sundog.errors import SundogError
from streamtune.sundog.knowledge import Knowledge, Matcher
from streamtune.sundog.panes import Counts, Panes, Part, State, check_knowledge
from streamtune.sundog.places import day_of_number
from streamtune.sundog.ranking import OneFeature, Scorer
from streamtune.sundog.settings import SundogSettings
from streamtune.sundog.windows import Catalogue, Ranked, rank_window


@dataclass(frozen=True)
class Report:
    """What a run did."""

    counts: Counts
    reasons: dict[str, int]
    days: tuple[date, ...]
    rankings: tuple[Ranked, ...]


@dataclass(frozen=True)
class Sundog:
    """A pipeline with its knowledge base and output folder."""

    spark: SparkSession
    knowledge: Knowledge
    out: str
    settings: SundogSettings = field(default_factory=SundogSettings)
    scorer: Scorer = field(default_factory=OneFeature)

    @cached_property
    def panes(self) -> Panes:
        return Panes(self.spark, f"{self.out}/state")

    @cached_property
    def checkpoint(self) -> str:
        """Where a stream keeps its progress."""
        return f"{self.out}/state/_checkpoint"

    @cached_property
    def _matcher(self) -> Broadcast[Matcher]:
        return self.spark.sparkContext.broadcast(self.knowledge.matcher)

    @cached_property
    def _catalogue(self) -> Broadcast[Catalogue]:
        return self.spark.sparkContext.broadcast(Catalogue.of(self.knowledge))

    @cached_property
    def _scorer(self) -> Broadcast[Scorer]:
        return self.spark.sparkContext.broadcast(self.scorer)

    def share(self) -> None:
        """Broadcast what rankings need now: several threads that need it first would each do it."""
        _ = self._catalogue, self._scorer

    def run(self, sources: Sequence[str], days: Sequence[date], windows: Sequence[int]) -> Report:
        """Count all lines of the sources afresh, then rank the windows that end on each of the days."""
        files = self.inputs(sources)
        if storage.exists(self.checkpoint):
            raise SundogError(f"{self.out} belongs to a stream: give another --out, or go on with 'stream'")
        self.panes.clear()
        storage.delete_folder(f"{self.out}/quarantine")
        state = self.add(files)
        rankings = tuple(self.rank(day, window, state) for day in days for window in windows)
        return Report(state.counts, state.reasons, tuple(map(day_of_number, state.days)), rankings)

    def inputs(self, sources: Sequence[str]) -> list[FileStatus]:
        """All log files of files, folders and patterns, each once."""
        access = Files(self.spark)
        found = {file.path: file for source in sources for file in access.list_inputs(source)}
        return [file for file in found.values() if file.size_bytes]

    def add(self, files: Sequence[FileStatus]) -> State:
        """Count one batch of files into the state; files that are there already add nothing."""
        state = self.panes.load() or State(knowledge=self.knowledge.fingerprint, buckets=self.settings.buckets)
        check_knowledge(state, self.knowledge.fingerprint, self.panes.location)
        if not files or state.knows(batch_id(files)):
            return state
        return self.panes.commit(state.with_part(self.count(files, state.buckets)))

    def count(self, files: Sequence[FileStatus], buckets: int) -> Part:
        """Phase 1 of one batch."""
        return count_files(
            self.spark, files, self._matcher, self.panes, f"{self.out}/quarantine", buckets, self.settings
        )

    def rank(self, day: date, window: int, state: State | None = None) -> Ranked:
        """Phases 2 and 3 of one window, from the panes alone."""
        return rank_window(
            self.spark,
            self.panes,
            state or self.panes.require(self.knowledge.fingerprint),
            self._catalogue,
            self.out,
            day,
            window,
            scorer=self._scorer,
            top=self.settings.top,
        )
