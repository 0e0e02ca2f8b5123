"""Graph edit distance against networkx, similarity search, and how both grow. Run by ``make bench-similarity``.

Prints tables and writes ``benchmarks/results/similarity.json``. networkx knows no edge reversal (it counts a deletion
and an insertion), so its distance is at least ours and at most ours plus the reversals in our script; that is checked
wherever it finishes. It gets a time limit per pair, and where all pairs would take hours it gets a random sample: then
its total is extrapolated, and said to be.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from streamtune.dataflow import Dataflow
from streamtune.similarity import (
    ReverseEdge,
    edit_script,
    measure_pairs,
    pack,
    similar_pairs,
    similarity_centre,
    within,
)
from streamtune.workloads import random_dataflow

RESULTS = Path(__file__).parent / "results" / "similarity.json"
DAGS = 400
TAU = 5
EXACT_PAIRS = 300
NETWORKX_LIMIT_S = 1.0
NETWORKX_SAMPLE = 150
DIRECT_SAMPLE = 2000
REPEAT_S = 0.5
GROWTH = (100, 400, 1600, 6400)
TARGETS = {
    "all pairs within 5, s": 0.1,
    "exact, median ms": 0.1,
    "exact, 99th percentile ms": 50.0,
    "time saved for the centre, %": 99.65,
}

console = Console()
T = TypeVar("T")


@dataclass(frozen=True)
class Timed:
    """Wall seconds, and seconds of this process on a core: on a busy machine the second is the fairer one."""

    wall_s: float
    cpu_s: float


def timed(work: Callable[[], T]) -> tuple[T, Timed]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Timed(time.perf_counter() - wall, time.process_time() - cpu)


def best_of(repeats: int, work: Callable[[], T]) -> tuple[T, Timed]:
    """The fastest of several runs, what the work takes when nothing interferes; fewer of them if they take long."""
    runs = [timed(work)]
    while len(runs) < repeats and sum(spent.wall_s for _, spent in runs) < REPEAT_S:
        runs.append(timed(work))
    return min(runs, key=lambda run: run[1].wall_s)


def fresh(seeds: Sequence[int]) -> list[Dataflow]:
    """Realistic DAGs of 4 to 20 operators: sources, forks, joins and diamonds in layers, one sink."""
    return [random_dataflow(seed, 20, min_operators=4) for seed in seeds]


def as_networkx(flow: Dataflow) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from((node, {"type": kind}) for node, kind in enumerate(flow.types))
    graph.add_edges_from(flow.edge_indices)
    return graph


def networkx_distance(a: Dataflow, b: Dataflow, limit: int | None = None) -> tuple[float | None, float]:
    """(distance, wall seconds) by networkx; the distance is not proven when the time limit was used up."""
    start = time.perf_counter()
    found = nx.graph_edit_distance(
        as_networkx(a),
        as_networkx(b),
        node_match=lambda one, other: one["type"] == other["type"],
        upper_bound=limit,
        timeout=NETWORKX_LIMIT_S,
    )
    return found, time.perf_counter() - start


def peak_mb() -> float:
    """The most memory this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def verdict(name: str, value: float, *, at_least: bool = False) -> str:
    target = TARGETS[name]
    met = value >= target if at_least else value <= target
    return f"{name}: {value:.4g} (target {'≥' if at_least else '≤'} {target:g}: {'met' if met else 'MISSED'})"


def first_call(flows: list[Dataflow]) -> dict[str, float]:
    _, spent = timed(lambda: measure_pairs(pack(flows[:2]), [(0, 1)]))
    console.print(f"first call, numba's cache included: {spent.wall_s:.2f} s")
    return {"wall_s": spent.wall_s, "cpu_s": spent.cpu_s}


