"""``streamtune demo``: the whole product from nothing to a report, in one command."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.output import err, out
from streamtune.outputs import check_outputs
from streamtune.settings import LARGEST_SEED

JOBS = ("nexmark-q5", "pqp-3way-0")
RUNS, RANDOM_JOBS = 2_000, 60


def demo(
    out_file: Annotated[Path, typer.Option("--out", help="Where to write the report.")] = Path("demo-report.html"),
    runs: Annotated[int, typer.Option(help="Runs in the generated history.", min=200)] = RUNS,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0, max=LARGEST_SEED)] = 0,
) -> None:
    """Learn from a history of other jobs, then tune two jobs against DS2, and write a report with the oracle.

    A history is generated on the simulator, labelled, clustered and learnt from on Spark; then Nexmark Q5 and a PQP
    three-way join, at rates the history does not have, are tuned over a cycle of ten rates.

    \b
    Example:
      streamtune demo --out report.html
    """
    check_outputs((("--out", out_file),))
    check_outputs((("--out", out_file.with_suffix(".audit.jsonl")),))
    from streamtune.cli.compare import print_stories
    from streamtune.cli.live import LiveTable
    from streamtune.control.audit import AuditTrail
    from streamtune.experiments.platform import Platform
    from streamtune.labs.simulator import tune_on_simulator
    from streamtune.models.assigned import AssignedModel
    from streamtune.reports.report import write_report
    from streamtune.tuners import DS2, StreamTune
    from streamtune.workloads import catalogue, rates

    started = time.perf_counter()

    def say(text: str) -> None:
        err.print(f"==> [{time.perf_counter() - started:4.0f} s] {text}", highlight=False)

    platform = Platform(seed=seed, runs=runs, random_jobs=RANDOM_JOBS)
    stories = []
    audit_file = out_file.with_suffix(".audit.jsonl")
    audit_file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="streamtune-demo-") as folder, AuditTrail(audit_file) as trail:
        bundle = platform.model(Path(folder), say)
        for name in JOBS:
            workload = catalogue.load(name)
            wanted = [workload.rates_at(multiple) for multiple in rates.cycle()]
            assigned = AssignedModel.of(bundle, workload.spec.job)
            for label, make in (
                ("StreamTune", lambda job, assigned=assigned: StreamTune(job, model=assigned)),
                ("DS2", DS2),
            ):
                say(f"{label} tunes {name} over ten source rates")
                with LiveTable(workload.spec.job, len(wanted), err) as live:
                    stories.append(
                        tune_on_simulator(
                            workload.spec,
                            make,
                            wanted,
                            seed=seed,
                            settings=platform.simulator,
                            audit=trail,
                            watch=live.show,
                        )
                    )
    write_report(out_file, stories, title="StreamTune and DS2 on two jobs", command="streamtune demo")
    print_stories("two jobs, ten source rates each", stories)
    say("done")
    out.print(f"report: {out_file.resolve()}", highlight=False, soft_wrap=True)
    out.print(f"audit trail: {audit_file.resolve()}", highlight=False, soft_wrap=True)
