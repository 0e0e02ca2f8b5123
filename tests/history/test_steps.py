"""The steps label and featurise on Spark do what their pure kernels do, whatever Spark they run on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col, lit, to_date, transform, when

from streamtune.dataflow import Run
from streamtune.history.errors import HistoryError
from streamtune.history.featurise import encoder_path, featurise, fit
from streamtune.history.label import label
from streamtune.history.schema import RUN
from streamtune.history.settings import FeaturiseSettings
from streamtune.history.split import TEST, TRAIN, split_column, split_of
from streamtune.history.store import History
from streamtune.models.features import FeatureEncoder
from streamtune.readings import label_observation
from streamtune.readings.selectivity import observed_selectivity
from streamtune.spark.errors import told_by_spark
from streamtune.spark.files import Files

pytestmark = pytest.mark.spark

KINDS = ["map", "filter", "window_aggregate", "join", "flat_map"]


def random_run(number: int) -> Run:
    """A run of a random DAG with random metrics, some of them missing."""
    rng = np.random.default_rng(number)
    size = int(rng.integers(2, 9))
    sources = int(rng.integers(1, size))
    edges = []
    for target in range(sources, size):
        chosen = rng.choice(target, size=min(target, int(rng.integers(1, 3))), replace=False)
        edges += [{"source": f"o{a}", "target": f"o{target}", "partitioning": "hash"} for a in chosen]

    def operator(position: int) -> dict[str, Any]:
        busy, idle, held = rng.dirichlet([2, 2, 0.3]) * 1000
        windowed = rng.random() < 0.4 and position >= sources
        return {
            "id": f"o{position}",
            "type": "source" if position < sources else str(rng.choice(KINDS)),
            "window_type": "sliding" if windowed else None,
            "window_policy": "time" if windowed else None,
            "window_length": float(rng.integers(5, 50)) if windowed else None,
            "window_slide": 2.0 if windowed else None,
            "tuple_width_in": float(rng.integers(1, 9)) if rng.random() < 0.7 else None,
            "parallelism": int(rng.integers(1, 60)),
            "records_in_per_s": float(rng.uniform(0, 1000)),
            "records_out_per_s": float(rng.uniform(0, 1000)),
            "busy_ms_per_s": None if rng.random() < 0.05 else float(busy),
            "idle_ms_per_s": float(idle),
            "backpressured_ms_per_s": float(held),
        }

    order = rng.permutation(size)  # operators need not be listed in topological order
    return Run.model_validate(
        {
            "run_id": f"run-{number:04d}",
            "job": f"job-{number % 23}",
            "engine": "timely" if number % 5 == 0 else "flink",
            "observed_at": datetime(2026, 11, 10, tzinfo=UTC) + timedelta(hours=number),
            "window_s": 60.0,
            "source_rates": {f"o{position}": float(rng.uniform(100, 2000)) for position in range(sources)},
            "operators": [operator(int(position)) for position in order],
            "edges": edges,
        }
    )


RUNS = {run.run_id: run for run in map(random_run, range(120))}


def stored(spark: SparkSession, partitions: int = 3) -> DataFrame:
    rows = [run.model_dump() for run in RUNS.values()]
    frame = spark.createDataFrame(rows, RUN).withColumn("content_hash", lit(0).cast("bigint"))
    return frame.withColumn("day", to_date("observed_at")).repartition(partitions)


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> History:
    history = History(spark, str(tmp_path_factory.mktemp("steps")))
    history.runs.replace(stored(spark), "test")
    return history


def online_labels(run: Run) -> list[int]:
    """What the tuner would say of the same run."""
    return list(label_observation(run.dataflow, run.observation).values())


def test_spark_and_the_tuner_label_alike(history: History) -> None:
    assert label(history) == len(RUNS)
    rows = {row.run_id: list(row.labels) for row in history.labels.read().collect()}
    assert rows == {run_id: online_labels(run) for run_id, run in RUNS.items()}
    assert {-1, 0, 1} == {entry for labels in rows.values() for entry in labels}


def test_labelling_again_gives_the_same_table(history: History) -> None:
    label(history)
    before = sorted(history.labels.read().collect())
    label(history)
    assert sorted(history.labels.read().collect()) == before


def test_spark_and_the_tuner_encode_alike(history: History) -> None:
    encoder = featurise(history, FeaturiseSettings(test_share=0.3))
    saved = FeatureEncoder.load(encoder_path(history))
    assert saved == encoder
    rows = history.features.read().collect()
    assert len(rows) == len(RUNS)
    for row in rows:
        run = RUNS[row.run_id]
        flow = run.dataflow
        seen = observed_selectivity(
            [operator.records_in_per_s for operator in run.operators],
            [operator.records_out_per_s for operator in run.operators],
        )
        selectivities = dict(zip(flow.index, seen, strict=True))
        online = saved.encode(flow, run.source_rates, selectivities)
        assert encoder.dense(row.codes, row.numbers) == pytest.approx(online, abs=1e-6)
        assert list(row.parallelism) == [operator.parallelism for operator in run.operators]
        assert list(zip(row.edge_source, row.edge_target, strict=True)) == list(flow.edge_indices)


def test_the_encoder_is_fitted_on_training_jobs_alone(history: History) -> None:
    settings = FeaturiseSettings(test_share=0.3)
    encoder = featurise(history, settings)
    training = [run for run in RUNS.values() if split_of(run.job, 0.3) == TRAIN]
    widths = [o.tuple_width_in for run in training for o in run.operators if o.tuple_width_in is not None]
    assert encoder.ranges["tuple_width_in"] == (min(widths), max(widths))
    first = [
        sum(run.source_rates.get(before, 0.0) for before in run.dataflow.predecessors(o.id))
        for run in training
        for o in run.operators
    ]
    assert encoder.ranges["source_rate"] == pytest.approx((min(first), max(first)))
    assert set(encoder.categories["type"]) == {o.type for run in training for o in run.operators}


def test_no_job_is_in_both_parts(spark: SparkSession, history: History) -> None:
    featurise(history, FeaturiseSettings(test_share=0.3))
    parts: dict[str, set[str]] = {TRAIN: set(), TEST: set()}
    for row in history.features.read().select("job", "split").distinct().collect():
        parts[row.split].add(row.job)
    assert not parts[TRAIN] & parts[TEST]
    assert parts[TRAIN]
    assert parts[TEST]
    jobs = spark.createDataFrame([(f"job-{n}",) for n in range(500)], "job string")
    on_spark = {row.job: row.part for row in jobs.select("job", split_column(0.2).alias("part")).collect()}
    assert on_spark == {job: split_of(job, 0.2) for job in on_spark}
    assert 0.1 < sum(part == TEST for part in on_spark.values()) / 500 < 0.3


def test_an_empty_training_part_is_named(spark: SparkSession, tmp_path: Path) -> None:
    tested = next(run.job for run in RUNS.values() if split_of(run.job, 0.3) == TEST)
    alone = History(spark, str(tmp_path))
    alone.runs.replace(stored(spark).where(col("job") == tested), "test")
    with pytest.raises(HistoryError, match="no job is in the training part"):
        fit(alone.runs, 0.3)


def test_the_number_of_partitions_does_not_matter(spark: SparkSession, history: History, tmp_path: Path) -> None:
    label(history)
    other = History(spark, str(tmp_path))
    other.runs.replace(stored(spark, partitions=7), "test")
    label(other)
    assert sorted(other.labels.read().collect()) == sorted(history.labels.read().collect())


def tables_of(history: History) -> tuple[list[Row], list[Row], FeatureEncoder]:
    label(history)
    encoder = featurise(history, FeaturiseSettings(test_share=0.3))
    return sorted(history.labels.read().collect()), sorted(history.features.read().collect()), encoder


def test_files_read_by_the_tasks_give_what_the_scan_of_spark_gives(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    by_tasks = tables_of(history)
    monkeypatch.setattr(Files, "local_path", lambda _, location: asked.append(location))
    assert tables_of(history) == by_tasks
    assert len(asked) == 3  # label, fit and encode


def as_an_older_release_wrote(frame: DataFrame) -> DataFrame:
    """Without the columns that came later, nested ones too."""
    edges = transform("edges", lambda edge: edge.dropFields("records_per_s"))
    return frame.drop("reports_backpressure", "busy_resolution", "rate_origins").withColumn("edges", edges)


def test_late_skewed_and_old_parts_in_many_small_files_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Nine runs of ten belong to one job, days arrive out of order, and half of the parts are of an older schema."""
    skewed = stored(spark).withColumn("job", when(col("run_id") < "run-0108", "job-1").otherwise(col("job"))).cache()
    whole = History(spark, str(tmp_path / "whole"))
    whole.runs.replace(skewed.coalesce(1), "test")
    grown = History(spark, str(tmp_path / "grown"))
    for number, part in enumerate((2, 0, 1, 3)):  # later days first, then what came late
        rows = skewed.where(col("run_id").substr(5, 4).cast("int") % 4 == part).repartition(15)
        grown.runs.append(as_an_older_release_wrote(rows) if number % 2 else rows, f"batch-{number}")
    assert len(list((tmp_path / "grown").rglob("*.parquet"))) > 60
    assert tables_of(grown) == tables_of(whole)
    skewed.unpersist()


def test_a_damaged_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    broken = History(spark, str(tmp_path / "history"))
    broken.runs.replace(stored(spark, partitions=1), "test")
    file = max((tmp_path / "history" / "runs").rglob("*.parquet"), key=lambda path: path.stat().st_size)
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PySparkException) as stopped:
        label(broken)
    assert told_by_spark(stopped.value).startswith(f"{file} cannot be read: ")
