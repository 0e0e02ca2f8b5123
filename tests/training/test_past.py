"""Past operators from a history: one pass on Spark, the same sums as on one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from streamtune.history.featurise import featurise
from streamtune.history.label import label
from streamtune.history.store import History
from streamtune.labs.histories import draw, generate, run_of
from streamtune.labs.settings import GenerateSettings
from streamtune.models.transfer.fitting import fit_transfer
from streamtune.models.transfer.model import Levels, TransferModel
from streamtune.models.transfer.past import MOST, SCHEMA, SUMS, PastOperators
from streamtune.readings import LabelSettings
from streamtune.spark.tables import Table
from streamtune.training.capacity import past_and_types
from streamtune.training.sums import past_of_runs

pytestmark = pytest.mark.spark

SETTINGS = GenerateSettings(runs=300, settle_s=60.0, random_jobs=20, relatives_share=0.4)


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(spark, str(tmp_path_factory.mktemp("past")))
    generate(history, SETTINGS, partitions=3)
    label(history)
    featurise(history)
    return history


@pytest.fixture(scope="module")
def past(history: History) -> PastOperators:
    return past_and_types(history, "simulator", LabelSettings(), 2_000)[0]


def test_every_run_is_counted_once(past: PastOperators) -> None:
    drawn = [draw(number, SETTINGS).workload.spec.job for number in range(SETTINGS.runs)]
    assert set(past.by_name) == {job.name for job in drawn}
    first = [rows[0] for rows in past.job_rows]
    assert past.column("runs")[first].sum() == SETTINGS.runs
    assert len(past) == sum(len(past.job(number).dataflow.operators) for number in range(len(past.job_rows)))


def test_a_past_job_is_the_job_that_ran(past: PastOperators) -> None:
    job = draw(7, SETTINGS).workload.spec.job
    kept = past.job(past.by_name[job.name][0]).dataflow
    assert kept.types == job.dataflow.types
    assert set(kept.edge_indices) == set(job.dataflow.edge_indices)


def same_sums(some: PastOperators, others: PastOperators) -> None:
    """Column by column: names, places and days as they are, sums but for the order in which they were added up."""
    assert len(some) == len(others)
    for name in SCHEMA.names:
        mine, theirs = some.table.column(name), others.table.column(name)
        if name in (*SUMS, *MOST):
            np.testing.assert_allclose(mine.to_numpy(), theirs.to_numpy(), rtol=1e-9, atol=1e-9, err_msg=name)
        elif name != "trains":
            assert mine.to_pylist() == theirs.to_pylist(), name


def test_sums_do_not_depend_on_partitions(
    history: History, past: PastOperators, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of one job in seven tasks instead of three."""
    read = Table.read

    def spread_out(table: Table, *args: Any, **named: Any) -> DataFrame:
        return read(table, *args, **named).repartition(7)

    monkeypatch.setattr(Table, "read", spread_out)
    assert history.runs.read().rdd.getNumPartitions() == 7
    same_sums(past_and_types(history, "simulator", LabelSettings(), 2_000)[0], past)


def test_benchmarks_without_spark_have_the_same_past(past: PastOperators) -> None:
    """All cold starts rest on it: sums over one batch in this process are those of Spark's tasks."""
    same_sums(past_of_runs(run_of(number, SETTINGS) for number in range(SETTINGS.runs)), past)


def test_only_the_latest_jobs_are_kept(history: History) -> None:
    few = past_and_types(history, "simulator", LabelSettings(), 5)[0]
    assert len(few.job_rows) == 5


def test_a_job_of_the_history_is_known_better_than_a_stranger(past: PastOperators) -> None:
    """Its own runs tell what its features cannot."""
    model = TransferModel(fit_transfer(past), past)
    often = max(past.by_name, key=lambda name: past.column("runs")[past.job_rows[past.by_name[name][0]][0]])
    workload = next(one for one in (draw(n, SETTINGS).workload for n in range(SETTINGS.runs)) if one.name == often)
    job = workload.spec.job
    own = model.prior(job, "global")
    stranger = model.prior(job, "global", Levels(relatives=False, own_past=False))
    read = [key for key, one in own.items() if any(origin.is_own and origin.readings >= 3 for origin in one.origins)]
    assert read
    for key in read:
        truth = np.log(workload.physics[key].capacity_per_s(4))
        mean, sd = own[key].belief.log_capacity([4])
        assert abs(mean[0] - truth) < 0.15
        assert sd[0] < stranger[key].belief.log_capacity([4])[1][0]
