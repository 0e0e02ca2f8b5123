"""Scores of predictions as rows of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamtune.models.costmodel.columns import PlanColumns
from streamtune.models.costmodel.datasets import plans_of
from streamtune.models.costmodel.model import Predictions
from streamtune.models.costmodel.training import summary

Score = dict[str, dict[str, float]]


class Predictor(Protocol):
    """Whatever predicts plans: the cost model, or a flat rival."""

    def predict(self, columns: PlanColumns) -> Predictions: ...


def score(model: Predictor, table: pa.Table) -> Score:
    """Median and 95th percentile q-errors of both targets over the rows of a table."""
    plans = plans_of(table)
    found = model.predict(plans.columns)
    return {
        "latency": summary(plans.labels.latency_ms, found.latency_ms),
        "throughput": summary(plans.labels.throughput_per_s, found.throughput_per_s),
    }


def scores_by(model: Predictor, table: pa.Table, keys: npt.ArrayLike) -> dict[str, Score]:
    """The same for every value of a key that each row has."""
    plans, keys = plans_of(table), np.asarray(keys)
    found = model.predict(plans.columns)
    result = {}
    for key in dict.fromkeys(keys.tolist()):
        rows = keys == key
        result[str(key)] = {
            "latency": summary(plans.labels.latency_ms[rows], found.latency_ms[rows]),
            "throughput": summary(plans.labels.throughput_per_s[rows], found.throughput_per_s[rows]),
        }
    return result


def structures(table: pa.Table) -> list[str]:
    return [str(name) for name in table.column("structure").to_pylist()]


def row(name: str, scores: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Name, plans, latency and throughput, each as median and 95th percentile."""
    latency, throughput = scores["latency"], scores["throughput"]
    return (
        name,
        f"{latency['plans']:.0f}",
        *(f"{value:.2f}" for value in (latency["median"], latency["p95"], throughput["median"], throughput["p95"])),
    )


HEADINGS = ("plans", "latency 50 %", "latency 95 %", "throughput 50 %", "throughput 95 %")
