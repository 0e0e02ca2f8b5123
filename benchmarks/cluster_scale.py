"""``make bench-cluster-scale``: clustering far more shapes than a table of all pairs has room for.

Two parts, each kept in ``benchmarks/results/cluster-scale.json`` as soon as it is done; what is there is not run again
(``--again`` does). *Quality*: shapes that can be clustered by all pairs are clustered that way, with another seed for a
yardstick, and from a sample, all at the k that the elbow of all pairs chose. *Scale*: a history of 10,000 and of
100,000 distinct shapes through ``cluster``, with the pairs that were looked at and the peak memory.

``--quality 500:125,1000:250`` and ``--shapes 10000,100000`` choose other sizes; 0 leaves a part out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from history import PeakMemory, cpu_seconds
from streamtune.dataflow import Dataflow
from streamtune.history import pair_work
from streamtune.history.cluster import cluster
from streamtune.history.ingest import ingest
from streamtune.history.many_shapes import cluster_many_shapes
from streamtune.history.pair_work import SparkPairBounds
from streamtune.history.shapes import dataflow_of
from streamtune.history.store import History
from streamtune.similarity import pack
from streamtune.similarity.distance_table import DistanceTable
from streamtune.similarity.kmeans import Clusters, WeightedShapes, kmeans, kmeans_with_elbow
from streamtune.similarity.settings import KMeansSettings
from streamtune.similarity.similar_weights import pairs_met
from streamtune.spark.session import build_session
from streamtune.spark.settings import SparkSettings
from streamtune.workloads import random_dataflow

CORES = 2
RESULTS = Path(__file__).parent / "results" / "cluster-scale.json"
BASES = 50
MOST_EDITS = 4
TYPES = ("map", "filter", "flat_map", "aggregate", "window_aggregate")


def random_shapes(seed: int) -> Iterator[Dataflow]:
    """Random jobs of 3 to 20 operators without end: no families, the hardest case."""
    while True:
        yield random_dataflow(seed)
        seed += 1


def family_shapes(seed: int) -> Iterator[Dataflow]:
    """Random edits of fifty random jobs, as a company's templates grow."""
    bases = [random_dataflow(seed + number, min_operators=6) for number in range(BASES)]
    random = np.random.default_rng(seed)
    while True:
        yield _edited(bases[int(random.integers(BASES))], random)


def _edited(base: Dataflow, random: np.random.Generator) -> Dataflow:
    types, edges = list(base.types), set(base.edge_indices)
    inner = [node for node, kind in enumerate(types) if kind not in ("source", "sink")]
    for _ in range(int(random.integers(MOST_EDITS + 1))):
        kind = random.random()
        if kind < 0.4:
            types[int(random.choice(inner))] = str(random.choice(TYPES))
        elif kind < 0.7:  # an operator more, in the middle of an edge
            a, b = sorted(edges)[int(random.integers(len(edges)))]
            types.append(str(random.choice(TYPES)))
            edges = (edges - {(a, b)}) | {(a, len(types) - 1), (len(types) - 1, b)}
            inner.append(len(types) - 1)
        else:  # a filter or the like that leads into the sink
            types.append(str(random.choice(TYPES)))
            edges |= {(int(random.choice(inner)), len(types) - 1), (len(types) - 1, types.index("sink"))}
    return Dataflow.from_edges(types, sorted(edges))


KINDS = {"random": random_shapes, "families": family_shapes}


def distinct(kind: str, count: int, seed: int = 0) -> dict[str, int]:
    """Canonical form → runs: few shapes have many of them."""
    found: dict[str, int] = {}
    random = np.random.default_rng(seed)
    for flow in KINDS[kind](seed):
        if flow.canonical_form not in found:
            found[flow.canonical_form] = 1 + min(50, int(random.pareto(2.0)))
        if len(found) == count:
            break
    return found


