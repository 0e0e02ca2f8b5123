"""``make bench-cluster``: how long it takes to cluster a generated history on two cores, and where the time goes.

Prints a table and writes ``benchmarks/results/cluster.json``. The history is generated first; that is not counted.
STREAMTUNE_BENCH_RUNS sets the number of runs.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from streamtune.history.cluster import ClusteringSummary, cluster, cluster_shapes
from streamtune.history.pair_work import SparkPairBounds
from streamtune.history.shapes import dataflow_of, shape_counts
from streamtune.history.store import History
from streamtune.labs.histories import generate
from streamtune.labs.settings import GenerateSettings
from streamtune.reports.cluster_pictures import draw_pictures
from streamtune.similarity import edit_distance, pack
from streamtune.similarity.distance_table import DistanceTable
from streamtune.similarity.kmeans import WeightedShapes
from streamtune.similarity.settings import KMeansSettings
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings

CORES = 2
DEFAULT_RUNS = 20_000
TARGET_S = 120.0
RESULTS = Path(__file__).parent / "results" / "cluster.json"


def cpu_seconds() -> float:
    """Processor time so far of this process, the JVM and Spark's Python workers: other work does not count."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total


def in_steps(history: History, settings: KMeansSettings, blocks: int) -> tuple[dict[str, Any], ClusteringSummary]:
    """Seconds for the shapes, and for K-means over all k with its distances; without files and pictures."""
    start = time.perf_counter()
    shapes = WeightedShapes.of(shape_counts(history))
    counted = time.perf_counter()
    bounds = SparkPairBounds(history.spark, pack(map(dataflow_of, shapes.forms)), blocks)
    found = cluster_shapes(shapes, DistanceTable(len(shapes), bounds), history.location, settings=settings)
    done = time.perf_counter()
    bounds.close()
    step = {
        "init": settings.init,
        "blocks": blocks,
        "shapes_s": round(counted - start, 2),
        "kmeans_s": round(done - counted, 2),
        "k": found.summary.k,
        "elbow": [round(value, 2) for value in found.summary.elbow],
        "exact_pairs": found.summary.distances.exact,
        "pairs": found.summary.distances.pairs,
        "unproven_pairs": found.summary.distances.unproven,
    }
    return step, found.summary


def main() -> None:
    runs = int(os.environ.get("STREAMTUNE_BENCH_RUNS", DEFAULT_RUNS))
    folder = Path(tempfile.mkdtemp(prefix="streamtune-bench-"))
    # The machine code of the kernels is kept between processes: compiling it is not part of clustering.
    edit_distance(dataflow_of("sink|"), dataflow_of("source|"))
    start = time.perf_counter()
    spark = build_session(SparkSettings(master=f"local[{CORES}]", app_name="bench-cluster"))
    session_s = time.perf_counter() - start
    try:
        history = History(spark, str(folder / "history"))
        start = time.perf_counter()
        generate(history, GenerateSettings(runs=runs))
        print(f"{runs:,} runs generated in {time.perf_counter() - start:.1f} s (not counted)", flush=True)
        start, cpu = time.perf_counter(), cpu_seconds()
        summary = cluster(history, folder / "clusters", draw=draw_pictures)
        cluster_s, cluster_cpu_s = time.perf_counter() - start, cpu_seconds() - cpu
        load = os.getloadavg()[0]
        print(f"clustered in {cluster_s:.1f} s: k = {summary.k}, {summary.shapes} shapes", flush=True)
        again, same = in_steps(history, KMeansSettings(), blocks=5)
        paper, _ = in_steps(history, KMeansSettings(init="random"), blocks=12)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    result = {
        "cores": CORES,
        "load_average_1min": round(load, 2),
        "runs": runs,
        "shapes": summary.shapes,
        "k": summary.k,
        "session_s": round(session_s, 1),
        "cluster_s": round(cluster_s, 1),
        "cluster_cpu_s": round(cluster_cpu_s, 1),
        "target_s": TARGET_S,
        "met": session_s + cluster_s < TARGET_S,
        "same_result_with_other_blocks": same == summary,
        "steps": [again, paper],
    }
    for key, value in result.items():
        print(f"{key}: {value}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
