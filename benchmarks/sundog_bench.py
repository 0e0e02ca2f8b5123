"""What the steps of Sundog's benchmark share: sizes, the session, generated logs, warming up."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from sundog_costs import Cost, timed

from streamtune.sundog.generator import generate
from streamtune.sundog.knowledge import Knowledge, load_knowledge
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.settings import LogSettings, SundogSettings, WorldSettings
from streamtune.sundog.world import last_day

CORES = 2
DAYS = 30
LAST_DAY = last_day(WorldSettings(days=DAYS))
NAMES_PER_ENTITY = 1.29  # of a generated world


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    curve: tuple[int, ...] = (1_000_000, 2_000_000, 10_000_000, 50_000_000)
    json_lines: int = 1_000_000
    names: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    dictionary_lines: int = 2_000_000
    rivals: int = 2_000_000
    plain: int = 500_000
    rerank: tuple[int, ...] = (10_000_000,)
    stream: int = 20_000_000
    stream_batch: int = 4_000_000
    users: int = 1_000_000
    sketches: int = 400

    @classmethod
    def tiny(cls) -> Sizes:
        return cls((20_000, 40_000), 20_000, (1000, 3000), 20_000, 20_000, 10_000, (40_000,), 60_000, 20_000, 5000, 10)


def tell(name: str, record: Any) -> None:
    print(f"{name}: {json.dumps(record)}", flush=True)


@dataclass
class Bench:
    """The session, where logs are, and the knowledge base that was read last."""

    spark: SparkSession
    work: Path
    sizes: Sizes
    known: dict[Path, Knowledge] = field(default_factory=dict)

    def world(self, lines: int, names: int = 100_000, kind: str = "parquet") -> Path:
        """A generated world of so many lines; made once."""
        names = min(names, self.sizes.names[-1])
        folder = self.work / f"world-{lines}-{names}-{kind}"
        if not (folder / "done").exists():
            settings = WorldSettings(entities=round(names / NAMES_PER_ENTITY), days=DAYS)
            logs = LogSettings(lines=lines, users=self.sizes.users, format=kind, file_lines=1_000_000)
            cost = timed(lambda: generate(self.spark, folder, settings, logs))
            (folder / "done").write_text("")
            tell(f"generated {folder.name}", cost.rates(lines))
        return folder

    def generate_all(self) -> None:
        """Every world that any step needs."""
        sizes = self.sizes
        for lines in sorted({*sizes.curve, sizes.rivals, sizes.plain, *sizes.rerank, sizes.stream}):
            self.world(lines)
        for lines in {sizes.json_lines, sizes.plain}:
            self.world(lines, kind="jsonl")
        for names in sizes.names:
            self.world(sizes.dictionary_lines, names)

    def sundog(self, world: Path, out: str = "out", **settings: Any) -> Sundog:
        """A pipeline with an empty output folder; the dictionary is compiled outside the clock."""
        if world not in self.known:
            self.known = {world: load_knowledge(world / "knowledge")}
            self.known[world].matcher  # noqa: B018
        place = world / out
        shutil.rmtree(place, ignore_errors=True)
        return Sundog(self.spark, self.known[world], str(place), SundogSettings(**settings))

    def warm_up(self) -> None:
        """Compile kernels, start workers, warm the JVM: a cold one lies."""
        for kind in ("jsonl", "parquet", "parquet"):
            world = self.world(self.sizes.plain, kind=kind)
            sundog = self.sundog(world)
            sundog.add(sundog.inputs([str(world / "logs")]))
            for window in (1, 7, 30):
                sundog.rank(LAST_DAY, window)


def phase_one(sundog: Sundog, world: Path) -> Cost:
    """Log lines to daily panes."""
    files = sundog.inputs([str(world / "logs")])
    return timed(lambda: sundog.add(files))
