"""How sure StreamTune should be of the whole rate on an engine without backpressure, tried on random jobs.

    python benchmarks/timely_certainty.py --model timely-model

Fig. 8 is about Nexmark Q3, Q5 and Q8, so its settings are chosen on other jobs: random ones, from 5·W_u to 10·W_u, once
with even odds (the default on such engines) and once with the certainty that is the default elsewhere. Prints the
total parallelism against the least that serves the whole rate, and the per-epoch latency. A minute per job and value.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console
from rich.table import Table

from streamtune.dataflow import Job
from streamtune.experiments.fig8 import Cell, Fig8Settings, least_total, run_cell
from streamtune.tuners import StreamTune, StreamTuneSettings, Tuner, load_model

RESULTS = Path(__file__).parent / "results" / "timely_certainty.json"
CERTAINTIES = (0.5, 0.9)


def run(name: str, certainty: float, model: Path | None, settings: Fig8Settings) -> Cell:
    def make(_name: str, job: Job) -> Tuner:
        chosen = StreamTuneSettings(quantile_without_backpressure=certainty)
        return StreamTune(job, chosen, model=None if model is None else load_model(model, job), engine="timely")

    return run_cell(name, "streamtune", settings.seeds[0], settings, make)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--model", type=Path, default=None, help="a model of Timely runs")
    arguments.add_argument("--jobs", nargs="+", default=[f"random-{number}" for number in (101, 102, 103, 104)])
    arguments.add_argument("--out", type=Path, default=RESULTS)
    chosen = arguments.parse_args()
    settings = Fig8Settings(queries=tuple(chosen.jobs))
    peak = settings.multiples[-1]
    rows: list[dict[str, Any]] = []
    for name in chosen.jobs:
        for certainty in CERTAINTIES:
            cell = run(name, certainty, chosen.model, settings)
            row = {
                "job": name,
                "certainty": certainty,
                "total": cell.total_parallelism,
                "least": least_total(name, peak),
                "p95_ms": cell.latencies.percentile_ms(95),
                "bottleneck_left": cell.bottleneck_left,
                "growth_ms_per_s": cell.latency_growth_ms_per_s,
                "reconfigurations": sum(cell.reconfigurations),
            }
            rows.append(row)
            print(row, flush=True)
    chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    table = Table("certainty", "total / least", "p95 ms (mean)", "bottleneck left", title="StreamTune on random jobs")
    for certainty in CERTAINTIES:
        found = [row for row in rows if row["certainty"] == certainty]
        table.add_row(
            f"{certainty:.0%}",
            f"{sum(row['total'] for row in found) / sum(row['least'] for row in found):.3f}",
            f"{mean(row['p95_ms'] for row in found):,.0f}",
            f"{sum(row['bottleneck_left'] for row in found)} of {len(found)}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
