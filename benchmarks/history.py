"""Speed of the history pipeline: labelling and featurising from Parquet to Parquet. Run by ``make bench-history``.

Prints operator rows/s for 0.1, 1, 4 and 10 million runs of 8 operators with the peak memory of the JVM and all Python
workers; the same with Spark's own scan instead of files that the tasks read; for a history of which nine tenths are
runs of one job on one day, and for one in 20,000 small files; and the ratio to a row-wise Python UDF that labels a
smaller table. Processor time is given beside the clock, since it does not depend on what else the machine does.

Each part is kept in ``build/bench-history/done.json`` as soon as it is done, and a killed benchmark goes on behind it;
when all are done, ``benchmarks/results/history.json`` is written. ``STREAMTUNE_BENCH_RUNS=20000,100000`` chooses other
sizes for the first part, and then only prints.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from unittest import mock

import numpy as np
import psutil
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, ByteType, Row

from streamtune.history.featurise import featurise
from streamtune.history.label import label
from streamtune.history.schema import STORED_RUN
from streamtune.history.store import History
from streamtune.readings import LabelSettings
from streamtune.spark.files import Files
from streamtune.spark.schemas import nullable
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings

OPERATORS = 8
CORES = 2
DEFAULT_RUNS = (100_000, 1_000_000, 4_000_000, 10_000_000)
COMPARED_RUNS = 1_000_000
SMALL_FILES, RUNS_IN_SMALL_FILES = 20_000, 200_000
UDF_SAMPLE = 50_000
RESULTS = Path(__file__).parent / "results" / "history.json"
WORK = Path("build/bench-history")
DONE = WORK / "done.json"

DAYS = 10
# Two sources, a join, a chain behind it: eight operators, seven edges.
IDS = ["bids", "asks", "parse_bids", "parse_asks", "join", "count", "format", "sink"]
TYPES = ["source", "source", "map", "flat_map", "window_join", "window_aggregate", "map", "sink"]
EDGES = [(0, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6), (6, 7)]


def synthetic_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs of one shape with random metrics, each seeded by its id."""
    schema = to_arrow_schema(nullable(STORED_RUN), timezone="UTC")
    for batch in batches:
        ids = batch.column("id").to_numpy()
        yield pa.RecordBatch.from_arrays(_columns(ids, schema), schema=schema)


def _columns(ids: np.ndarray, schema: pa.Schema) -> list[pa.Array]:
    size = len(ids)
    random = np.random.default_rng(int(ids[0]))
    operator = schema.field("operators").type.value_type
    flat = size * OPERATORS
    times = random.dirichlet([2.0, 3.0, 0.3], flat) * 1000.0
    rates = random.uniform(100.0, 10_000.0, flat)
    windowed = np.tile([kind.startswith("window") for kind in TYPES], size)
    given: dict[str, Any] = {
        "id": np.tile(IDS, size),
        "type": np.tile(TYPES, size),
        "window_type": np.where(windowed, "tumbling", None),
        "window_policy": np.where(windowed, "time", None),
        "window_length": np.where(windowed, 10.0, np.nan),
        "tuple_width_in": random.integers(1, 15, flat).astype(float),
        "tuple_type": np.tile("long", flat),
        "parallelism": random.integers(1, 61, flat),
        "records_in_per_s": rates,
        "records_out_per_s": rates,
        "busy_ms_per_s": times[:, 0],
        "idle_ms_per_s": times[:, 1],
        "backpressured_ms_per_s": times[:, 2],
    }
    fields = [pa.array(given.get(field.name, [None] * flat), type=field.type, from_pandas=True) for field in operator]
    structs = pa.StructArray.from_arrays(fields, fields=list(operator))
    edge = schema.field("edges").type.value_type
    wires = size * len(EDGES)
    wired: dict[str, Any] = {
        "source": np.tile([IDS[tail] for tail, _ in EDGES], size),
        "target": np.tile([IDS[head] for _, head in EDGES], size),
        "partitioning": np.tile("hash", wires),
    }
    edges = pa.StructArray.from_arrays(
        [pa.array(wired.get(field.name, [None] * wires), type=field.type) for field in edge], fields=list(edge)
    )
    sources = pa.array(np.tile(IDS[:2], size)), pa.array(random.uniform(1_000.0, 20_000.0, 2 * size))
    made = {
        "schema_version": np.ones(size, dtype=np.int32),
        "run_id": [f"run-{number:09d}" for number in ids],
        "job": [f"job-{number % 500}" for number in ids],
        "engine": ["flink"] * size,
        "observed_at": (1_794_787_200 + ids % 864_000) * 1_000_000,
        "window_s": np.full(size, 60.0),
        "content_hash": ids,
        "day": (20_773 + (ids % 864_000) // 86_400).astype(np.int32),
    }
    nested = {
        "source_rates": pa.MapArray.from_arrays(np.arange(0, 2 * size + 1, 2, dtype=np.int32), *sources),
        "operators": list_column_of(structs, OPERATORS, size),
        "edges": list_column_of(edges, len(EDGES), size),
    }
    return [
        nested[field.name] if field.name in nested else pa.array(made.get(field.name, [None] * size)).cast(field.type)
        for field in schema
    ]


def list_column_of(values: pa.Array, each: int, size: int) -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(0, each * size + 1, each, dtype=np.int32), values)


