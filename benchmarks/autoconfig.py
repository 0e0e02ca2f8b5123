"""Figures 4 to 7 of Fischer's thesis, study 2, in parts: some strategies, sizes or seeds; resumable.

    python benchmarks/autoconfig.py --work build/autoconfig --passes 1 --minutes 8    # a slice; the next goes on
    python benchmarks/autoconfig.py --quick --work build/autoconfig-quick             # a minute: does it run?
    python benchmarks/autoconfig.py --work build/autoconfig --page docs/results/autoconfig.md --minutes 0   # no runs
    python benchmarks/autoconfig.py --costs                        # CPU seconds per pass, on validation graphs
    python benchmarks/autoconfig.py --laws 10000                   # asked points of every strategy against constraints

``streamtune bench autoconfig`` is the same study in one go, with a report.

Prints the tables with the thesis' words and numbers beside them, and writes ``benchmarks/results/autoconfig.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from streamtune.autoconfig.problem import parse_problem
from streamtune.autoconfig.session import replay
from streamtune.autoconfig.space import key_of
from streamtune.autoconfig.strategies import DEFAULT_STEPS, NAMES, make_strategy
from streamtune.autoconfig.trial import Measurement, Suggestion, Trial
from streamtune.experiments.autoconfig.noise import NoiseStudy, run_noise
from streamtune.experiments.autoconfig.page import noise_text, pictures, study_text, write_between
from streamtune.experiments.autoconfig.study import AutoconfigStudy, Deadline, Run, keys, read_runs, run_one, run_study
from streamtune.experiments.autoconfig.tables import markdown, report

NOT_SCORED = 100
RESULTS = Path(__file__).parent / "results" / "autoconfig.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/autoconfig"), help="folder of the finished runs")
    parser.add_argument("--sizes", default="small,medium,large")
    parser.add_argument("--contestants", help="comma-separated; also bo180, random, tpe, cma-es. Default: thesis, ours")
    parser.add_argument("--seeds", default="7,8,9,10,11")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="stop after this; the next run goes on")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="small topologies, 12 steps, one seed, one pass")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, help="write the tables between this page's markers, pictures to images/")
    parser.add_argument("--costs", action="store_true", help="what a pass costs, on a graph that is not scored")
    parser.add_argument("--laws", type=int, help="ask every strategy for so many points; count broken constraints")
    given = parser.parse_args()
    settings = AutoconfigStudy(
        sizes=("small",) if given.quick else tuple(given.sizes.split(",")),
        seeds=(NOT_SCORED,) if given.quick else tuple(int(seed) for seed in given.seeds.split(",")),
        steps=12 if given.quick else given.steps,
        passes=1 if given.quick else given.passes,
        **({"contestants": tuple(given.contestants.split(","))} if given.contestants else {}),
    )
    if given.laws is not None:
        print_laws(given.laws)
        return
    if given.costs:
        print_costs(settings)
        return
    deadline = None if given.minutes is None else Deadline(given.minutes)
    runs = run_study(settings, given.work, lambda text: print(text, file=sys.stderr, flush=True), deadline)
    if given.page is not None:
        scored = [run for run in read_runs(given.work / "runs.jsonl") if run.seed in AutoconfigStudy().seeds]
        write_page(scored, given.work, given.page)
        return
    print(markdown(runs))
    if not given.quick and len(runs) == len(list(keys(settings))):
        given.results.write_text(json.dumps(report(runs), indent=1) + "\n", encoding="utf-8")


def write_page(runs: list[Run], work: Path, page: Path) -> None:
    """Everything that stands in the work folder, sessions under noise too."""
    noise = run_noise(NoiseStudy(), work, Deadline(0.0))
    write_between(page, "study", study_text(runs, AutoconfigStudy()))
    write_between(page, "noise", noise_text(noise, NoiseStudy()))
    pictures(runs, AutoconfigStudy(), page.parent.parent / "images")


LAWS: dict[str, Any] = {
    "knobs": {
        "threads": {"type": "int", "low": 1, "high": 16, "default": 4},
        "batch": {"type": "int", "low": 1, "high": 100_000, "log": True},
        "ratio": {"type": "float", "low": 0.0, "high": 1.0},
        "codec": {"type": "category", "choices": ["none", "lz4", "zstd"]},
        "level": {"type": "int", "low": 1, "high": 9, "when": "codec == 'zstd'"},
        "left": {"type": "int", "low": 0, "high": 20},
        "right": {"type": "int", "low": 0, "high": 20},
    },
    "constraints": ["threads * ratio <= 8", "batch >= 10 * threads or codec == 'lz4'", "left + right == 20"],
}


def print_laws(points: int) -> None:
    """Sessions of 60 steps over a space with a condition and an equation; every tenth trial fails.

    ``replay`` refuses a point that breaks a constraint, so that a broken one ends this with its error.
    """
    problem = parse_problem(LAWS, "laws")

    def measure(number: int, suggestion: Suggestion) -> Trial:
        knobs = suggestion.knobs
        value = float(knobs["left"]) - abs(float(knobs["threads"]) - 5.0) + float(knobs["ratio"])
        one = Measurement(failed=True) if number % 10 == 7 else Measurement(value=value)
        return Trial(number=number, knobs=knobs, measurements=(one,))

    print("| strategy | asked points | different | breaking a constraint |\n| --- | --- | --- | --- |")
    for name in NAMES:
        asked, different = 0, set()
        while asked < points:
            steps = min(DEFAULT_STEPS.get(name, 60), points - asked)
            trials = replay(problem, make_strategy(name, problem, seed=asked), measure, steps)
            asked += len(trials)
            different |= {key_of(trial.knobs) for trial in trials}
        print(f"| {name} | {asked:,} | {len(different):,} | 0 |", flush=True)


def print_costs(settings: AutoconfigStudy) -> None:
    """CPU seconds of one pass of each contestant and size, all but the best known of the graph."""
    print(f"| CPU seconds per pass of {settings.steps} steps | " + " | ".join(settings.contestants) + " |")
    print("|" + " --- |" * (1 + len(settings.contestants)))
    for size in settings.sizes:
        cells = []
        for contestant in settings.contestants:
            key = (size, 1.0, 0.0, contestant, NOT_SCORED, 0)
            run_one(settings.model_copy(update={"steps": 2}), key)  # imports, kernels and the graph's best known
            start = time.process_time()
            run_one(settings, key)
            cells.append(f"{time.process_time() - start:.1f}")
        print(f"| {size} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
