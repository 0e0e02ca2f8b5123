"""Labelled plans on Spark: the same as one by one, never twice, and trained on without the unseen ranges."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from streamtune.errors import StreamTuneError
from streamtune.history.errors import HistoryError
from streamtune.history.store import History
from streamtune.labs.cost_plans import generate_plans
from streamtune.labs.cost_runs import calibrated_optisample, labelled_plan
from streamtune.labs.histories import generate
from streamtune.labs.settings import GenerateSettings, PlanDataSettings
from streamtune.models.costmodel.columns import LABELLED_SCHEMA
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.settings import CostModelSettings, CostTrainingSettings
from streamtune.training.costmodel import (
    UNKNOWN_HOSTS,
    optisample_of_history,
    plans_of_history,
    plans_table,
    stored_plans,
    train_on_spark,
)
from streamtune.training.guesses import is_guessed

pytestmark = pytest.mark.spark

QUICK = CostModelSettings(members=2, training=CostTrainingSettings(epochs=1)).model_dump_json()


def test_spark_gives_what_one_by_one_gives(spark: SparkSession, tmp_path: Path) -> None:
    """However many partitions do the work; and what is stored already is not made again."""
    settings = PlanDataSettings(plans=12)
    optisample = calibrated_optisample(settings.seed)
    expected = [labelled_plan(number, settings, optisample) for number in range(settings.plans)]
    for partitions in (1, 3):
        history = History(spark, str(tmp_path / f"history-{partitions}"))
        assert generate_plans(history, settings, partitions) == settings.plans
        assert generate_plans(history, settings, partitions) == settings.plans
        stored = plans_table(history).read().toArrow().cast(LABELLED_SCHEMA)
        assert as_texts(stored) == as_texts(pa.Table.from_pylist(expected, schema=LABELLED_SCHEMA))


def as_texts(table: pa.Table) -> list[str]:
    """Rows that compare whatever their order; NaN equals NaN."""
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())


def test_training_leaves_out_unseen_ranges(spark: SparkSession, tmp_path: Path) -> None:
    history = History(spark, str(tmp_path / "history"))
    generate_plans(history, PlanDataSettings(plans=90))
    generate_plans(history, PlanDataSettings(plans=30, ranges="event_rate", first=1000))
    notes = train_on_spark(history, tmp_path / "model", settings_json=QUICK, optisample=calibrated_optisample(0))
    model = CostModel.load(tmp_path / "model")
    assert len(model.networks) == 2
    assert notes["plans"] < 90
    assert model.encoder.high["event_rate"] <= 1e6, "the testing range goes to 4 million"
    assert {"validation", "test"} <= set(notes)


def test_a_history_of_runs_can_be_learnt_from(spark: SparkSession, tmp_path: Path) -> None:
    history = History(spark, str(tmp_path / "history"))
    generate(history, GenerateSettings(runs=60, random_jobs=30))
    assert plans_of_history(history, "simulator") == 60
    queries = {row.query for row in plans_table(history).read().select("query").collect()}
    assert len(queries) > 10
    optisample = optisample_of_history(history, "simulator")
    assert 0 < optisample.scaling["filter"] < 1
    assert 0.3 < optisample.selectivity["filter"] < 0.6, "what the workloads draw filters from"
    train_on_spark(history, tmp_path / "model", settings_json=QUICK, optisample=optisample)
    model = CostModel.load(tmp_path / "model")
    assert model.notes["queries"] <= len(queries)
    assert model.encoder.usual_cluster.cores == UNKNOWN_HOSTS.cores, "asked without hosts, it answers as it was trained"


def test_guessed_rates_do_not_teach(spark: SparkSession, tmp_path: Path) -> None:
    history = History(spark, str(tmp_path / "history"))
    generate(history, GenerateSettings(runs=20, random_jobs=5))
    runs = history.runs.read()
    guesses = sql.transform_values("source_rates", lambda _key, _rate: sql.lit("estimated"))
    some = sql.substring("run_id", -1, 1).isin("3", "7")
    told = runs.withColumn("rate_origins", sql.when(some, guesses).otherwise(sql.col("rate_origins")))
    guessed = History(spark, str(tmp_path / "guessed"))
    guessed.runs.replace(told, "test")
    assert guessed.runs.read().where(is_guessed()).count() == 4
    assert plans_of_history(guessed, "simulator") == 16


def test_unknown_ranges_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamTuneError, match=r"ranges must be seen, unseen or one of tuple_width.*but got .weather"):
        generate_plans(History(spark, str(tmp_path)), PlanDataSettings(plans=1, ranges="weather"))


def test_only_parts_that_the_manifest_names_are_plans(spark: SparkSession, tmp_path: Path) -> None:
    """What a killed step left in the folder is not read; reading the Parquet files themselves would."""
    history = History(spark, str(tmp_path / "plans"))
    generate_plans(history, PlanDataSettings(plans=6))
    part = next((tmp_path / "plans" / "plans").glob("part=*"))
    shutil.copytree(part, part.with_name("part=left-by-a-killed-step"))
    assert stored_plans(history, 100).num_rows == 6
    assert stored_plans(history, 4).column("query").to_pylist() == sorted(stored_plans(history, 4)["query"].to_pylist())
    with pytest.raises(HistoryError, match="no labelled plans at"):
        stored_plans(History(spark, str(tmp_path / "nothing")), 5)
