"""What the experiments share: the data sets of the thesis' Table 2 on generated logs, features, models, judgements.

Epochs are the thesis': the new one ends on the day of judgement (four days, 20 to 23 January 2014), the recent one on
12 January, the old one on 31 December 2013; windows of 1, 7 and 30 days. Logs are generated once and counted once;
features of a window are made from panes. A model is trained on relevance, on the features of its own window and day, as
in the thesis, and never sees the queries that are judged.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from streamtune.outputs import write_whole
from streamtune.sundog.features import FEATURES
from streamtune.sundog.generator import generate
from streamtune.sundog.knowledge import load_knowledge
from streamtune.sundog.labels import most_searched, sample_queries
from streamtune.sundog.model import TreeModel
from streamtune.sundog.pipeline import Sundog
from streamtune.sundog.settings import LogSettings, SundogSettings, SweepSettings, WorldSettings
from streamtune.sundog.tables import read_table
from streamtune.sundog.training import examples, train
from streamtune.sundog.world import Truth

OLD, RECENT, NEW = "old", "recent", "new"
EPOCHS = (OLD, RECENT, NEW)
JUDGED_DAYS = tuple(date(2014, 1, 20) + timedelta(days=number) for number in range(4))
_ENDS = {OLD: date(2013, 12, 31), RECENT: date(2014, 1, 12)}
_FIRST_DAY = date(2013, 12, 2)


@dataclass(frozen=True)
class SundogStudy:
    """How large the study is."""

    entities: int = 3000
    lines_per_day: int = 30_000
    users: int = 20_000
    windows: tuple[int, ...] = (1, 7, 30)
    judged_days: tuple[date, ...] = JUDGED_DAYS
    queries: int = 60
    folds: int = 10
    trees: tuple[int, ...] = (50, 100)
    depths: tuple[int, ...] = (3, 5)
    labelled_pairs: int = 30_000
    real_days: int = 8
    seed: int = 0

    @classmethod
    def quick(cls) -> SundogStudy:
        return cls(
            entities=300,
            lines_per_day=1500,
            users=1500,
            windows=(1, 7),
            judged_days=JUDGED_DAYS[:2],
            queries=30,
            folds=2,
            trees=(30,),
            depths=(3,),
            labelled_pairs=2000,
            real_days=2,
        )


class SundogArena:
    """Generates, counts and trains when something is asked for first, and remembers."""

    def __init__(
        self, spark: SparkSession, scale: SundogStudy, work: Path, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self.spark, self.scale, self.work, self.tell = spark, scale, work, tell
        self._features: dict[tuple[date, int], pd.DataFrame] = {}
        self._models: dict[tuple[date, int], TreeModel] = {}
        self._grades: dict[date, dict[tuple[str, str], tuple[int, int]]] = {}

    @cached_property
    def folder(self) -> Path:
        """The generated world and its logs; a folder that holds them already is taken as it is."""
        days = (self.scale.judged_days[-1] - _FIRST_DAY).days + 1
        world = WorldSettings(entities=self.scale.entities, start=_FIRST_DAY, days=days, seed=self.scale.seed)
        logs = LogSettings(lines=days * self.scale.lines_per_day, users=self.scale.users)
        made_of = f"{world.model_dump_json()}\n{logs.model_dump_json()}\n"
        folder = self.work / "world"
        done = folder / "settings.txt"
        if not done.is_file() or done.read_text(encoding="utf-8") != made_of:
            self.tell(f"generating {logs.lines:,} lines")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(self.work / "out", ignore_errors=True)
            shutil.rmtree(self.work / "learned", ignore_errors=True)
            generate(self.spark, folder, world, logs)
            write_whole(done, made_of)
        return folder

    @cached_property
    def pipeline(self) -> Sundog:
        """The pipeline with all logs counted; counting them again changes nothing."""
        knowledge = load_knowledge(self.folder / "knowledge")
        sundog = Sundog(self.spark, knowledge, str(self.work.absolute() / "out"), SundogSettings())
        self.tell("counting")
        sundog.add(sundog.inputs([str((self.folder / "logs").absolute())]))
        return sundog

    @cached_property
    def truth(self) -> Truth:
        return Truth.read(self.folder / "truth")

    def grades(self, day: date) -> dict[tuple[str, str], tuple[int, int]]:
        """Relevance and recency on a day."""
        if day not in self._grades:
            self._grades[day] = self.truth.grades(day)
        return self._grades[day]

    def end(self, epoch: str, judged: date) -> date:
        """The last day of an epoch's data when rankings are judged on a day."""
        return _ENDS.get(epoch, judged)

    def features(self, day: date, window: int) -> pd.DataFrame:
        """Features of all pairs in a window."""
        if (day, window) not in self._features:
            self.tell(f"features of {window} days to {day}")
            self.pipeline.rank(day, window)
            self._features[day, window] = read_table(self.pipeline.out, "features", day, window)
        return self._features[day, window]

    def queries(self, judged: date) -> list[str]:
        """The most searched entities of the day that is judged."""
        return most_searched(self.features(judged, 1), self.scale.queries)

    @cached_property
    def held_out(self) -> frozenset[str]:
        """Queries of all judged days: no model learns from them."""
        return frozenset(query for day in self.scale.judged_days for query in self.queries(day))

    def model(self, day: date, window: int) -> TreeModel:
        """A model trained on the features and the relevance of one day."""
        if (day, window) not in self._models:
            folder = self.learned / f"model-{day}-{window}"
            if folder.is_dir():
                self._models[day, window] = TreeModel.load(folder)
                return self._models[day, window]
            self.tell(f"training on {window} days to {day}")
            relevance = {pair: grade[0] for pair, grade in self.grades(day).items()}
            self._models[day, window] = self.trained(self.features(day, window), relevance, day, window)
            self._models[day, window].save(folder)
        return self._models[day, window]

    @property
    def learned(self) -> Path:
        """Where models are kept, apart for every scale: a study that was stopped goes on from them."""
        digest = hashlib.sha256(repr((self.scale, self.sweep)).encode()).hexdigest()[:12]
        folder = self.folder.parent / "learned" / digest
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def sweep(self) -> SweepSettings:
        """What every model is chosen from, by cross-validation on queries that are not judged."""
        scale = self.scale
        return SweepSettings(
            learning_rates=(0.1,), trees=scale.trees, depths=scale.depths, folds=scale.folds, seed=scale.seed
        )

    def trained(self, table: pd.DataFrame, labels: dict[tuple[str, str], int], day: date, window: int) -> TreeModel:
        table = table[~table["entity"].isin(self.held_out)]
        table = sample_queries(table, labels, self.scale.labelled_pairs, self.scale.seed)
        return train(examples(table, labels), day=day, window=window, settings=self.sweep, spark=self.spark)

    def ranking(self, model: TreeModel, day: date, window: int, judged: date) -> pd.DataFrame:
        """Top ten of the judged queries, by a model on the features of a day."""
        table = self.features(day, window)
        table = table[table["entity"].isin(set(self.queries(judged)))]
        return top_ten(table, model.score(table[list(FEATURES)].to_numpy(np.float32)))


def top_ten(table: pd.DataFrame, score: np.ndarray) -> pd.DataFrame:
    """Entity, related and rank; ties as in the pipeline."""
    ordered = table.assign(score=score).sort_values(
        ["entity", "score", "users", "events", "related"], ascending=[True, False, False, False, True]
    )
    rank = ordered.groupby("entity", observed=True).cumcount() + 1
    ranked: pd.DataFrame = ordered.assign(rank=rank)[["entity", "related", "rank", "score"]]
    return ranked[rank <= 10]
