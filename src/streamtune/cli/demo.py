"""``streamtune demo``: the main job from nothing to a report, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.output import err, out


def demo(
    out_file: Annotated[Path, typer.Option("--out", help="Where to write the report.")] = Path("demo-report.html"),
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0)] = 0,
) -> None:
    """Tune Nexmark Q5 over a cycle of rates on the simulator and write an HTML report.

    \b
    Example:
      streamtune demo --out report.html
    """
    from streamtune.audit import AuditTrail
    from streamtune.benchmark.report import write_report
    from streamtune.benchmark.tuning import tune_on_simulator
    from streamtune.cli.live import LiveTable
    from streamtune.cli.tune import print_story
    from streamtune.tuners import DS2
    from streamtune.workloads import catalogue, rates

    workload = catalogue.load("nexmark-q5")
    wanted = [workload.rates_at(multiple) for multiple in rates.cycle()]
    audit_file = out_file.with_suffix(".audit.jsonl")
    audit_file.unlink(missing_ok=True)
    err.print("==> tuning nexmark-q5 with DS2 over ten source rates (the first run compiles the simulator)")
    with AuditTrail(audit_file) as trail, LiveTable(workload.spec.job, len(wanted), err) as live:
        story = tune_on_simulator(workload.spec, DS2, wanted, seed=seed, audit=trail, watch=live.show)
    write_report(out_file, [story], title="Nexmark Q5 tuned over a cycle of rates", command="streamtune demo")
    print_story(story)
    out.print(f"report: {out_file.resolve()}", highlight=False, soft_wrap=True)
    out.print(f"audit trail: {audit_file.resolve()}", highlight=False, soft_wrap=True)
