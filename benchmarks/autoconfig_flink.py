"""Auto-configuration of a real Flink job: search, run the best again, compare; resumable.

    python benchmarks/autoconfig_flink.py --work build/autoconfig-flink --page     # twenty minutes on a quiet machine
    timeout 540 python benchmarks/autoconfig_flink.py                              # a slice; the next goes on

The job (``autoconfig_jobs/Searches.java``) makes searches without a limit, splits them into words and counts these in
SQL: what is measured is how many searches per second get through, on a local Flink with two cores' worth of work and
Flink's own buffer sizes. The space is the built-in one of ``streamtune autoconfig run --engine flink``, with as many
instances at most as there are slots. Settings of the cluster (network buffers and memory, ``taskmanager.*``) cannot be
set per job.

The defaults, a hand-tuned configuration (written before any search) and the best are run in turns, then the best with
one knob back at its default. Writes ``benchmarks/results/autoconfig-flink.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import httpx
from autoconfig_results import PAGE, markdown, write_json, write_page, write_report

from streamtune.autoconfig.flink import FlinkObjective, FlinkTarget
from streamtune.autoconfig.problem import Problem, parse_problem
from streamtune.autoconfig.space import Configuration
from streamtune.autoconfig.spaces import FLINK
from streamtune.errors import EngineError
from streamtune.experiments.autoconfig.figure8 import Figure8Study, figure_8_finding, run_figure_8
from streamtune.labs.flink import FlinkDistribution, LocalCluster
from streamtune.labs.flink.cluster import free_port
from streamtune.labs.flink.jar import compile_jar
from streamtune.labs.flink.settings import ClusterSettings

HERE = Path(__file__).parent
SLOTS = 8
# What Flink sets where nobody says otherwise; our labs' clusters are made for jobs that sleep.
FLINKS_OWN: dict[str, str | int | bool] = {
    "taskmanager.memory.segment-size": "32kb",
    "taskmanager.network.memory.floating-buffers-per-gate": 8,
    "taskmanager.network.memory.buffer-debloat.enabled": False,
    "metrics.latency.interval": 0,
    "metrics.fetcher.update-interval": 250,  # this one is ours: rates are differences of counters
}
# As many instances as cores, records gathered before they are aggregated, nothing copied that nobody keeps.
HAND_TUNED = {"parallelism": 2, "mini_batch": True, "object_reuse": True}


class CompilingCluster(LocalCluster):
    """Java's second compiler is worth its time where records are computed on; each job brings its classes anew."""

    def placed(self, role: str, command: list[str]) -> list[str]:
        del role
        kept = [part for part in command if not part.startswith(("-XX:TieredStopAtLevel", "-XX:MaxMetaspaceSize"))]
        return [kept[0], "-XX:MaxMetaspaceSize=1g", *kept[1:]]


def space() -> Problem:
    """The built-in space, within the slots of this cluster."""
    data = deepcopy(FLINK)
    data["objective"]["timeout"] = 120
    data["knobs"]["parallelism"]["high"] = SLOTS
    return parse_problem(data, "the space of Flink")


def awake(url: str) -> Callable[[float], None]:
    """A pause in which the JobManager is asked for metrics: it fetches new ones only when it is asked."""
    client = httpx.Client(base_url=url, timeout=10.0)

    def pause(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(0.25, left))
            with contextlib.suppress(httpx.HTTPError):
                client.get("/jobs/metrics")

    return pause


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("build/autoconfig-flink"), help="session and runs so far")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5, help="runs of defaults, hand-tuned and best")
    parser.add_argument("--without-repeats", type=int, default=2, help="runs of the best with one knob back")
    parser.add_argument("--warm-up-s", type=float, default=10.0)
    parser.add_argument("--window-s", type=float, default=10.0)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "autoconfig-flink.json")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help=f"write into this page; default: {PAGE.name}")
    given = parser.parse_args()
    problem = space()
    study = Figure8Study(
        sets={"all": tuple(problem.space.knobs)},
        after={},
        hand_tuned=HAND_TUNED,
        beside={},
        steps=given.steps,
        repeats=given.repeats,
        without_repeats=given.without_repeats,
    )
    distribution = FlinkDistribution.find()
    settings = ClusterSettings(
        port=free_port(), slots=SLOTS, task_heap_mb=1024, network_mb=256, managed_mb_per_slot=8, options=FLINKS_OWN
    )
    given.work.mkdir(parents=True, exist_ok=True)
    jar = compile_jar([HERE / "autoconfig_jobs" / "Searches.java"], distribution, given.work / "searches.jar")
    with CompilingCluster.temporary(settings, distribution) as cluster:
        target = FlinkTarget(
            url=cluster.url,
            jar=str(jar),
            entry_class="autoconfig.Searches",
            warm_up_s=given.warm_up_s,
            window_s=given.window_s,
        )
        objective = FlinkObjective(problem, target, store=given.work, sleep=awake(cluster.url))
        objective.measure(0, 0, problem.space.active(problem.space.defaults))  # the first run in a JVM is slower

        def final(knobs: Configuration) -> float:
            seen = objective.measure(0, 0, knobs)
            if seen.value is None:
                raise EngineError(f"a final run failed: {seen.reason}. Run this again: it goes on here")
            return seen.value

        with contextlib.closing(objective):
            found = run_figure_8(
                problem, objective, given.work, study, final=final,
                tell=lambda text: print(text, file=sys.stderr, flush=True),
            )  # fmt: skip
    finding = figure_8_finding(found, study)
    finding = replace(
        finding,
        name="autoconfig-flink",
        title="A real Flink job",
        paper="",
        checks=tuple(check for check in finding.checks if "hand-tuned" in check.target),
    )
    write_json(given.results, finding, found)
    where = f"Flink {distribution.version}, one TaskManager with {SLOTS} slots"
    if given.report is not None:
        write_report(given.report, finding, "python benchmarks/autoconfig_flink.py", where)
    text = markdown(finding, found, study, f"searches/s, {where}")
    if given.page is not None:
        write_page(given.page, "flink", text)
    print(text)


if __name__ == "__main__":
    main()
