"""Figures 4 to 7 of Fischer's thesis, study 2, in parts: some strategies, sizes or seeds; resumable.

    python benchmarks/autoconfig.py --work build/autoconfig --passes 1 --minutes 8    # a slice; the next goes on
    python benchmarks/autoconfig.py --quick --work build/autoconfig-quick             # a minute: does it run?

``streamtune bench autoconfig`` is the same study in one go, with a report.

Prints the tables with the thesis' words and numbers beside them, and writes ``benchmarks/results/autoconfig.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from streamtune.experiments.autoconfig.study import AutoconfigStudy, Deadline, keys, run_study
from streamtune.experiments.autoconfig.tables import markdown, report

RESULTS = Path(__file__).parent / "results" / "autoconfig.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/autoconfig"), help="folder of the finished runs")
    parser.add_argument("--sizes", default="small,medium,large")
    parser.add_argument("--contestants", help="comma-separated; default: all but bo180")
    parser.add_argument("--seeds", default="2,3,4,5,6")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="stop after this; the next run goes on")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="small topologies, 12 steps, one seed, one pass")
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    settings = AutoconfigStudy(
        sizes=("small",) if given.quick else tuple(given.sizes.split(",")),
        seeds=(0,) if given.quick else tuple(int(seed) for seed in given.seeds.split(",")),
        steps=12 if given.quick else given.steps,
        passes=1 if given.quick else given.passes,
        **({"contestants": tuple(given.contestants.split(","))} if given.contestants else {}),
    )
    deadline = None if given.minutes is None else Deadline(given.minutes)
    runs = run_study(settings, given.work, lambda text: print(text, file=sys.stderr, flush=True), deadline)
    print(markdown(runs))
    if not given.quick and len(runs) == len(list(keys(settings))):
        given.results.write_text(json.dumps(report(runs), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
