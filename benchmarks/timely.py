"""What the Timely engine itself can do on this machine (about two minutes): scaling, the rule, limits, costs.

    python benchmarks/timely.py

Prints tables, writes ``benchmarks/results/timely.json``.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from streamtune.dataflow import Observation, Plan
from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.timely import EpochLatencies, TimelyEngine

ROOT = Path(__file__).parents[1]
WINDOW = MeasurementWindow(settle_s=1.0, length_s=4.0)
LONG = MeasurementWindow(settle_s=2.0, length_s=8.0)
console = Console(width=120)


def chain(rate: float, *services_us: float) -> JobSpec:
    """Source → one map per service time → sink."""
    names = ["source", *[f"work{number}" for number in range(len(services_us))], "sink"]
    operators: list[dict[str, object]] = [{"id": "source", "type": "source", "rate": rate}]
    operators += [{"id": name, "type": "map", "inputs": [before]} for before, name in itertools.pairwise(names[:-1])]
    operators.append({"id": "sink", "type": "sink", "inputs": [names[-2]]})
    physics = {name: {"service_us": us} for name, us in zip(names, [1, *services_us, 1], strict=True)}
    return parse_spec({"name": "chain", "operators": operators, "physics": physics, "max_parallelism": 40})


def run(
    spec: JobSpec, degrees: tuple[int, ...], window: MeasurementWindow = WINDOW
) -> tuple[Observation, EpochLatencies, float, float]:
    """An observation, its epochs, seconds until the job was up, and the processor time used per second."""
    plan = Plan(dict(zip(spec.job.dataflow.index, (1, *degrees, 1), strict=True)))
    with TimelyEngine.of(spec) as engine:
        start = time.monotonic()
        deployment = engine.deploy(spec.job, plan)
        up_s = time.monotonic() - start
        process = psutil.Process(engine.pid(deployment))
        used, since = sum(process.cpu_times()[:2]), time.monotonic()
        seen = engine.observe(deployment, window)
        cores = (sum(process.cpu_times()[:2]) - used) / (time.monotonic() - since)
        assert isinstance(seen, Observation)
        return seen, engine.epoch_latencies(deployment), up_s, cores


def scaling() -> list[dict[str, float]]:
    rows = []
    for degree in (1, 2, 4, 8):
        seen, _, up_s, cores = run(chain(3000, 2000), (degree,))
        metrics = seen.operators["work0"]
        rows.append(
            {
                "parallelism": degree,
                "expected_per_s": min(3000, 500 * degree),
                "consumed_per_s": round(metrics.records_in_per_s, 1),
                "busy_share": round(metrics.busy_share, 3),
                "up_s": round(up_s, 2),
                "cores": round(cores, 2),
            }
        )
    return rows


def rule() -> list[dict[str, object]]:
    """PLATFORM.md's experiment: 5,500 records/s through 0.5 and 1 ms; 2.75 and 5.5 instances are needed."""
    rows = []
    for degrees in ((1, 1), (2, 3), (3, 5), (3, 6)):
        seen, epochs, _, _ = run(chain(5500, 500, 1000), degrees, LONG)
        first, second = seen.operators["work0"], seen.operators["work1"]
        rows.append(
            {
                "plan": degrees,
                "ratios": (
                    round(first.records_in_per_s / seen.operators["source"].records_out_per_s, 3),
                    round(second.records_in_per_s / first.records_out_per_s, 3),
                ),
                "bottlenecks": seen.bottlenecks,
                "backlog_growth_per_s": tuple(round(m.backlog_growth_per_s or 0.0) for m in (first, second)),
                "latency_p50_ms": round(epochs.percentile_ms(50)),
                "latency_growth_ms_per_s": round(epochs.growth_ms_per_s or 0.0, 1),
            }
        )
    return rows


def ceiling() -> list[dict[str, float]]:
    """Without service time, how many records/s one worker of each kind moves."""
    rows = []
    for rate in (20_000, 40_000, 80_000):
        seen, epochs, _, cores = run(chain(rate, 0.1), (2,))
        rows.append(
            {
                "offered_per_s": rate,
                "at_the_sink_per_s": round(seen.operators["sink"].records_in_per_s),
                "latency_p95_ms": round(epochs.percentile_ms(95)),
                "cores": round(cores, 2),
            }
        )
    return rows


def idle_workers() -> list[dict[str, float]]:
    return [{"workers": degree + 2, "cores": round(run(chain(10, 100), (degree,))[3], 3)} for degree in (1, 14, 30)]


def show(title: str, rows: list[dict[str, object]] | list[dict[str, float]]) -> None:
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)


def main() -> None:
    load = os.getloadavg()[0]
    results = {"scaling": scaling(), "rule": rule(), "ceiling": ceiling(), "idle_workers": idle_workers()}
    show("2 ms per record, 3,000 records/s offered", results["scaling"])
    show("5,500 records/s through 0.5 and 1 ms per record", results["rule"])
    show("no service time", results["ceiling"])
    show("ten records/s: what idle workers cost", results["idle_workers"])
    target = ROOT / "benchmarks" / "results" / "timely.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"load_average_1min": round(load, 2), **results}, indent=1) + "\n")
    console.print(f"load average before: {load:.2f}; written: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
