"""Search logs over a made-up world, on Spark, at any size; the same settings give the same lines.

A task makes the lines of a part of a day and writes its file. People come in sessions: some come often, most rarely;
within a session they stay with a subject. A line is noise (no entity, though it may say "a"), one entity, a related
pair in proportion to the interest of the day, or two entities that nobody related. Names come in any case, with or
without accents. Some lines are broken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from streamtune.sundog.places import day_number
from streamtune.sundog.settings import LogSettings, WorldSettings
from streamtune.sundog.workers import settle
from streamtune.sundog.world import World, accented, build_world, words

_NOISE_WORDS = ("a", "the", "of", "in", "buy", "cheap", "weather", "how", "to", "near", "me", "news", "best", "2014")


class Drawer:
    """Draws lines of a world. The texts of all names are worked out once, so a worker keeps it (``of``)."""

    _kept: ClassVar[list[Drawer]] = []

    @classmethod
    def of(cls, world: World, settings: LogSettings) -> Drawer:
        """This process' drawer for a world; a new one takes the place of the last."""
        if not cls._kept or (cls._kept[0].world.settings, cls._kept[0].settings) != (world.settings, settings):
            cls._kept[:] = [cls(world, settings)]
        return cls._kept[0]

    def __init__(self, world: World, settings: LogSettings) -> None:
        self.world, self.settings = world, settings
        first = [names[0] for names in world.names]
        last = [names[-1] for names in world.names]
        plain = [name.lower() for name in first]
        self.texts = np.array([plain, plain, first, [name.upper() for name in first], last, list(map(accented, plain))])
        random = np.random.default_rng([world.settings.seed, 2])
        self.noise = np.array([*_NOISE_WORDS, *words(random, 2000)])
        self.noise_chance = 1.0 / np.arange(1, len(self.noise) + 1)
        self.noise_chance /= self.noise_chance.sum()
        self.single = np.cumsum(world.weight / world.weight.sum())

    def lines(self, day: date, part: int, count: int) -> tuple[list[str], list[str], list[str]]:
        """Users, times and queries of a part of a day."""
        random = np.random.default_rng([self.world.settings.seed, 3, day.toordinal(), part])
        session = np.cumsum(random.random(count) < 1.0 / self.settings.session_lines, dtype=np.int64)
        sessions = int(session[-1]) + 1
        # The cube makes a tenth of the people write nearly half of the lines.
        user = (self.settings.users * random.random(sessions) ** 3).astype(np.int64)[session]
        seconds = (random.random(sessions) * 82_800)[session] + 20 * (np.arange(count) - _firsts(session))
        times = np.datetime64(day.isoformat(), "s") + np.minimum(seconds, 86_399).astype("timedelta64[s]")
        users = [f"u{number}" for number in user]
        stamps = [f"{time}Z" for time in np.datetime_as_string(times, "s")]
        return users, stamps, self._queries(random, day, session)

    def _queries(self, random: np.random.Generator, day: date, session: NDArray[np.int64]) -> list[str]:
        count = len(session)
        pair = self._pairs(random, day, session)
        swap = random.random(count) < 0.5
        low, high = self.world.low[pair], self.world.high[pair]
        one, other = np.where(swap, high, low), np.where(swap, low, high)
        kind = random.random(count)
        noise = kind < self.settings.noise_share
        single = ~noise & (kind < self.settings.noise_share + self.settings.single_share)
        unrelated = kind > 1.0 - self.settings.unrelated_share
        alone = np.minimum(np.searchsorted(self.single, random.random(count)), len(self.single) - 1)
        one = np.where(single, alone, one)
        other = np.where(unrelated, random.integers(0, len(self.single), count), other)
        first = self.texts[random.integers(0, len(self.texts), count), one]
        second = self.texts[random.integers(0, len(self.texts), count), other]
        added = random.choice(self.noise, (count, 2), p=self.noise_chance)
        wordy = random.random(count) < 0.3
        return [
            f"{extra} {more}"
            if is_noise
            else (f"{a} {extra}" if talks else str(a))
            if is_single
            else (f"{a} {extra} {b}" if talks else f"{a} {b}")
            for a, b, extra, more, is_noise, is_single, talks in zip(
                first, second, added[:, 0], added[:, 1], noise, single, wordy, strict=True
            )
        ]

    def _pairs(self, random: np.random.Generator, day: date, session: NDArray[np.int64]) -> NDArray[np.int64]:
        """A pair per line, drawn by the day's interest; some lines keep that of the session's first line."""
        interest = np.cumsum(self.world.truth.interest(day_number(day)))
        draws = random.random(len(session)) * interest[-1]
        pair = np.minimum(np.searchsorted(interest, draws), len(interest) - 1)
        stays = random.random(len(session)) < self.settings.stay_share
        kept: NDArray[np.int64] = np.where(stays, pair[_firsts(session)], pair)
        return kept


