"""Cost models on Spark: the labelled plans of a history, and training with a task per network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from streamtune.dataflow import Job, Plan, Run
from streamtune.dataflow.hosts import Cluster, Host
from streamtune.history.errors import HistoryError
from streamtune.history.schema import STORED_RUN
from streamtune.history.store import History
from streamtune.models.costmodel.columns import LABELLED_SCHEMA, PLAN_SCHEMA, PlanColumns
from streamtune.models.costmodel.optisample import SATURATED, TARGET_BUSY, OptiSample
from streamtune.readings.selectivity import SELECTIVITY_SQL, observed_selectivity
from streamtune.spark.settings import TableSettings
from streamtune.spark.tables import Table
from streamtune.training.guesses import is_guessed

PLANS = "plans"
# Runs do not name their hosts: assume one large machine, the same for all.
UNKNOWN_HOSTS = Cluster((Host(kind="unknown", cores=1024),))
_ROWS_PER_BATCH = 256


def plans_table(history: History) -> Table:
    """The labelled plans of a history."""
    return History(history.spark, history.location, TableSettings(format=history.settings.format)).table(PLANS)


def stored_plans(history: History, limit: int) -> pa.Table:
    """The first plans by query and enumeration; only parts that the table's manifest names count."""
    table = plans_table(history)
    if not table.exists or not table.rows():
        raise HistoryError(f"no labelled plans at '{history.location}': make some with 'streamtune costmodel generate'")
    return table.read().orderBy("query", "enumeration").limit(limit).toArrow()


def plans_of_history(history: History, engine: str, hosts: Cluster = UNKNOWN_HOSTS) -> int:
    """Turn the runs of an engine that have latency and throughput into labelled plans; how many there are.

    Runs whose offered rates are guesses are left out. The job is the query: all runs of a job stay on one side of a
    split.
    """
    # All columns of today: a history that 0.1.0 wrote has fewer.
    runs = history.runs.read(columns=STORED_RUN).where(sql.col("engine") == engine)
    known = runs.where((sql.col("latency_ms") > 0) & (sql.col("throughput_per_s") > 0) & ~is_guessed())
    task = partial(_describe_batches, hosts=hosts)
    rows = known.select(*Run.model_fields).mapInArrow(task, from_arrow_schema(LABELLED_SCHEMA))
    table = plans_table(history)
    table.replace(rows, f"runs-{engine}")
    count = table.rows()
    if not count:
        raise HistoryError(f"no run of engine '{engine}' has both latency and throughput: nothing to learn from")
    return count


def _describe_batches(batches: Iterator[pa.RecordBatch], hosts: Cluster) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for first in range(0, batch.num_rows, _ROWS_PER_BATCH):
            rows = [describe_run(_run_of(row), hosts) for row in batch.slice(first, _ROWS_PER_BATCH).to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=LABELLED_SCHEMA)


def _run_of(row: dict[str, Any]) -> Run:
    return Run.model_validate({**row, "source_rates": dict(row["source_rates"])})