def all_pairs_within_tau(flows: list[Dataflow], rng: np.random.Generator) -> dict[str, Any]:
    pairs = np.column_stack(np.triu_indices(len(flows), 1))
    for flow in flows:  # what a dataflow computes once when it is made is not packing
        _ = flow.types, flow.edge_indices
    packing = best_of(9, lambda: pack(flows))[1]
    similar, ours = best_of(9, lambda: within(pack(flows), pairs, TAU))
    states = int(measure_pairs(pack(flows), pairs, limit=TAU, verify=True).states.sum())
    sample = rng.choice(len(pairs), NETWORKX_SAMPLE, replace=False)
    rival_s, disagreements, cut = 0.0, 0, 0
    for index in sample:
        found, seconds = networkx_distance(*(flows[member] for member in pairs[index]), limit=TAU)
        rival_s += seconds
        cut += seconds >= NETWORKX_LIMIT_S
        disagreements += found is not None and found <= TAU and not similar[index]
    extrapolated_s = rival_s / len(sample) * len(pairs)
    table = Table(title=f"all {len(pairs):,} pairs of {len(flows)} DAGs: is the distance at most {TAU}?")
    for heading in ("", "wall s", "CPU s", "states"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("StreamTune, packing included", f"{ours.wall_s:.4f}", f"{ours.cpu_s:.4f}", f"{states:,}")
    table.add_row("  of it packing", f"{packing.wall_s:.4f}", f"{packing.cpu_s:.4f}", "")
    table.add_row(f"networkx, extrapolated from {len(sample)} pairs", f"{extrapolated_s:,.0f}", "", "")
    console.print(table)
    console.print(
        f"{int(similar.sum()):,} pairs are similar; networkx was cut off at {NETWORKX_LIMIT_S:g} s in {cut} of "
        f"{len(sample)} pairs and contradicts in {disagreements}; {extrapolated_s / ours.wall_s:,.0f} times slower"
    )
    console.print(verdict("all pairs within 5, s", ours.wall_s))
    return {
        "pairs": len(pairs),
        "similar": int(similar.sum()),
        "wall_s": ours.wall_s,
        "cpu_s": ours.cpu_s,
        "packing_wall_s": packing.wall_s,
        "states": states,
        "networkx_extrapolated_wall_s": extrapolated_s,
        "networkx_sample": len(sample),
        "networkx_cut_off": int(cut),
        "networkx_contradicts": int(disagreements),
    }


def exact_pairs(flows: list[Dataflow], rng: np.random.Generator) -> dict[str, Any]:
    chosen = rng.choice(len(flows), (EXACT_PAIRS, 2))
    packed = pack(flows)
    ours_ms, cpu_ms, states = [], [], []
    for pair in chosen:
        found, spent = best_of(20, lambda pair=pair: measure_pairs(packed, [pair])[0])
        assert found.exact
        ours_ms.append(1000 * spent.wall_s)
        cpu_ms.append(1000 * spent.cpu_s)
        states.append(found.states)
    distances = measure_pairs(packed, chosen).lower
    proven, rival_s = against_networkx(flows, chosen, distances)
    table = Table(title=f"exact distance of {EXACT_PAIRS} random pairs, one call each")
    for heading in ("", "median", "90 %", "99 %", "most"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, values in (("wall ms", ours_ms), ("CPU ms", cpu_ms), ("states", states), ("distance", distances)):
        table.add_row(name, *(f"{number:,.4g}" for number in quantiles(values)))
    table.add_row(
        f"networkx, wall ms (cut off at {1000 * NETWORKX_LIMIT_S:g})", *(f"{1000 * s:,.4g}" for s in quantiles(rival_s))
    )
    console.print(table)
    console.print(
        f"networkx finished {proven} of {EXACT_PAIRS} pairs within its {NETWORKX_LIMIT_S:g} s and never contradicts"
    )
    console.print(verdict("exact, median ms", float(np.median(ours_ms))))
    console.print(verdict("exact, 99th percentile ms", float(np.quantile(ours_ms, 0.99))))
    names = ("median", "p90", "p99", "max")
    return {
        "wall_ms": dict(zip(names, quantiles(ours_ms), strict=True)),
        "cpu_ms": dict(zip(names, quantiles(cpu_ms), strict=True)),
        "states": dict(zip(names, quantiles(states), strict=True)),
        "distance": dict(zip(names, quantiles(distances), strict=True)),
        "networkx_proven": proven,
        "networkx_wall_s": dict(zip(names, quantiles(rival_s), strict=True)),
        "networkx_total_wall_s": float(np.sum(rival_s)),
        "total_wall_s": float(np.sum(ours_ms)) / 1000,
    }


def against_networkx(
    flows: list[Dataflow], chosen: NDArray[np.int64], distances: NDArray[np.int64]
) -> tuple[int, list[float]]:
    """How many pairs networkx finished within its time limit, and its time for each; both must agree."""
    proven, spent = 0, []
    for (first, second), distance in zip(chosen, distances, strict=True):
        found, seconds = networkx_distance(flows[first], flows[second])
        spent.append(seconds)
        assert found is not None
        assert found >= distance, "networkx found a shorter way"
        if seconds < NETWORKX_LIMIT_S:
            proven += 1
            reversals = sum(isinstance(step, ReverseEdge) for step in edit_script(flows[first], flows[second]))
            assert found <= distance + reversals, "networkx proves that ours is not shortest"
    return proven, spent


def quantiles(values: Sequence[float] | NDArray[np.int64]) -> list[float]:
    return [float(number) for number in np.quantile(np.asarray(values, np.float64), (0.5, 0.9, 0.99, 1.0))]


def centre(flows: list[Dataflow], exact: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The similarity centre against computing all distances directly, by our own search and by networkx."""
    found, ours = best_of(9, lambda: similarity_centre(flows, TAU))
    pairs = len(flows) * (len(flows) - 1) // 2
    sample = rng.choice(len(flows), (DIRECT_SAMPLE, 2))
    direct = timed(lambda: measure_pairs(pack(flows), sample))[1]
    direct_s = direct.wall_s / DIRECT_SAMPLE * pairs
    networkx_s = exact["networkx_total_wall_s"] / EXACT_PAIRS * pairs
    saved = {name: 100 * (1 - ours.wall_s / rival) for name, rival in (("direct", direct_s), ("networkx", networkx_s))}
    table = Table(title=f"similarity centre of {len(flows)} DAGs, τ = {TAU} (Definition 2)")
    for heading in ("", "wall s", "time saved"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("similarity search", f"{ours.wall_s:.4f}", "")
    table.add_row(
        f"our exact distance of every pair, from {DIRECT_SAMPLE:,}", f"{direct_s:,.1f}", f"{saved['direct']:.4f} %"
    )
    table.add_row(
        f"networkx at most {NETWORKX_LIMIT_S:g} s per pair, from {EXACT_PAIRS}",
        f"{networkx_s:,.0f}",
        f"{saved['networkx']:.5f} %",
    )
    console.print(table)
    console.print(verdict("time saved for the centre, %", saved["direct"], at_least=True))
    return {
        "appearances": found.appearances,
        "wall_s": ours.wall_s,
        "direct_extrapolated_wall_s": direct_s,
        "networkx_extrapolated_wall_s": networkx_s,
        "saved_percent": saved,
    }


def growth() -> list[dict[str, float]]:
    table = Table(title=f"all similar pairs, τ = {TAU}, with packing and grouping by shape")
    for heading in ("DAGs", "shapes", "pairs", "similar", "wall s", "ns per pair", "peak MB"):
        table.add_column(heading, justify="right")
    rows = []
    for count in GROWTH:
        flows = fresh(range(count))
        for flow in flows:
            _ = flow.types, flow.edge_indices
        found, spent = best_of(9, lambda flows=flows: similar_pairs(flows, TAU))
        shapes = len(found.shapes.first)
        pairs = shapes * (shapes - 1) // 2
        rows.append(
            {
                "dags": count,
                "shapes": shapes,
                "pairs": pairs,
                "similar": len(found.pairs),
                "wall_s": spent.wall_s,
                "peak_mb": peak_mb(),
            }
        )
        table.add_row(
            f"{count:,}",
            f"{shapes:,}",
            f"{pairs:,}",
            f"{len(found.pairs):,}",
            f"{spent.wall_s:.4f}",
            f"{1e9 * spent.wall_s / pairs:,.0f}",
            f"{peak_mb():,.0f}",
        )
    console.print(table)
    return rows


def main() -> None:
    rng = np.random.default_rng(0)
    flows = fresh(range(DAGS))
    console.print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    results: dict[str, Any] = {"load_before": os.getloadavg()[0], "cores": os.cpu_count()}
    results["first_call"] = first_call(flows)
    results["within_tau"] = all_pairs_within_tau(flows, rng)
    results["exact"] = exact_pairs(flows, rng)
    results["centre"] = centre(flows, results["exact"], rng)
    results["growth"] = growth()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"written to {RESULTS.relative_to(Path.cwd()) if RESULTS.is_relative_to(Path.cwd()) else RESULTS}")


if __name__ == "__main__":
    main()
