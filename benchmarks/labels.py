"""How right Algorithm 1 is: its labels against the simulator's truth, with random plans and near the optimum.

An operator is truly a bottleneck when its capacity at its parallelism is below the rate that the sources demand of it.
Prints, for several share thresholds, how many operators get a label and how many of the ones and zeros are wrong.
Writes ``benchmarks/results/labels.json``. Starts no Spark.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from streamtune.labs.histories import Experiment, draw, observe
from streamtune.labs.settings import GenerateSettings
from streamtune.readings import BOTTLENECK, FINE, UNLABELLED, LabelSettings, label_observation
from streamtune.readings.demand import input_rates

SHARES = (0.10, 0.05, 0.02)
RESULTS = Path(__file__).parent / "results" / "labels.json"


def truth(experiment: Experiment) -> dict[str, bool]:
    """Operator id → whether its capacity is below the demanded rate."""
    physics = experiment.workload.physics
    selectivities = {key: one.selectivity for key, one in physics.items()}
    demand = input_rates(experiment.workload.spec.job.dataflow, selectivities, experiment.rates)
    return {key: physics[key].capacity_per_s(p) < demand[key] for key, p in experiment.plan.items()}


def measure(runs: int) -> list[dict[str, float | str]]:
    settings = GenerateSettings(runs=runs)
    counts: Counter[tuple[str, float, int, bool]] = Counter()
    for number in range(runs):
        experiment = draw(number, settings)
        seen, short = observe(experiment, settings), truth(experiment)
        plans = "near the optimum" if experiment.is_near else "random"
        for share in SHARES:
            labels = label_observation(
                experiment.workload.spec.job.dataflow, seen, LabelSettings(backpressure_share=share)
            )
            counts.update((plans, share, value, short[key]) for key, value in labels.items())
    return [_row(counts, plans, share) for plans in ("random", "near the optimum") for share in SHARES]


def _row(counts: Counter[tuple[str, float, int, bool]], plans: str, share: float) -> dict[str, float | str]:
    def count(label: int, short: bool) -> int:
        return counts[plans, share, label, short]

    total = sum(count(label, short) for label in (UNLABELLED, FINE, BOTTLENECK) for short in (False, True))
    ones = count(BOTTLENECK, True) + count(BOTTLENECK, False)
    zeros = count(FINE, True) + count(FINE, False)
    bottlenecks = sum(count(label, True) for label in (UNLABELLED, FINE, BOTTLENECK))
    return {
        "plans": plans,
        "share": share,
        "operators": total,
        "ones": round(ones / total, 4),
        "zeros": round(zeros / total, 4),
        "unlabelled": round(1 - (ones + zeros) / total, 4),
        "wrong_ones": round(count(BOTTLENECK, False) / max(1, ones), 4),
        "wrong_zeros": round(count(FINE, True) / max(1, zeros), 4),
        "bottlenecks_found": round(count(BOTTLENECK, True) / max(1, bottlenecks), 4),
    }


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    rows = measure(runs)
    names = list(rows[0])
    print("  ".join(f"{name:>17}" for name in names))
    for row in rows:
        print("  ".join(f"{row[name]:>17}" for name in names))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"runs": runs, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
