"""Fig. 8 of Fischer's thesis, study 2, on a real Spark: search, run the best again, compare; resumable.

    python benchmarks/autoconfig_spark.py --work build/autoconfig-spark --report build/autoconfig-spark.html
    timeout 540 python benchmarks/autoconfig_spark.py --work build/autoconfig-spark    # a slice; the next goes on

One warm session on two cores, a new checkpoint for every run, the defaults run again beside the trials. Every knob is
at Spark's own default in the baseline, with one file per micro-batch; ``defaults, no batch limit`` reads all that waits
as one batch, as Spark does where nobody says otherwise. Writes ``benchmarks/results/autoconfig-spark.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from streamtune.autoconfig.spaces import engine_problem
from streamtune.autoconfig.spark.harness import SparkTarget, spark_objective
from streamtune.experiments.autoconfig.figure8 import Figure8Study, figure_8_finding, run_figure_8
from streamtune.experiments.paper.report import write_findings

RESULTS = Path(__file__).parent / "results" / "autoconfig-spark.json"
APPLICATION = Path(__file__).parent / "autoconfig_app.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/autoconfig-spark"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--without-repeats", type=int, default=10, help="runs of the best with one knob at its default")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    problem = engine_problem("spark")
    study = Figure8Study(steps=given.steps, repeats=given.repeats, without_repeats=given.without_repeats)
    target = SparkTarget(master="local[2]", baseline_every=6, conf={"spark.driver.memory": "2g"})
    with spark_objective(problem, APPLICATION, given.work, target) as objective:
        found = run_figure_8(
            problem, objective, given.work, study, final=objective.rows_per_s,
            tell=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
    finding = figure_8_finding(found, study)
    kept = ("runs", "best", "importance", "between", "which knob")
    record = {**finding.to_record(), **{key: found[key] for key in kept}}
    given.results.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if given.report is not None:
        write_findings(
            given.report,
            [finding],
            title="Machines Tuning Machines: Fig. 8 on Spark",
            command="python benchmarks/autoconfig_spark.py",
            where="Spark Structured Streaming, local[2]",
        )
    print(json.dumps(record["checks"], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
