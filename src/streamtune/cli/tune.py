"""``streamtune tune``: the closed loop over a sequence of source rates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.output import err, out, print_json
from streamtune.cli.simulate import JobArgument, JsonOption

if TYPE_CHECKING:
    from streamtune.benchmark.tuning import TuningStory


def tune(
    job: JobArgument,
    engine: Annotated[str, typer.Option(help="Where the job runs: simulator.")] = "simulator",
    tuner: Annotated[
        str,
        typer.Option(help="Which method decides: ds2, ds2-calibrated, conttune, flink-autoscaler, dhalion or greedy."),
    ] = "ds2",
    rates: Annotated[
        str, typer.Option(help="pattern (the paper's 120 changes), cycle (its ten rates), or a YAML/JSON list.")
    ] = "cycle",
    changes: Annotated[int | None, typer.Option(help="Only the first N changes.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0)] = 0,
    bias: Annotated[float | None, typer.Option(help="Spread of the bias of measured busy time over types.")] = None,
    noise: Annotated[float | None, typer.Option(help="Spread of the noise of measured busy time.")] = None,
    settle: Annotated[float, typer.Option(help="Seconds to wait after a change before measuring.")] = 120.0,
    window: Annotated[float, typer.Option(help="Seconds to measure.")] = 60.0,
    max_reconfigurations: Annotated[int, typer.Option(help="Bound per change of rates.")] = 10,
    min_parallelism: Annotated[int, typer.Option(help="No operator goes below.")] = 1,
    max_parallelism: Annotated[int | None, typer.Option(help="No operator goes above.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="An operator never to touch; may be repeated.")] = None,
    tune_sources: Annotated[bool, typer.Option(help="Let sources be changed too.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Recommend, but deploy nothing.")] = False,
    audit: Annotated[Path | None, typer.Option(help="Append every decision to this file, as JSON lines.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune a job while its source rates change.

    For every change of rates: observe, recommend, deploy, until there is no backpressure or nothing changes.

    \b
    Examples:
      streamtune tune nexmark-q5
      streamtune tune job.yaml --rates pattern --audit audit.jsonl --report report.html
      streamtune tune pqp-3way-0 --rates my-rates.yaml --exclude sink --json
    """
    from streamtune.audit import AuditTrail
    from streamtune.benchmark.report import write_report
    from streamtune.benchmark.tuning import tune_on_simulator
    from streamtune.cli.arguments import find_job, make_folder_of, measurement_error, parse_rate_changes
    from streamtune.cli.live import LiveTable
    from streamtune.controller import Guards
    from streamtune.engines.base import MeasurementWindow
    from streamtune.engines.simulator import SimulatorSettings
    from streamtune.errors import StreamTuneError
    from streamtune.tuners import make_tuner

    if engine != "simulator":
        raise StreamTuneError(f"unknown engine '{engine}': choose simulator")
    spec = find_job(job)
    wanted = parse_rate_changes(rates, spec.job, seed)[:changes]
    make_tuner(tuner, spec.job)  # refuse an unknown tuner before anything starts
    if report is not None:
        make_folder_of(report)
    guards = Guards(
        max_reconfigurations=max_reconfigurations,
        min_parallelism=min_parallelism,
        max_parallelism=max_parallelism,
        exclude=frozenset(exclude or ()),
        tune_sources=tune_sources,
        dry_run=dry_run,
    )
    with AuditTrail(audit) as trail, LiveTable(spec.job, len(wanted), err) as live:
        story = tune_on_simulator(
            spec,
            lambda tuned: make_tuner(tuner, tuned),
            wanted,
            seed=seed,
            settings=SimulatorSettings(error=measurement_error(bias, noise)),
            guards=guards,
            window=MeasurementWindow(settle, window),
            audit=trail,
            watch=live.show,
        )
    if report is not None:
        write_report(report, [story], title=f"{spec.job.name} tuned by {tuner}", command=f"streamtune tune {job}")
    if as_json:
        print_json(story.summary())
        return
    print_story(story)
    for label, path in (("report", report), ("audit trail", audit)):
        if path is not None:
            out.print(f"{label}: {path}", highlight=False, soft_wrap=True)


def print_story(story: TuningStory) -> None:
    """The changes as a table, and the sums below it."""
    table = Table(title=f"{story.job} tuned by {story.tuner} on the {story.engine} (seed {story.seed})")
    for heading in ("#", "rates", "restarts", "backpressure", "total p", "oracle", "stopped"):
        table.add_column(heading, justify="left" if heading in ("rates", "stopped") else "right")
    for number, change in enumerate(story.changes, start=1):
        table.add_row(
            str(number),
            ", ".join(f"{source} {rate:,.0f}" for source, rate in change.rates.items()),
            str(change.reconfigurations),
            "[red]yes[/]" if change.backpressure else "no",
            str(change.total_parallelism),
            "–" if change.oracle_total is None else str(change.oracle_total),
            "clean" if change.stop_reason == "no_backpressure" else change.stop_reason.replace("_", " "),
        )
    out.print(table)
    ratio = "" if story.over_oracle is None else f", {story.over_oracle:.2f} × the oracle's total parallelism"
    out.print(
        f"{story.reconfigurations_per_change:.2f} reconfigurations per change, "
        f"{story.backpressure_after_tuning} of {len(story.changes)} changes ended with backpressure{ratio}",
        highlight=False,
        soft_wrap=True,
    )
