"""What can be set about Sundog: its pipeline, its stream, its model, and the worlds and logs it generates."""

from __future__ import annotations

from datetime import date
from enum import StrEnum

from pydantic import Field, model_validator

from streamtune.settings import LARGEST_SEED, Settings


class SundogSettings(Settings):
    """Sizes of the work; results do not depend on them."""

    buckets: int = Field(default=8, ge=1, le=4096, description="parts into which keys are divided; fixed by a state")
    slice_bytes: int = Field(default=96 << 20, ge=1, description="bytes of JSON lines that one task reads at a time")
    slice_rows: int = Field(default=1_000_000, ge=1, description="rows of Parquet that one task reads at a time")
    top: int = Field(default=10, ge=1, description="related entities in the ranking of one entity")
    compact_after: int = Field(default=64, ge=2, description="parts in the state after which they are merged into one")
    retention_days: int | None = Field(
        default=None, ge=1, description="days behind the newest one that the state keeps; all of them if not set"
    )


class RankDays(StrEnum):
    """Which days are ranked after a batch."""

    touched = "touched"  # every day whose windows the batch's lines fall into
    newest = "newest"
    none = "none"


class WorldSettings(Settings):
    """Size and temper of a world."""

    entities: int = Field(default=2000, ge=10, description="entities of the knowledge base")
    relations_per_entity: float = Field(default=8.0, gt=0, description="relations per entity, on average")
    villages: int = Field(default=3, ge=0, description="villages called 'Å', which every 'a' seems to name")
    shared_names: float = Field(default=0.02, ge=0, le=1, description="share of entities that bear another's name")
    longer_names: float = Field(default=0.05, ge=0, le=1, description="share whose name continues another's")
    popularity: float = Field(default=0.8, gt=0, description="exponent of Zipf's law of popularity")
    start: date = Field(default=date(2013, 12, 2), description="first day of the log")
    days: int = Field(default=30, ge=1, description="days of the log")
    events_per_day: float = Field(default=0.005, ge=0, description="events per relation and day")
    amplitude: float = Field(
        default=12.0, gt=0, description="median lift of interest by an event, as a multiple of base"
    )
    decay_days: float = Field(default=4.0, gt=0, description="mean days in which an event's lift falls to 1/e")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="everything follows from it")


class StreamSettings(Settings):
    """How a folder is followed."""

    windows: tuple[int, ...] = Field(default=(1, 7, 30), min_length=1, description="days in each window")
    rank: RankDays = Field(default=RankDays.touched, description="days ranked after a batch: touched, newest or none")
    late_days: int = Field(default=30, ge=0, description="days behind the newest that late lines let rank again")
    once: bool = Field(default=False, description="stop when all files that are there have been read")
    every_s: float = Field(default=5.0, gt=0, description="seconds between two looks into the folder")
    max_files: int = Field(default=100, ge=1, description="most files in one micro-batch")
    parallel_rankings: int = Field(default=1, ge=1, le=64, description="rankings of a micro-batch made side by side")


class SweepSettings(Settings):
    """The sweep: every combination of the lists is tried."""

    learning_rates: tuple[float, ...] = Field(default=(0.05, 0.15), min_length=1, description="learning rates to try")
    trees: tuple[int, ...] = Field(default=(50, 100), min_length=1, description="numbers of trees to try")
    depths: tuple[int, ...] = Field(default=(3, 5), min_length=1, description="depths of trees to try")
    min_child_weights: tuple[float, ...] = Field(default=(1.0,), min_length=1, description="least weight of a leaf")
    subsample: float = Field(default=0.8, gt=0, le=1, description="share of pairs that each tree sees")
    folds: int = Field(default=10, ge=2, description="folds of the cross-validation, by query")
    top: int = Field(default=10, ge=1, description="ranks that NDCG looks at")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws the folds and the samples of trees")


class LogSettings(Settings):
    """How people search."""

    lines: int = Field(default=100_000, ge=1, description="lines in all")
    users: int = Field(default=10_000, ge=1, description="people who search")
    session_lines: float = Field(default=3.0, ge=1, description="lines of a session, on average")
    noise_share: float = Field(default=0.35, ge=0, le=1, description="share of lines without an entity meant")
    single_share: float = Field(default=0.25, ge=0, le=1, description="share of lines that mean one entity")
    unrelated_share: float = Field(default=0.05, ge=0, le=1, description="share of lines that mean two unrelated ones")
    stay_share: float = Field(default=0.3, ge=0, le=1, description="chance that a line keeps the session's subject")
    broken_share: float = Field(default=0.001, ge=0, le=1, description="share of broken lines")
    file_lines: int = Field(default=500_000, ge=1, description="most lines of one file")
    format: str = Field(default="jsonl", pattern="^(jsonl|parquet)$", description="jsonl or parquet")

    @model_validator(mode="after")
    def _shares_fit(self) -> LogSettings:
        total = self.noise_share + self.single_share + self.unrelated_share
        if total > 1:
            raise ValueError(f"noise, single and unrelated shares must be at most 1 together, but got {total:g}")
        return self
