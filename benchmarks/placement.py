"""Placement: how fast the partitioner is, the thesis' study on the fluid model, and real hosts.

    python benchmarks/placement.py speed            # 360 tasks … 10⁶, growth, and ours against METIS in one run
    python benchmarks/placement.py study [--quick]  # Fig. 6 to 12, Tables 1 and 2 on the model
    python benchmarks/placement.py real [--quick]   # a real Timely and Flink on 4 and 10 namespaces (root; hours)

Results go to benchmarks/results/placement-*.json (and .html).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Literal

import numpy as np

from streamtune.experiments.placement.bench import run_study
from streamtune.experiments.placement.findings import write_report
from streamtune.placement import CommunicationGraph, Even, Hosts, Metis, Ours, Problem, prepare

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
            problem.graph.adjacency  # noqa: B018  built once, for both
            ours, metis = Ours().place(problem), Metis().place(problem)
            times["ours"].append(ours.seconds)
            times["metis"].append(metis.seconds)
            cuts = {"ours": ours.remote_share, "metis": metis.remote_share, "even": Even().place(problem).remote_share}
            cuts |= {"ours_imbalance": ours.imbalance, "metis_imbalance": metis.imbalance}
        row = {"tasks": tasks, "hosts": hosts, "seconds": min(times["ours"]), "metis_seconds": min(times["metis"])}
        rows.append({**row, "target_seconds": TARGETS_S.get(tasks), **cuts})
        print(json.dumps(rows[-1]), flush=True)
    large = [row for row in rows if row["tasks"] >= 10_000]
    slope = np.polyfit(np.log([row["tasks"] for row in large]), np.log([row["seconds"] for row in large]), 1)[0]
    print(f"growth: seconds ~ tasks^{slope:.2f}")
    _write("speed", {"rows": rows, "growth_exponent": float(slope)})


def study(quick: bool) -> None:
    start = time.monotonic()
    tables = run_study(
        quick=quick,
        report=RESULTS / "placement-study.html",
        results=RESULTS / f"placement-study{'-quick' if quick else ''}.json",
        tell=print,
    )
    for table in tables:
        print(table.to_markdown())
    print(f"{time.monotonic() - start:.0f} s")


def real(quick: bool, engines: tuple[Literal["timely", "flink"], ...]) -> None:
    from streamtune.experiments.placement.real_hosts import RealPlacementStudy, real_tables

    tiny = RealPlacementStudy(
        check_on=(4,), topologies=("payload",), repetitions=1, seconds=3.0, bandwidths=(30.0,), burst=500
    )
    tables = real_tables(tiny if quick else RealPlacementStudy(), engines, print)
    for table in tables:
        print(table.to_markdown())
    name = f"real-{'-'.join(engines)}{'-quick' if quick else ''}"
    _write(name, [table.to_record() for table in tables])
    write_report(RESULTS / f"placement-{name}.html", tables, "python benchmarks/placement.py real")


def _write(name: str, value: object) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"placement-{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "study", "real"))
    parser.add_argument("--engine", choices=("timely", "flink", "both"), default="both", help="real: which engine")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: seconds, and figures that mean little")
    chosen = parser.parse_args()
    if chosen.what == "speed":
        speed()
    elif chosen.what == "study":
        study(chosen.quick)
    else:
        real(chosen.quick, ("timely", "flink") if chosen.engine == "both" else (chosen.engine,))


if __name__ == "__main__":
    main()