def write_runs(history: History, runs: int, *, skewed: bool = False, files: int | None = None) -> None:
    """In slices of 100,000, so that the sizes of batches and files do not depend on how many runs there are."""
    slices = files // DAYS if files else max(CORES, runs // 100_000)
    made = history.spark.range(0, runs, 1, slices).mapInArrow(synthetic_batches, nullable(STORED_RUN))
    if skewed:
        is_usual = sql.col("content_hash") % 10 > 0
        made = made.withColumn("job", sql.when(is_usual, "job-0").otherwise(sql.col("job")))
        made = made.withColumn("day", sql.when(is_usual, sql.lit("2026-11-16").cast("date")).otherwise(sql.col("day")))
    history.runs.replace(made, "bench")


def cpu_seconds() -> float:
    """Processor time so far of this process, the JVM and Spark's Python workers: other work does not count."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
            # Workers that have ended count with the process that started them.
            total += times.user + times.system + times.children_user + times.children_system
        except psutil.Error:
            continue
    return total


class PeakMemory(threading.Thread):
    """The largest sum of resident memory of this process, the JVM and Spark's Python workers."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._done = threading.Event()

    def run(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.2):
            total = 0
            for process in [me, *me.children(recursive=True)]:
                try:
                    memory = process.memory_full_info()
                    total += memory.pss  # shared pages of forked workers count once
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, total)

    def stop(self) -> float:
        self._done.set()
        self.join()
        return self.peak_bytes / 2**30


class Cost(NamedTuple):
    """What a step took."""

    seconds: float
    cpu_s: float
    peak_gib: float


def timed(step: Callable[[], object]) -> Cost:
    memory = PeakMemory()
    memory.start()
    start, cpu = time.perf_counter(), cpu_seconds()
    step()
    seconds, used = time.perf_counter() - start, cpu_seconds() - cpu
    return Cost(seconds, used, memory.stop())


def row_wise(rows: list[Row], edges: list[Row], rates: dict[str, float]) -> list[int]:
    """Algorithm 1 for one run in plain Python: what a row-wise UDF does."""
    rule = LabelSettings()
    index = {row.id: position for position, row in enumerate(rows)}
    pairs = [(index[edge.source], index[edge.target]) for edge in edges]
    totals = [row.busy_ms_per_s + row.idle_ms_per_s + row.backpressured_ms_per_s for row in rows]
    busy = [row.busy_ms_per_s / total > rule.busy_threshold for row, total in zip(rows, totals, strict=True)]
    held = [
        row.backpressured_ms_per_s / total > rule.backpressure_share for row, total in zip(rows, totals, strict=True)
    ]
    labels = [-1 if any(held) else 0] * len(rows)
    for position in range(len(rows)):
        after = [b for a, b in pairs if a == position]
        if held[position] and not any(held[b] for b in after):
            for b in after:
                labels[b] = int(busy[b])
    blamed = {
        position
        for position, row in enumerate(rows)
        if row.type == "source" and busy[position] and not held[position]
        if row.records_out_per_s < rates[row.id] * (1 - rule.source_tolerance)
    }
    behind = set(blamed)
    while more := {b for a, b in pairs if a in behind} - behind:
        behind |= more
    for position in behind if not any(held) else ():
        labels[position] = -1
    for position in blamed:
        labels[position] = 1
    return labels


def measure_udf(spark: SparkSession, folder: str, runs: int) -> tuple[Cost, bool]:
    """What the row-wise UDF costs on a table of its own, and whether it gives the same labels as the kernel."""
    history = History(spark, f"{folder}/udf")
    write_runs(history, runs)
    label(history)
    function = sql.udf(row_wise, ArrayType(ByteType()), useArrow=False)
    slow = history.runs.read().select("run_id", function("operators", "edges", "source_rates").alias("labels"))
    target = f"{history.location}/udf"
    slow.limit(100).write.mode("overwrite").parquet(target)  # start the workers outside the clock
    cost = timed(lambda: slow.write.mode("overwrite").parquet(target))
    written = spark.read.parquet(target)
    kernel = history.labels.read().select("run_id", "labels")
    return cost, written.join(kernel, ["run_id", "labels"]).count() == written.count() == runs


