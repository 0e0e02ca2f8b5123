"""From simulation to a real Flink, offline: encoders and first plans on held-out jobs of the real runs.

    python benchmarks/flink_transfer.py [--runs 3000] [--part encoders|plans]

Writes ``benchmarks/results/flink-transfer.json``; parts that are there already are kept unless they are asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from streamtune.experiments.flink_encoders import Described, encoder_rows
from streamtune.experiments.flink_transfer import (
    FOLDS,
    FirstPlan,
    first_plans,
    fold_of,
    model_of,
    real_runs,
    simulated_runs,
)

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "flink-transfer.json"
MULTIPLES = (2.0, 5.0, 10.0)
CERTAINTIES = (0.5, 0.8, 0.9, 0.95)


def encoders(simulated: list[Any], real: list[Any]) -> dict[str, Any]:
    described = [[Described.of(run) for run in some] for some in (simulated, real)]
    rows = encoder_rows(*described, tell=lambda text: print(text, flush=True))
    for label, one in rows.items():
        print(f"| {label} | {cell(one, 'auc_pr')} | {cell(one, 'threshold_error')} |")
    return rows


def cell(row: dict[str, Any], key: str) -> str:
    if row[key] is None:
        return "not known"
    low, high = row[f"{key}_between"]
    return f"{row[key]:.3f} ({low:.3f} to {high:.3f})"


def summary(some: Sequence[FirstPlan]) -> dict[str, float]:
    errors = [abs(error) for one in some for error in one.log_errors]
    return {
        "plans": len(some),
        "clean": mean(one.clean for one in some),
        "total_over_needed": sum(one.total for one in some) / sum(one.needed for one in some),
        "threshold_error": median(errors),
    }


def plans(simulated: list[Any], real: list[Any]) -> dict[str, Any]:
    """First plans by certainty asked for; each history is fitted once, however many certainties there are."""
    found: dict[str, dict[str, list[FirstPlan]]] = {}
    by_simulation = model_of(simulated)
    for fold in range(FOLDS):
        kept = [run for run in real if fold_of(run.job) != fold]
        jobs = sorted({run.job for run in real if fold_of(run.job) == fold})
        models = {
            "real runs only": model_of(kept),
            "simulated only": by_simulation,
            "simulated and real": model_of([*simulated, *kept]),
        }
        for label, model in models.items():
            for certainty in CERTAINTIES:
                some = found.setdefault(label, {}).setdefault(str(certainty), [])
                some.extend(first_plans(model, jobs, MULTIPLES, certainty))
    rows = {label: {key: summary(some) for key, some in cells.items()} for label, cells in found.items()}
    for label, cells in rows.items():
        for key, one in cells.items():
            print(f"{label:20} certainty {key}: {one}", flush=True)
    return rows


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--runs", type=int, default=3000, help="simulated runs")
    arguments.add_argument("--part", choices=("encoders", "plans"), help="one of the two alone")
    chosen = arguments.parse_args()
    real = real_runs(ROOT / "data" / "flink" / "runs.jsonl.gz")
    simulated = simulated_runs(chosen.runs, {run.job for run in real})
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    of = {"real_runs": len(real), "simulated_runs": chosen.runs}  # of this part: another one may have had others
    if chosen.part != "encoders":
        kept["first_plans"] = of | {"rows": plans(simulated, real)}
    if chosen.part != "plans":
        kept["encoders"] = of | {"rows": encoders(simulated, real)}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
