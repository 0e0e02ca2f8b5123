"""Fig. 8 of Fischer's thesis, study 2, on a real Spark: search, run the best again, compare; resumable.

    python benchmarks/autoconfig_spark.py --work build/autoconfig-spark --report build/autoconfig-spark.html
    timeout 540 python benchmarks/autoconfig_spark.py --work build/autoconfig-spark    # a slice; the next goes on
    python benchmarks/autoconfig_spark.py --app count                                  # a plain count of words instead

``--app sundog`` (``autoconfig_sundog.py``) is our own Sundog; its defaults are what ``streamtune sundog stream`` sets,
in the session that it starts. ``--app count`` (``autoconfig_count.py``) is a windowed count of Spark's own, with all
knobs at Spark's defaults and one file per micro-batch.

One warm session on two cores, a new checkpoint for every run, the defaults run again beside the trials. Writes
``benchmarks/results/autoconfig-spark-APP.json``, and ``--page`` the tables between the markers of docs/results.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoconfig_results import PAGE, markdown, write_json, write_page, write_report

from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.autoconfig.spaces import engine_problem
from streamtune.autoconfig.spark.harness import SparkTarget, spark_objective
from streamtune.experiments.autoconfig.figure8 import Figure8Study, figure_8_finding, run_figure_8
from streamtune.spark.settings import SparkSettings

HERE = Path(__file__).parent
MASTER = "local[2]"
_OF_THE_SESSION = ("spark.master", "spark.app.name")

SUNDOG: dict[str, Any] = {
    "engine": "spark",
    "objective": {"direction": "maximize", "timeout": 120},
    "knobs": {
        "buckets": {
            "type": "int", "low": 1, "high": 32, "log": True, "default": 8,
            "description": "Parts of the keys: tasks that merge, files of a part of the state.",
        },
        "slice_mb": {
            "type": "int", "low": 1, "high": 96, "log": True, "default": 96,
            "description": "Bytes of log lines in one task.",
        },
        "files_per_batch": {
            "type": "int", "low": 8, "high": 512, "log": True, "default": 100,
            "description": "Log files in one micro-batch: the batch size.",
        },
        "parallel_rankings": {
            "type": "int", "low": 1, "high": 16, "log": True, "default": 1,
            "description": "Rankings of one micro-batch that are made side by side.",
        },
        "compact_after": {
            "type": "int", "low": 2, "high": 256, "log": True, "default": 64,
            "description": "Parts of the state after which they are merged into one.",
        },
        "adaptive": {
            "type": "category", "choices": [True, False], "default": True, "key": "spark.sql.adaptive.enabled",
            "description": "Plan the stages behind a shuffle anew once its sizes are known.",
        },
        "codegen": {
            "type": "category", "choices": [True, False], "default": True, "key": "spark.sql.codegen.wholeStage",
            "description": "Compile whole stages.",
        },
    },
}  # fmt: skip


@dataclass(frozen=True)
class Target:
    """An application, its space, the session it runs in, and what an expert would set, written before any search."""

    application: Path
    problem: Problem
    conf: dict[str, str]
    study: dict[str, Any]
    unit: str
    rows_of: float = 1.0


def _sundog() -> Target:
    session = SparkSettings(master=MASTER).effective
    lines = int(os.environ.get("SUNDOG_LINES_PER_FILE", "1000"))
    return Target(
        HERE / "autoconfig_sundog.py",
        parse_problem(SUNDOG, "the space of Sundog"),
        {key: value for key, value in session.items() if key not in _OF_THE_SESSION},
        {
            "sets": {
                "h": ("buckets", "slice_mb"),
                "h bs bp": ("buckets", "slice_mb", "files_per_batch", "parallel_rankings"),
                "bs bp cc": ("files_per_batch", "parallel_rankings", "compact_after", "adaptive", "codegen"),
            },
            # Everything that waits as one batch, as many buckets and rankings at once as there are cores.
            "hand_tuned": {"files_per_batch": 512, "buckets": 2, "parallel_rankings": 2},
            "beside": {"defaults, no batch limit": {"files_per_batch": 512}},
        },
        "log lines/s, from files to rankings",
        lines,
    )


def _count() -> Target:
    conf = {"spark.driver.memory": "2g"}
    return Target(HERE / "autoconfig_count.py", engine_problem("spark"), conf, {}, "log lines/s")


TARGETS = {"sundog": _sundog, "count": _count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--app", choices=list(TARGETS), default="sundog")
    parser.add_argument("--work", type=Path, help="sessions and runs so far; default: build/autoconfig-spark-APP")
    parser.add_argument("--steps", type=int, default=60, help="of each of the three searches")
    parser.add_argument("--repeats", type=int, default=30, help="runs of each final configuration")
    parser.add_argument("--without-repeats", type=int, default=10, help="runs of the best with one knob back")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--results", type=Path, help="default: benchmarks/results/autoconfig-spark-APP.json")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help=f"write into this page; default: {PAGE.name}")
    given = parser.parse_args()
    chosen = TARGETS[given.app]()
    work = given.work or Path(f"build/autoconfig-spark-{given.app}")
    os.environ.setdefault("SUNDOG_WORK", str((work / "input").absolute()))
    os.environ.setdefault("LOGS_FOLDER", str((work / "input").absolute()))
    work.mkdir(parents=True, exist_ok=True)
    study = Figure8Study(
        steps=given.steps, repeats=given.repeats, without_repeats=given.without_repeats, **chosen.study
    )
    target = SparkTarget(master=MASTER, warm_up=6, baseline_every=6, conf=chosen.conf)
    with spark_objective(chosen.problem, chosen.application, work, target) as objective:
        found = run_figure_8(
            chosen.problem, objective, work, study, final=lambda knobs: chosen.rows_of * objective.rows_per_s(knobs),
            tell=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
    finding = figure_8_finding(found, study)
    write_json(given.results or HERE / "results" / f"autoconfig-spark-{given.app}.json", finding, found)
    where = f"{given.app}, Spark Structured Streaming, {MASTER}"
    if given.report is not None:
        write_report(given.report, finding, f"python benchmarks/autoconfig_spark.py --app {given.app}", where)
    text = markdown(finding, found, study, chosen.unit, thesis=True)
    if given.page is not None:
        write_page(given.page, f"fig8-{given.app}", text)
    print(text)


if __name__ == "__main__":
    main()