def same_share(one: Clusters, other: Clusters, shapes: WeightedShapes) -> float:
    """The share of shapes in the cluster that corresponds, each cluster of ``other`` going to its best match."""
    table = np.zeros((one.k, other.k), np.int64)
    np.add.at(table, (one.assignment, other.assignment), 1)
    return float(table.max(axis=0).sum() / len(shapes))


def quality(spark: Any, kind: str, count: int, sample: int) -> dict[str, Any]:
    shapes = WeightedShapes.of(distinct(kind, count))
    runs = int(shapes.weights.sum())
    bounds = SparkPairBounds(spark, pack(map(dataflow_of, shapes.forms)))
    settings = KMeansSettings(sample_shapes=sample, exact_shapes=1)
    start = time.perf_counter(), cpu_seconds()
    table = DistanceTable(len(shapes), bounds)
    table.survey()
    exact = kmeans_with_elbow(shapes, table, settings)
    middle = time.perf_counter(), cpu_seconds()
    k = exact.clusters.k
    chosen, _ = cluster_many_shapes(shapes, bounds, spark, None, settings, lambda _: None)
    end = time.perf_counter(), cpu_seconds()
    same_k, _ = cluster_many_shapes(shapes, bounds, spark, k, settings, lambda _: None)
    unmoved, _ = cluster_many_shapes(shapes, bounds, spark, k, settings.replace(refinements=0), lambda _: None)
    other = kmeans(shapes, table, k, settings.replace(seed=1))
    bounds.close()
    found = same_k.clusters
    return {
        "shapes": count,
        "sample": sample,
        "k_all_pairs": k,
        "k_sample": chosen.clusters.k,
        "all_pairs_s": round(middle[0] - start[0], 1),
        "all_pairs_cpu_s": round(middle[1] - start[1], 1),
        "sample_s": round(end[0] - middle[0], 1),
        "sample_cpu_s": round(end[1] - middle[1], 1),
        "mean_squared_all_pairs": round(exact.clusters.inertia / runs, 2),
        "mean_squared_other_seed": round(other.inertia / runs, 2),
        "mean_squared_sample": round(found.inertia / runs, 2),
        "mean_squared_sample_unmoved": round(unmoved.clusters.inertia / runs, 2),
        "rand_index_other_seed": round(adjusted_rand_score(exact.clusters.assignment, other.assignment), 3),
        "rand_index_sample": round(adjusted_rand_score(exact.clusters.assignment, found.assignment), 3),
        "same_cluster_other_seed": round(same_share(exact.clusters, other, shapes), 3),
        "same_cluster_sample": round(same_share(exact.clusters, found, shapes), 3),
    }


def record(number: int, flow: Dataflow) -> str:
    ids = [f"o{position}" for position in range(len(flow.types))]
    return json.dumps(
        {
            "schema_version": 1,
            "run_id": f"run-{number:07d}",
            "job": f"job-{number % 997}",
            "engine": "flink",
            "observed_at": "2026-11-16T10:00:00Z",
            "window_s": 60.0,
            "source_rates": {ids[node]: 10.0 for node, kind in enumerate(flow.types) if kind == "source"},
            "operators": [
                {"id": name, "type": kind, "parallelism": 1} for name, kind in zip(ids, flow.types, strict=True)
            ],
            "edges": [{"source": ids[a], "target": ids[b], "partitioning": "hash"} for a, b in flow.edge_indices],
        }
    )


def history_of(spark: Any, folder: Path, kind: str, count: int) -> History:
    """A history with so many shapes; made once."""
    place = folder / f"{kind}-{count}"
    history = History(spark, str(place / "history"))
    if not history.runs.exists:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        number = 0
        counts = list(distinct(kind, count).items())
        for part in range(0, count, 10_000):
            with (place / f"runs-{part}.jsonl").open("w", encoding="utf-8") as file:
                for form, runs in counts[part : part + 10_000]:
                    for _ in range(runs):
                        file.write(record(number, dataflow_of(form)) + "\n")
                        number += 1
        report = ingest(history, [str(path) for path in sorted(place.glob("*.jsonl"))])
        print(f"{kind} {count:,}: {report.valid:,} runs, {report.rejected} rejected", flush=True)
    return history


