"""Labelled plans for cost models, drawn and run on the simulator by Spark tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from streamtune.history.store import History
from streamtune.labs.cost_runs import PlanDataSettings, calibrated_optisample, labelled_plan
from streamtune.models.costmodel.columns import LABELLED_SCHEMA
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.training.costmodel import plans_table

_ROWS_PER_BATCH = 256


def part_of_settings(settings: PlanDataSettings) -> str:
    """The id under which the plans of these settings are stored."""
    return "generated-" + hashlib.sha256(settings.model_dump_json().encode()).hexdigest()[:16]


def generate_plans(history: History, settings: PlanDataSettings, partitions: int | None = None) -> int:
    """Draw, run and store plans; a set that is there already is left alone. How many rows there are of it."""
    settings.check()
    part = part_of_settings(settings)
    parallel = partitions or history.spark.sparkContext.defaultParallelism * 4
    task = partial(_label_batches, settings=settings, optisample=calibrated_optisample(settings.seed))
    numbers = history.spark.range(0, settings.plans, 1, parallel)
    table = plans_table(history)
    table.append(numbers.mapInArrow(task, from_arrow_schema(LABELLED_SCHEMA)), part)
    return table.rows(part)


def _label_batches(
    batches: Iterator[pa.RecordBatch], settings: PlanDataSettings, optisample: OptiSample
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = batch.column("id").to_pylist()
        for first in range(0, len(numbers), _ROWS_PER_BATCH):
            rows = [labelled_plan(number, settings, optisample) for number in numbers[first : first + _ROWS_PER_BATCH]]
            yield pa.RecordBatch.from_pylist(rows, schema=LABELLED_SCHEMA)
