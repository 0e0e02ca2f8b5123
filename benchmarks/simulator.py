"""How fast the simulator is, and how backpressure sets in. Run by ``make bench-simulator``.

Prints tables, writes ``benchmarks/results/simulator.json`` and ``docs/images/onset.png``.
"""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines.simulator import SimulatorSettings, simulate_once
from streamtune.engines.simulator.model import Simulation

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
TARGET_SIMULATED_S_PER_S = 1000
console = Console()


def chain(operators: int, rate: float, service_us: float = 500.0) -> tuple[Job, dict[str, OperatorPhysics]]:
    """source → … → sink, ``operators`` long."""
    nodes = [Operator(id="op0", type="source", rate=rate)]
    nodes += [Operator(id=f"op{index}", type="map") for index in range(1, operators)]
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(nodes))
    physics = {node.id: OperatorPhysics(service_us=service_us, contention=0.002, skew=0.05, cv=0.3) for node in nodes}
    return Job("bench", Dataflow(tuple(nodes), edges)), physics


def simulated_s_per_s(operators: int, parallelism: int, rate: float) -> float:
    """Simulated seconds per wall second, the best of five runs of an hour each."""
    job, physics = chain(operators, rate)
    plan = Plan(dict.fromkeys(job.dataflow.index, parallelism))
    simulation = Simulation(job, physics, plan, SimulatorSettings(), seed=0)
    simulation.advance(60)
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        simulation.advance(3600)
        best = max(best, 3600 / (time.perf_counter() - start))
    return best


def speed() -> dict[str, object]:
    main = simulated_s_per_s(9, 60, 50_000)
    by_operators = {n: simulated_s_per_s(n, 60, 50_000) for n in (3, 9, 20, 60)}
    by_parallelism = {p: simulated_s_per_s(9, p, 50_000) for p in (1, 10, 60, 100)}
    by_rate = {rate: simulated_s_per_s(9, 60, rate) for rate in (1e2, 1e4, 1e6, 1e8)}
    for title, heading, values in (
        ("operators, parallelism 60", "operators", by_operators),
        ("parallelism, 9 operators", "parallelism", by_parallelism),
        ("source rate, 9 operators at 60", "records/s", by_rate),
    ):
        table = Table(title=f"simulated seconds per second by {title}")
        table.add_column(heading, justify="right")
        table.add_column("simulated s/s", justify="right")
        for key, value in values.items():
            table.add_row(f"{key:,.0f}", f"{value:,.0f}")
        console.print(table)
    verdict = "met" if main >= TARGET_SIMULATED_S_PER_S else "MISSED"
    console.print(f"9 operators at 60: {main:,.0f} simulated s/s (target {TARGET_SIMULATED_S_PER_S:,}: {verdict})")
    return {"main": main, "by_operators": by_operators, "by_parallelism": by_parallelism, "by_rate": by_rate}


def onset() -> dict[float, dict[str, float]]:
    """Backpressured share against load: a light source and a half-loaded operator in front of the short one."""
    physics = {
        "source": OperatorPhysics(service_us=20),
        "before": OperatorPhysics(service_us=500, cv=0.3),
        "short": OperatorPhysics(service_us=1000, cv=0.3),
    }
    nodes = tuple(
        Operator(id=key, type="source" if key == "source" else "map", rate=1.0 if key == "source" else None)
        for key in physics
    )
    job = Job("onset", Dataflow(nodes, tuple(Edge(a.id, b.id) for a, b in pairwise(nodes))))
    plan = Plan({"source": 1, "before": 20, "short": 20})
    curve: dict[float, dict[str, float]] = {}
    for load in (0.80, 0.90, 0.95, 0.98, 1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.07, 1.10, 1.15, 1.20, 1.30):
        runs = [simulate_once(job, physics, plan, {"source": 20_000 * load}, seed=seed) for seed in range(20)]
        shares = {key: float(np.mean([run.operators[key].backpressured_share for run in runs])) for key in physics}
        flagged = float(np.mean([run.has_backpressure for run in runs]))
        curve[load] = {"source": shares["source"], "before": shares["before"], "flagged": flagged}
    table = Table(title="onset of backpressure, 20 seeds, 120 s settling and a 60 s window")
    for heading in ("load", "source backpressured", "operator before", "runs flagged (> 10 %)"):
        table.add_column(heading, justify="right")
    for load, row in curve.items():
        table.add_row(f"{load:.2f}", f"{row['source']:.1%}", f"{row['before']:.1%}", f"{row['flagged']:.0%}")
    console.print(table)
    return curve


def draw(curve: dict[float, dict[str, float]]) -> None:
    figure, axes = plt.subplots(figsize=(7, 3.6))
    loads = list(curve)
    for key, label, style in (
        ("source", "source", "o-"),
        ("before", "operator before the short one", "s-"),
        ("flagged", "runs flagged as backpressured", "^--"),
    ):
        axes.plot(loads, [100 * curve[load][key] for load in loads], style, label=label, markersize=4)
    axes.axhline(10, color="grey", linewidth=0.8, linestyle=":")
    axes.set_xlabel("load of the short operator (demand / capacity)")
    axes.set_ylabel("share, %")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "images" / "onset.png", dpi=130)


def main() -> None:
    result = {"speed": speed(), "onset": onset()}
    draw(result["onset"])  # type: ignore[arg-type]
    target = ROOT / "benchmarks" / "results" / "simulator.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n")
    console.print(f"written: {target.relative_to(ROOT)}, docs/images/onset.png")


if __name__ == "__main__":
    main()