def _firsts(session: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of the first line of each line's session."""
    change = np.r_[True, session[1:] != session[:-1]]
    firsts: NDArray[np.int64] = np.maximum.accumulate(np.where(change, np.arange(len(session)), 0))
    return firsts


def broken_json(line: str, kind: int) -> str:
    """A line spoilt in one of four ways."""
    return [line[: len(line) // 2], line.replace('"user"', '"who"'), line.replace("T", "?"), "no json at all"][kind]


def generate(spark: SparkSession, folder: Path, world: WorldSettings, logs: LogSettings) -> int:
    """Write ``knowledge``, ``truth`` and ``logs`` into a folder; the number of lines."""
    made = build_world(world)
    made.write(folder)
    target = folder / "logs"
    target.mkdir(parents=True, exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    work = plan(world, logs)
    shared = spark.sparkContext.broadcast(made)
    rows = spark.range(0, len(work), 1, len(work)).mapInArrow(_writer(work, shared, logs, str(target)), "lines long")
    return int(rows.groupBy().sum("lines").collect()[0][0])


def plan(world: WorldSettings, logs: LogSettings) -> list[tuple[date, int, int]]:
    """Day, part and lines of every file; the days share the lines evenly."""
    work = []
    for number in range(world.days):
        lines = logs.lines * (number + 1) // world.days - logs.lines * number // world.days
        for part, begin in enumerate(range(0, lines, logs.file_lines)):
            work.append((world.start + timedelta(days=number), part, min(logs.file_lines, lines - begin)))
    return work


def _writer(
    work: list[tuple[date, int, int]], world: Any, logs: LogSettings, target: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        drawer = Drawer.of(world.value, logs)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                day, part, lines = work[number]
                write_file(drawer, day, part, lines, Path(target))
                yield pa.RecordBatch.from_arrays([pa.array([lines])], names=["lines"])
        settle()

    return write


def write_file(drawer: Drawer, day: date, part: int, count: int, target: Path) -> None:
    """The lines of a part of a day as a file, written elsewhere and moved in."""
    users, times, queries = drawer.lines(day, part, count)
    random = np.random.default_rng([drawer.world.settings.seed, 4, day.toordinal(), part])
    broken = np.flatnonzero(random.random(count) < drawer.settings.broken_share)
    name = f"{day.isoformat()}-{part:04d}.{drawer.settings.format}"
    waiting = target / f".{name}.writing"
    if drawer.settings.format == "parquet":
        table = pa.table({"user": users, "time": times, "query": queries})
        if len(broken):
            spoilt = np.zeros(count, bool)
            spoilt[broken] = True
            table = table.set_column(0, "user", pa.array(users, mask=spoilt))
        pq.write_table(table, waiting, row_group_size=250_000, compression="zstd")
    else:
        lines = [
            json.dumps({"user": user, "time": time, "query": query}, ensure_ascii=False)
            for user, time, query in zip(users, times, queries, strict=True)
        ]
        for place in broken:
            lines[place] = broken_json(lines[place], int(random.integers(4)))
        waiting.write_text("\n".join(lines) + "\n", encoding="utf-8")
    waiting.rename(target / name)
