"""Training: labelled pairs, ten-fold cross-validation by query, a sweep over parameters, and the model of the best.

The objective is XGBoost's ``rank:ndcg`` (LambdaMART). A query is an entity, so all its pairs are in one fold. Thesis,
Section 3.1: "Each time a model is learned the system sweeps over a number of parameters (learning rate, number of trees
and nodes, etc.) and decides on their final value by optimizing for NDCG." The sweep's fits run as Spark tasks where a
session is given; the final fit runs on the driver, which for some 30,000 pairs is cheaper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import xgboost
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from streamtune.sundog.errors import SundogError
from streamtune.sundog.features import FEATURES
from streamtune.sundog.model import ModelCard, TreeModel
from streamtune.sundog.settings import SweepSettings


@dataclass(frozen=True)
class Examples:
    """Labelled pairs, those of one query (entity) side by side."""

    features: NDArray[np.float32]
    label: NDArray[np.int32]
    query: NDArray[np.int64]

    @property
    def queries(self) -> int:
        return len(np.unique(self.query))


def examples(table: pd.DataFrame, grades: Mapping[tuple[str, str], int]) -> Examples:
    """Pairs of a feature table that have a label; queries with only one pair teach nothing and are left out."""
    keys = list(zip(table["entity"].astype(str), table["related"].astype(str), strict=True))
    label = np.array([grades.get(key, -1) for key in keys])
    chosen = table[label >= 0].assign(label=label[label >= 0])
    chosen = chosen[chosen.groupby("entity", observed=True)["related"].transform("size") > 1]
    chosen = chosen.sort_values(["entity", "related"], kind="stable")
    if chosen.empty:
        raise SundogError(
            "no query has two labelled pairs in these features: check that days and truth belong together"
        )
    query = pd.factorize(chosen["entity"])[0]
    matrix = np.ascontiguousarray(chosen[list(FEATURES)].to_numpy(np.float32))
    return Examples(matrix, chosen["label"].to_numpy(np.int32), query.astype(np.int64))


def ndcg(query: NDArray[np.int64], label: NDArray[np.int32], score: NDArray[np.float32], top: int) -> float:
    """Mean NDCG@top over queries, gain 2^grade − 1, in one pass; queries without a good pair are left out."""
    gain = np.exp2(label.astype(np.float64)) - 1.0
    got, best = (_dcg(query, order, gain, top) for order in (-score.astype(np.float64), -gain))
    useful = best > 0
    return float((got[useful] / best[useful]).mean()) if useful.any() else 0.0


def _dcg(
    query: NDArray[np.int64], order: NDArray[np.float64], gain: NDArray[np.float64], top: int
) -> NDArray[np.float64]:
    rows = np.lexsort((order, query))
    of_query = query[rows]
    firsts = np.flatnonzero(np.r_[True, of_query[1:] != of_query[:-1]])
    rank = np.arange(len(rows)) - np.repeat(firsts, np.diff(np.append(firsts, len(rows))))
    discounted = np.where(rank < top, gain[rows] / np.log2(rank + 2.0), 0.0)
    return np.bincount(of_query, discounted, minlength=int(query.max()) + 1).astype(np.float64)


def fit(data: Examples, rows: NDArray[np.int64], parameters: Mapping[str, Any], seed: int) -> Any:
    """Trees of the given rows."""
    matrix = xgboost.DMatrix(data.features[rows], data.label[rows], qid=data.query[rows], nthread=1)
    asked = {
        "objective": "rank:ndcg",
        "ndcg_exp_gain": True,
        "lambdarank_pair_method": "topk",
        "eta": parameters["learning_rate"],
        "max_depth": parameters["depth"],
        "min_child_weight": parameters["min_child_weight"],
        "subsample": parameters["subsample"],
        "tree_method": "hist",
        "seed": seed,
        "nthread": 1,
    }
    return xgboost.train(asked, matrix, num_boost_round=parameters["trees"])


def folds_of(data: Examples, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each pair; a query is in one fold."""
    queries = int(data.query.max()) + 1
    order = np.random.default_rng([seed, 5]).permutation(queries)
    return (order % min(folds, queries))[data.query]


def _grid(settings: SweepSettings) -> list[dict[str, Any]]:
    lists = (settings.learning_rates, settings.trees, settings.depths, settings.min_child_weights)
    return [
        {
            "learning_rate": rate,
            "trees": trees,
            "depth": depth,
            "min_child_weight": weight,
            "subsample": settings.subsample,
        }
        for rate, trees, depth, weight in product(*lists)
    ]


def _validate(data: Examples, parameters: Mapping[str, Any], settings: SweepSettings, fold: int) -> float:
    """NDCG on one fold of trees that were fitted to the others."""
    of_fold = folds_of(data, settings.folds, settings.seed)
    train, test = np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold)
    if not len(train) or not len(test):
        return float("nan")
    booster = fit(data, train, parameters, settings.seed)
    score = booster.predict(xgboost.DMatrix(data.features[test], nthread=1))
    return ndcg(data.query[test], data.label[test], score, settings.top)


def sweep(data: Examples, settings: SweepSettings, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """Mean NDCG of cross-validation for every combination, best first."""
    grid = _grid(settings)
    work = [(number, fold) for number in range(len(grid)) for fold in range(settings.folds)]
    if spark is None:
        found = [(number, _validate(data, grid[number], settings, fold)) for number, fold in work]
    else:
        found = _sweep_on_spark(spark, data, settings, grid, work)
    means = [float(np.nanmean([score for number, score in found if number == place])) for place in range(len(grid))]
    rows = [{**parameters, "ndcg": round(mean, 6)} for parameters, mean in zip(grid, means, strict=True)]
    return sorted(rows, key=lambda row: (-row["ndcg"], row["trees"], row["depth"], row["learning_rate"]))


def _sweep_on_spark(
    spark: SparkSession,
    data: Examples,
    settings: SweepSettings,
    grid: list[dict[str, Any]],
    work: Sequence[tuple[int, int]],
) -> list[tuple[int, float]]:
    shared = spark.sparkContext.broadcast(data)

    def validate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column(0).to_pylist():
                number, fold = work[place]
                score = _validate(shared.value, grid[number], settings, fold)
                yield pa.RecordBatch.from_arrays([pa.array([json.dumps([number, score])])], names=["note"])

    tasks = min(len(work), 2 * spark.sparkContext.defaultParallelism)
    rows = spark.range(0, len(work), 1, tasks).mapInArrow(validate, "note string").collect()
    return sorted((number, score) for number, score in (json.loads(row.note) for row in rows))


def train(
    data: Examples,
    *,
    day: date,
    window: int,
    settings: SweepSettings | None = None,
    spark: SparkSession | None = None,
) -> TreeModel:
    """Sweep, then fit the best parameters to all pairs."""
    settings = settings or SweepSettings()
    swept = sweep(data, settings, spark)
    best = {name: value for name, value in swept[0].items() if name != "ndcg"}
    booster = fit(data, np.arange(len(data.label)), best, settings.seed)
    card = ModelCard(
        window=window,
        day=day,
        pairs=len(data.label),
        queries=data.queries,
        parameters=best,
        ndcg=swept[0]["ndcg"],
        swept=swept,
    )
    return TreeModel(card, bytes(booster.save_raw("json")))