class Counted(SparkPairBounds):
    """Counts the pairs whose distance, or a bound of it, was asked for, and those met in the counts of similar ones.

    A shape meets only those of nearly its own size there; members × members is what would be met without that.
    """

    bounded = 0
    met = 0
    without_sizes = 0

    def __call__(self, pairs: Any, limits: Any, states: int) -> Any:
        Counted.bounded += len(pairs)
        return super().__call__(pairs, limits, states)

    def similar_weights(self, rows: Any, columns: Any, weights: Any, tau: int) -> Any:
        Counted.met += pairs_met(self._packed, rows, columns, tau)
        Counted.without_sizes += len(rows) * len(columns)
        return super().similar_weights(rows, columns, weights, tau)


def scale(spark: Any, folder: Path, kind: str, count: int, sample: int) -> dict[str, Any]:
    history = history_of(spark, folder, kind, count)
    import streamtune.history.cluster as step

    # For the time of the measurement alone: to count pairs is no business of the command, so it has no option for it.
    step.SparkPairBounds = Counted  # type: ignore[attr-defined]
    Counted.bounded = Counted.met = Counted.without_sizes = 0
    settings = KMeansSettings(exact_shapes=min(4_000, count - 1), sample_shapes=sample)
    begun = time.perf_counter()

    def tell(message: str) -> None:
        print(f"  {time.perf_counter() - begun:7.1f} s  {message}", flush=True)

    memory = PeakMemory()
    memory.start()
    start = time.perf_counter(), cpu_seconds()
    try:
        summary = cluster(history, folder / "clusters", settings=settings, progress=tell)
    finally:
        step.SparkPairBounds = pair_work.SparkPairBounds  # type: ignore[attr-defined]
        peak = memory.stop()
    everything = count * (count - 1) // 2
    return {
        "shapes": summary.shapes,
        "runs": summary.runs,
        "sample": summary.sampled,
        "k": summary.k,
        "moved": summary.iterations,
        "stable": summary.stable,
        "mean_squared_distance": round(summary.mean_squared_distance, 2),
        "seconds": round(time.perf_counter() - start[0], 1),
        "cpu_s": round(cpu_seconds() - start[1], 1),
        "peak_gib": round(peak, 2),
        "pairs": everything,
        "bounded_pairs": Counted.bounded,
        "pairs_met_in_counts": Counted.met,
        "members_times_members": Counted.without_sizes,
        "looked_at_share": round((Counted.bounded + Counted.met) / everything, 4),
        "looked_at_per_shape": round((Counted.bounded + Counted.met) / count),
        "exact_pairs": summary.distances.exact,
        "unproven_to_centre": summary.distances.unproven_to_centre,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quality", default="500:125,1000:250")
    parser.add_argument("--shapes", default="10000,100000")
    parser.add_argument("--sample", type=int, default=KMeansSettings().sample_shapes, help="of the part 'scale'")
    parser.add_argument("--kinds", default="random,families")
    parser.add_argument("--work", type=Path, default=Path("build/bench-cluster-scale"))
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    parts: list[tuple[str, Any]] = []
    spark = build_session(SparkSettings(master=f"local[{CORES}]", app_name="bench-cluster-scale"))
    for kind in asked.kinds.split(","):
        for text in asked.quality.split(",") if asked.quality != "0" else ():
            count, sample = (int(number) for number in text.split(":"))
            parts.append((f"quality {kind} {count}", partial(quality, spark, kind, count, sample)))
        for count in map(int, asked.shapes.split(",") if asked.shapes != "0" else ()):
            work = partial(scale, spark, asked.work.absolute(), kind, count, asked.sample)
            parts.append((f"scale {kind} {count}", work))
    for name, work in parts:
        if name in results and not asked.again:
            print(f"{name}: done before")
            continue
        results[name] = {**work(), "cores": CORES, "load_average_1min": round(os.getloadavg()[0], 2)}
        print(name, json.dumps(results[name], indent=1), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
