"""Placement: how fast the partitioner is, and how good against METIS and KaHIP at equal balance.

    python benchmarks/placement.py speed     # 360 tasks … 10⁶, growth, and METIS in the same run
    python benchmarks/placement.py quality   # bytes between hosts at the balance that each rival reached

Results go to benchmarks/results/placement-*.json. The thesis' study is ``streamtune bench placement``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamtune.experiments.placement.flows import task_flows
from streamtune.placement import CommunicationGraph, Even, Hosts, Metis, Ours, Placement, Problem, prepare
from streamtune.workloads.placement_topologies import topology

RESULTS = Path(__file__).parent / "results"
SIZES = ((360, 80), (3_600, 80), (10_000, 100), (100_000, 200), (300_000, 500), (1_000_000, 1_000))
TARGETS_S = {360: 0.1, 100_000: 2.0, 1_000_000: 20.0}
REPETITIONS = 3


def random_graph(tasks: int, seed: int = 0) -> CommunicationGraph:
    """Three edges per task to near neighbours, numbered at random: about what chains of operators look like."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, tasks, 3 * tasks)
    b = (a + 1 + rng.geometric(0.02, 3 * tasks)) % tasks
    order = rng.permutation(tasks)
    names = [f"t{number}" for number in range(tasks)]
    return CommunicationGraph.from_arrays(
        names, rng.uniform(0.5, 2, tasks), order[a], order[b], rng.lognormal(5, 1, 3 * tasks)
    )


def speed() -> None:
    """Seconds of placing alone, of METIS in the same run, and the exponent of growth."""
    prepare()
    rows = []
    for tasks, hosts in SIZES:
        times: dict[str, list[float]] = {"ours": [], "metis": []}
        cuts: dict[str, float] = {}
        for repetition in range(REPETITIONS):
            problem = Problem(random_graph(tasks, repetition), Hosts.equal(hosts))
            # Ours first: it pays for the adjacency, as a command does; METIS finds it there.
            ours, metis = Ours().place(problem), Metis().place(problem)
            times["ours"].append(ours.seconds)
            times["metis"].append(metis.seconds)
            cuts = {"ours": ours.remote_share, "metis": metis.remote_share, "even": Even().place(problem).remote_share}
            cuts |= {"ours_imbalance": ours.imbalance, "metis_imbalance": metis.imbalance}
        row = {"tasks": tasks, "hosts": hosts, "seconds": float(np.median(times["ours"]))}
        row |= {"worst_seconds": max(times["ours"]), "metis_seconds": float(np.median(times["metis"]))}
        rows.append({**row, "target_seconds": TARGETS_S.get(tasks), **cuts})
        print(json.dumps(rows[-1]), flush=True)
    large = [row for row in rows if row["tasks"] >= 10_000]
    slope = np.polyfit(np.log([row["tasks"] for row in large]), np.log([row["seconds"] for row in large]), 1)[0]
    print(f"growth: seconds ~ tasks^{slope:.2f}")
    _write("speed", {"rows": rows, "growth_exponent": float(slope)})


def quality() -> None:
    """Bytes between hosts of METIS, KaHIP (where it is installed) and ours, each at the balance the rival reached."""
    prepare()
    rows = []
    for name, graph, hosts in _quality_cases():
        problem = Problem(graph, Hosts.equal(hosts))
        row: dict[str, object] = {"graph": name, "tasks": len(graph), "hosts": hosts}
        ours = Ours().place(problem)
        row |= {"even": Even().place(problem).remote_share, "ours": ours.remote_share, "imbalance": ours.imbalance}
        for rival, place in (("metis", Metis().place), ("kahip", _kahip)):
            found = place(problem)
            if found is None:
                continue
            equal = Ours().place(Problem(graph, Hosts.equal(hosts), max(1.0, found.imbalance)))
            row |= {
                rival: found.remote_share,
                f"{rival}_imbalance": found.imbalance,
                f"ours_as_{rival}": equal.remote_share,
            }
            row |= {f"{rival}_seconds": found.seconds, f"ours_as_{rival}_seconds": equal.seconds}
        rows.append(row)
        print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}))
    _write("quality", rows)


def _quality_cases() -> Iterator[tuple[str, CommunicationGraph, int]]:
    for name in ("opengov", "reference"):
        for hosts in (10, 40, 80):
            yield name, task_flows(topology(name, hosts)).graph(), hosts
    for tasks, hosts in ((100, 8), (360, 80), (2_000, 20), (20_000, 50), (100_000, 200)):
        yield "random", random_graph(tasks, 5), hosts


def _kahip(problem: Problem) -> Placement | None:
    """KaHIP's strong k-way partitioner, to compare with; not a dependency of StreamTune."""
    try:
        import kahip
    except ImportError:
        return None
    if len(problem.graph) > 20_000:
        return None
    start, graph = time.perf_counter(), problem.graph
    weights = np.rint(graph.adjacency.weights / graph.adjacency.weights.max() * 1e5).astype(int)
    loads = np.rint(graph.loads / graph.loads.mean() * 1e3).astype(int)
    arguments = (loads.tolist(), graph.adjacency.indptr.tolist(), np.maximum(1, weights).tolist())
    _, part = kahip.kaffpa(
        *arguments, graph.adjacency.indices.tolist(), len(problem.hosts), problem.imbalance - 1, True, 0, 1
    )
    return problem.place(np.array(part, dtype=np.int64), "kahip", time.perf_counter() - start)


def _write(name: str, value: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"placement-{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "quality"))
    {"speed": speed, "quality": quality}[parser.parse_args().what]()


if __name__ == "__main__":
    main()
