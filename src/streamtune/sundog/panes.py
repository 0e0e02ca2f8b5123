"""The state: daily partial aggregates (*panes*), and the list of those that count.

A part is what one batch of files added: a Parquet file per bucket, with a row group per day (``packed``). A manifest
names the parts; putting the next manifest beside the others in one atomic step is what commits a batch. A batch that is
done again finds its id there and adds nothing. Windows are made by merging the row groups of their days.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field
from pyspark.sql import SparkSession

from streamtune.frozen import Frozen
from streamtune.spark.files import Files
from streamtune.sundog import storage
from streamtune.sundog.errors import SundogError

VERSION = 2  # 1 had a row per key in its pane files


class Counts(Frozen):
    """What became of lines and of pairs. lines = broken + without_entity + with_entity."""

    lines: int = 0
    broken: int = 0
    without_entity: int = 0
    with_entity: int = 0
    candidate_pairs: int = 0
    passed_filter: int = 0
    related_pairs: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})

    @property
    def add_up(self) -> bool:
        return self.lines == self.broken + self.without_entity + self.with_entity


class PaneFile(Frozen):
    """One file of one bucket; row group i holds the rows of ``days[i]``."""

    name: str
    bucket: int
    days: tuple[int, ...]
    rows: int
    size_bytes: int


class Part(Frozen):
    """What one batch of log files, or a merge of earlier parts, left behind."""

    id: str
    files: tuple[PaneFile, ...]
    counts: Counts = Counts()
    reasons: dict[str, int] = Field(default_factory=dict)

    @property
    def days(self) -> tuple[int, ...]:
        return tuple(sorted({day for file in self.files for day in file.days}))


class State(Frozen):
    """All that a manifest says. ``seen`` are the ids of batches whose parts were merged into others."""

    version: int = VERSION
    number: int = 0
    knowledge: str = ""
    buckets: int = 1
    parts: tuple[Part, ...] = ()
    seen: tuple[str, ...] = ()
    counts: Counts = Counts()
    reasons: dict[str, int] = Field(default_factory=dict)

    @property
    def days(self) -> tuple[int, ...]:
        return tuple(sorted({day for part in self.parts for day in part.days}))

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for part in self.parts for file in part.files)

    def knows(self, part: str) -> bool:
        return part in self.seen or any(known.id == part for known in self.parts)

    def with_part(self, part: Part) -> State:
        """This state and one more batch."""
        reasons = {
            name: self.reasons.get(name, 0) + part.reasons.get(name, 0)
            for name in sorted({*self.reasons, *part.reasons})
        }
        return self.model_copy(
            update={"parts": (*self.parts, part), "counts": self.counts + part.counts, "reasons": reasons}
        )

    def merged_into(self, part: Part) -> State:
        """This state with one part in the place of all others."""
        ids = tuple(
            dict.fromkeys((*self.seen, *(known.id for known in self.parts if not known.id.startswith("merge"))))
        )
        return self.model_copy(update={"parts": (part,), "seen": ids})


@dataclass(frozen=True)
class Panes:
    """The state at one location, which Spark and all its workers can reach."""

    spark: SparkSession
    location: str

    @property
    def files(self) -> str:
        return f"{self.location}/panes"

    def load(self) -> State | None:
        """The state that counts, or None where there is none."""
        names = self._manifests()
        if not names:
            return None
        content = json.loads(Files(self.spark).read_text(f"{self.location}/_manifest/{names[-1]}"))
        if content.get("version") != VERSION:
            raise SundogError(
                f"the state at {self.location} has version {content.get('version')}, this release reads {VERSION}: "
                "count the logs again"
            )
        return State.model_validate(content)

    def require(self, fingerprint: str) -> State:
        """The state, which must have been made with this knowledge base."""
        state = self.load()
        if state is None:
            raise SundogError(f"there is no state at {self.location}: run 'streamtune sundog run' or 'stream' first")
        check_knowledge(state, fingerprint, self.location)
        return state

    def commit(self, state: State) -> State:
        """Make this the state that counts; whoever else has written meanwhile goes first."""
        after = state.model_copy(update={"number": state.number + 1})
        files = Files(self.spark)
        if not files.create_text(f"{self.location}/_manifest/{after.number:010d}.json", after.model_dump_json()):
            raise SundogError(f"another job has written the state at {self.location} meanwhile: run this again, alone")
        self._sweep(after)
        return after

    def clear(self) -> None:
        storage.delete_folder(self.location)

    def _sweep(self, state: State) -> None:
        """Remove manifests before the last two, and files that neither of those names: a reader may be amid them."""
        files = Files(self.spark)
        names = self._manifests()
        kept = {file.name for part in state.parts for file in part.files}
        for name in names[:-2]:
            files.delete(f"{self.location}/_manifest/{name}")
        for name in names[-2:-1]:
            before = State.model_validate_json(files.read_text(f"{self.location}/_manifest/{name}"))
            kept |= {file.name for part in before.parts for file in part.files}
        for name in set(files.names(self.files)) - kept:
            storage.delete_file(f"{self.files}/{name}")

    def _manifests(self) -> list[str]:
        return [name for name in Files(self.spark).names(f"{self.location}/_manifest") if name.endswith(".json")]


def check_knowledge(state: State, fingerprint: str, location: str) -> None:
    if state.knowledge != fingerprint:
        raise SundogError(
            f"the state at {location} was made with another knowledge base ({state.knowledge}, now {fingerprint}): "
            "use that one, or another --out"
        )


def live_files(state: State, bucket: int, days: Iterable[int]) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Files of a bucket with any of the days: name, row groups, and the day of each."""
    wanted = set(days)
    found = []
    for part in state.parts:
        for file in part.files:
            if file.bucket == bucket and wanted.intersection(file.days):
                groups = tuple(group for group, day in enumerate(file.days) if day in wanted)
                found.append((file.name, groups, tuple(file.days[group] for group in groups)))
    return found