def measure(history: History, runs: int) -> dict[str, Any]:
    row: dict[str, Any] = {"runs": runs, "operator_rows": runs * OPERATORS}
    for name, cost in (("label", timed(lambda: label(history))), ("featurise", timed(lambda: featurise(history)))):
        row[f"{name}_s"] = round(cost.seconds, 2)
        row[f"{name}_cpu_s"] = round(cost.cpu_s, 2)
        row[f"{name}_rows_per_s"] = round(runs * OPERATORS / cost.seconds)
        row[f"{name}_rows_per_cpu_s"] = round(runs * OPERATORS / cost.cpu_s)
        row[f"{name}_peak_gib"] = round(cost.peak_gib, 2)
    row["load_average_1min"] = round(os.getloadavg()[0], 2)
    return row


def measured(spark: SparkSession, folder: str, runs: int, **layout: Any) -> dict[str, Any]:
    history = History(spark, f"{folder}/runs")
    write_runs(history, runs, **layout)
    try:
        return measure(history, runs)
    finally:
        shutil.rmtree(history.location)


def against_scan(spark: SparkSession, folder: str, runs: int) -> dict[str, Any]:
    """The same table read by the tasks and by Spark's scan, alternating, so that both see the same machine."""
    history = History(spark, f"{folder}/runs")
    write_runs(history, runs)
    by_tasks, by_scan = [], []
    for _ in range(2):
        by_tasks.append(measure(history, runs))
        by_scan.append(through_scan(lambda: measure(history, runs)))
    shutil.rmtree(history.location)
    result: dict[str, Any] = {"by_tasks": by_tasks, "by_scan": by_scan}
    for step in ("label", "featurise"):
        for unit in ("s", "cpu_s"):
            slow, fast = (sum(row[f"{step}_{unit}"] for row in rows) for rows in (by_scan, by_tasks))
            result[f"{step}_{unit}_ratio"] = round(slow / fast, 2)
    return result


def through_scan(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """As if the table were in a file system that Python cannot open."""
    with mock.patch.object(Files, "local_path", return_value=None):
        return work()


def udf_record(curve: list[dict[str, float]], slow: Cost, same: bool) -> dict[str, float]:
    """The UDF against the kernel on the largest table, by the clock and by processor time."""
    largest = max(curve, key=lambda row: row["runs"])
    rows = UDF_SAMPLE * OPERATORS
    return {
        "runs": UDF_SAMPLE,
        "rows_per_s": round(rows / slow.seconds),
        "rows_per_cpu_s": round(rows / slow.cpu_s),
        "same_labels_as_kernel": same,
        "kernel_is_faster_by": round(largest["label_rows_per_s"] / (rows / slow.seconds), 1),
        "kernel_is_cheaper_by": round(largest["label_rows_per_cpu_s"] / (rows / slow.cpu_s), 1),
    }


class Parts:
    """What has been measured so far; each part is kept as soon as it is done."""

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self.done: dict[str, Any] = json.loads(DONE.read_text(encoding="utf-8")) if keep and DONE.exists() else {}

    def __call__(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if name not in self.done:
            self.done[name] = work()
            if self._keep:
                WORK.mkdir(parents=True, exist_ok=True)
                DONE.write_text(json.dumps(self.done, indent=1), encoding="utf-8")
        print(name, json.dumps(self.done[name], indent=1), flush=True)
        return cast("dict[str, Any]", self.done[name])


def udf_part(spark: SparkSession, folder: str, curve: list[dict[str, Any]]) -> dict[str, Any]:
    slow, same = measure_udf(spark, folder, UDF_SAMPLE)
    return dict(udf_record(curve, slow, same))


def main() -> None:
    asked = [int(text) for text in os.environ.get("STREAMTUNE_BENCH_RUNS", "").split(",") if text]
    parts = Parts(keep=not asked)
    spark = build_session(SparkSettings(master=f"local[{CORES}]", app_name="bench-history"))
    folder = tempfile.mkdtemp(prefix="streamtune-bench-")
    try:
        measured(spark, folder, 20_000)  # starts the workers, warms the JVM
        curve = [parts(f"{runs} runs", partial(measured, spark, folder, runs)) for runs in asked or DEFAULT_RUNS]
        compared, small = (COMPARED_RUNS, RUNS_IN_SMALL_FILES) if not asked else (asked[0], asked[0])
        files = SMALL_FILES * small // RUNS_IN_SMALL_FILES
        result = {
            "cores": CORES,
            "curve": curve,
            "scan": parts("scan", partial(against_scan, spark, folder, compared)),
            "skewed": parts("skewed", partial(measured, spark, folder, compared, skewed=True)),
            "small_files": {
                "files": files,
                **parts("small files", partial(measured, spark, folder, small, files=files)),
            },
            "udf": parts("udf", partial(udf_part, spark, folder, curve)),
        }
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if not asked:
        RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
