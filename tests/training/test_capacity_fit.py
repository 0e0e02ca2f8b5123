"""What a history teaches about capacity: the error of busy time by type, and how capacity grows with parallelism."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from streamtune.engines.simulator.settings import MeasurementError
from streamtune.history.featurise import featurise
from streamtune.history.label import label
from streamtune.history.split import TRAIN
from streamtune.history.store import History
from streamtune.labs.histories import generate
from streamtune.labs.settings import GenerateSettings
from streamtune.models.capacity import CapacityPrior
from streamtune.training.capacity import capacity_prior

pytestmark = pytest.mark.spark

ERROR = MeasurementError(bias_sigma=0.1, noise_sigma=0.02, seed=3)


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(spark, str(tmp_path_factory.mktemp("capacity")))
    generate(history, GenerateSettings(runs=300, error=ERROR, settle_s=60.0), partitions=2)
    label(history)
    featurise(history)
    return history


@pytest.fixture(scope="module")
def prior(history: History) -> CapacityPrior:
    return capacity_prior(history, "simulator")


def test_types_that_hide_work_are_found(prior: CapacityPrior) -> None:
    """A saturated operator of a type that under-reports by b reports at most 1 − b; skew pulls the mean further down.
    Nobody reports more than all of the time, so a type that over-reports shows nothing."""
    optimistic = [kind for kind in prior.saturated_busy if ERROR.bias(kind) < -0.02]
    assert optimistic, f"the draw has no such type among {sorted(prior.saturated_busy)}: choose another seed"
    for kind in optimistic:
        assert prior.saturated_busy[kind] < 1 + ERROR.bias(kind) / 2
    assert all(0.5 < share <= 1 for share in prior.saturated_busy.values())


def test_capacity_grows_with_parallelism_a_little_less_than_linearly(prior: CapacityPrior) -> None:
    """Simulated contention makes the exponent, the second weight, 0.93 to 1 (docs/explanation/simulator.md)."""
    for kind, found in prior.types.items():
        if found.readings >= 50:
            assert 0.85 < found.mean[1] < 1.05, kind


def test_only_the_training_part_of_the_engine_counts(history: History, prior: CapacityPrior) -> None:
    training = history.features.read().where(sql.col("split") == TRAIN).select("run_id")
    rows = history.runs.read().join(training, "run_id", "left_semi").select(sql.explode("operators.type").alias("type"))
    present = Counter({row["type"]: row["count"] for row in rows.groupBy("type").count().toLocalIterator()})
    for kind, found in prior.types.items():
        assert 0 < found.readings <= present[kind]
    assert not capacity_prior(history, "flink").types