def describe_run(
    run: Run,
    hosts: Cluster,
    nominal_rates: Mapping[str, float] | None = None,
    selectivities: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A run with latency and throughput as one labelled plan; the job is its query.

    Without ``selectivities`` they follow from the records that operators took and gave.
    """
    job = Job(run.job, run.dataflow, max(operator.parallelism for operator in run.operators))
    plan = Plan({operator.id: operator.parallelism for operator in run.operators})
    ratios = observed_selectivity(
        [operator.records_in_per_s or 0.0 for operator in run.operators],
        [operator.records_out_per_s or 0.0 for operator in run.operators],
    )
    columns = PlanColumns.of_plans(
        job,
        [plan[key] for key in job.dataflow.index],
        hosts,
        rates=run.source_rates,
        nominal_rates=nominal_rates,
        selectivities=selectivities or dict(zip(job.dataflow.index, ratios.tolist(), strict=True)),
    )
    return {
        "query": run.job,
        "structure": run.job,
        "enumeration": "history",
        "ranges": "history",
        "latency_ms": run.latency_ms,
        "throughput_per_s": run.throughput_per_s,
        **columns.to_record(),
    }


def optisample_of_history(history: History, engine: str) -> OptiSample:
    """Scaling factors and usual selectivities from the runs of an engine, as ``OptiSample.calibrated`` takes them."""
    runs = history.runs.read().where(sql.col("engine") == engine)
    operator = runs.select(sql.explode("operators").alias("o")).select("o.*")
    alive = operator.where("records_in_per_s > 0")
    share = sql.col("busy_ms_per_s") / (
        sql.col("busy_ms_per_s") + sql.col("idle_ms_per_s") + sql.col("backpressured_ms_per_s")
    )
    per_record = sql.col("parallelism") / sql.col("records_in_per_s") / sql.lit(TARGET_BUSY)
    ratio = sql.expr(SELECTIVITY_SQL)
    found = alive.groupBy("type").agg(
        sql.percentile_approx(sql.when(share > SATURATED, per_record), 0.5, 1000).alias("factor"),
        sql.exp(sql.avg(sql.when(ratio > 0, sql.log(ratio)))).alias("selectivity"),
    )
    rows = list(found.orderBy("type").toLocalIterator())
    return OptiSample(
        {row.type: row.factor for row in rows if row.factor is not None},
        {row.type: row.selectivity for row in rows if row.selectivity is not None},
    )


def train_on_spark(
    history: History,
    out: Path,
    *,
    settings_json: str,
    optisample: OptiSample,
    enumeration: str | None = None,
    progress: Callable[[str], None] = lambda _message: None,
) -> dict[str, Any]:
    """Train a cost model on the stored plans, one Spark task per network, side by side; returns the model's notes.

    ``settings_json`` is a ``CostModelSettings``: this module stays free of torch, which only the tasks load.
    """
    from streamtune.models.costmodel.assembly import assembled, members_of

    rows = plans_table(history).read().where(sql.col("ranges").isin("seen", "history"))
    if enumeration is not None:
        rows = rows.where(sql.col("enumeration") == enumeration)
    tasks = members_of(settings_json)
    in_session = inheritable_thread_target(history.spark)
    with ThreadPoolExecutor(max_workers=len(tasks)) as pool:
        parts = list(pool.map(in_session(partial(_train_in_one_task, rows)), tasks))
    for number, (_, message) in enumerate(parts, start=1):
        progress(f"network {number} of {len(parts)}: {message}")
    model = assembled(settings_json, [packed for packed, _ in parts], optisample)
    model.save(out)
    return dict(model.notes)


def _train_in_one_task(rows: DataFrame, settings_json: str) -> tuple[bytes, str]:
    task = partial(_fit, settings_json=settings_json)
    columns = ["query", "enumeration", "latency_ms", "throughput_per_s", *PLAN_SCHEMA.names]
    result = rows.select(*columns).coalesce(1).mapInArrow(task, "model binary, message string, error string").first()
    if result is None:
        raise HistoryError("there are no plans to learn from: run 'streamtune costmodel generate' first")
    if result.error is not None:
        raise HistoryError(result.error)
    return bytes(result.model), str(result.message)


def _fit(batches: Iterator[pa.RecordBatch], settings_json: str) -> Iterator[pa.RecordBatch]:
    """Runs in a Spark task: trains one network on the training part, and gives it back as one row."""
    from streamtune.errors import StreamTuneError
    from streamtune.models.costmodel.assembly import trained_member

    table = pa.Table.from_batches(list(batches))
    try:
        model, message = trained_member(table, settings_json)
        row: tuple[bytes | None, str | None, str | None] = (model, message, None)
    except StreamTuneError as error:
        row = (None, None, str(error))
    kinds = (pa.binary(), pa.string(), pa.string())
    arrays = [pa.array([value], type=kind) for value, kind in zip(row, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(arrays, names=["model", "message", "error"])
