"""``streamtune tune``: the closed loop over a sequence of source rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.effect import refuse_without_effect
from streamtune.cli.lease import StoreOption, job_lease
from streamtune.cli.options import current_config, resolved, setting
from streamtune.cli.output import err, out, print_json, styled
from streamtune.cli.simulate import JsonOption
from streamtune.cli.tune_options import (
    TUNER_HELP,
    BacklogOption,
    CostModelOption,
    ForecastOption,
    ModelOption,
    PricesOption,
    StateOption,
)
from streamtune.control.guards import Guards
from streamtune.control.settings import SupervisorSettings
from streamtune.engines.flink.settings import FlinkSettings, FlinkWindow, RescaleSettings
from streamtune.engines.simulator.settings import SimulatorWindow
from streamtune.engines.timely.settings import TimelyWindow
from streamtune.outputs import check_outputs
from streamtune.settings import LARGEST_SEED, Settings

if TYPE_CHECKING:
    from streamtune.cli.flink_tuning import FlinkTuning
    from streamtune.control.audit import AuditTrail
    from streamtune.control.controller import Moment, Watcher
    from streamtune.control.story import TuningStory
    from streamtune.dataflow import Job
    from streamtune.dataflow.spec import JobSpec
    from streamtune.engines.base import MeasurementWindow
    from streamtune.tuners import Tuner


def tune(
    context: typer.Context,
    job: Annotated[
        str, typer.Argument(help="A job spec (YAML or JSON), or a built-in workload; not with --engine flink.")
    ] = "",
    engine: Annotated[str, typer.Option(help="Where the job runs: simulator, flink or timely.")] = "simulator",
    tuner: Annotated[str, typer.Option(help=TUNER_HELP)] = "streamtune",
    model: ModelOption = None,
    cost_model: CostModelOption = None,
    state: StateOption = None,
    history: Annotated[
        Path | None,
        typer.Option(help="Write what is observed to this folder too, for 'streamtune history ingest' to learn from."),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(help="simulator: a cost model ('streamtune costmodel train'); start with the plan it advises."),
    ] = None,
    rates: Annotated[
        str,
        typer.Option(
            help="simulator, timely: pattern (the paper's 120 changes), cycle (its ten rates), or a YAML/JSON list."
        ),
    ] = "cycle",
    changes: Annotated[int | None, typer.Option(help="simulator, timely: only the first N changes.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="simulator, timely: seed of all randomness.", min=0, max=LARGEST_SEED)] = 0,
    bias: Annotated[
        float | None, typer.Option(help="simulator: spread of the bias of measured busy time over types.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="simulator: spread of the noise of measured busy time.")] = None,
    settle_s: Annotated[
        float | None,
        typer.Option("--settle-s", "--settle", help="Wait after a change before measuring; each engine has a default."),
    ] = None,
    window_s: Annotated[
        float | None, typer.Option("--window-s", "--window", help="How long to measure; each engine has a default.")
    ] = None,
    max_reconfigurations: Annotated[int | None, setting(Guards, "max_reconfigurations")] = None,
    min_parallelism: Annotated[int | None, setting(Guards, "min_parallelism")] = None,
    max_parallelism: Annotated[int | None, setting(Guards, "max_parallelism")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="An operator never to touch; may be repeated.")] = None,
    tune_sources: Annotated[bool | None, setting(Guards, "tune_sources")] = None,
    dry_run: Annotated[bool | None, setting(Guards, "dry_run", "--dry-run")] = None,
    url: Annotated[str | None, setting(FlinkSettings, "url", help="flink: address of the JobManager.")] = None,
    job_id: Annotated[
        str | None, typer.Option("--job", help="flink: id of the running job; not needed if it is the only one.")
    ] = None,
    overrides: Annotated[Path | None, typer.Option(help="flink: YAML file with what a plan does not tell.")] = None,
    jar: Annotated[
        Path | None, typer.Option(help="flink: the job's jar, for clusters that cannot rescale live.")
    ] = None,
    entry_class: Annotated[str | None, typer.Option(help="flink: main class in that jar.")] = None,
    argument: Annotated[
        list[str] | None, typer.Option(help="flink: an argument of that main class; may be repeated.")
    ] = None,
    watch_s: Annotated[
        float | None,
        setting(SupervisorSettings, "watch_s", "--watch-s", "--watch", help="flink: watch so long, tune when due."),
    ] = None,
    rate_change: Annotated[
        float | None,
        setting(SupervisorSettings, "rate_change", help="flink: share by which a rate must move to be tuned for."),
    ] = None,
    max_per_hour: Annotated[
        int | None,
        setting(SupervisorSettings, "max_per_hour", help="flink: how often a job may be changed in an hour."),
    ] = None,
    forecast: ForecastOption = None,
    prices: PricesOption = None,
    store: StoreOption = None,
    without_checkpoint: Annotated[
        bool | None,
        setting(RescaleSettings, "without_checkpoint", "--without-checkpoint", help="flink: rescale without one."),
    ] = None,
    backlog_growth: BacklogOption = None,
    audit: Annotated[Path | None, typer.Option(help="Append every decision to this file, as JSON lines.")] = None,
    report: Annotated[Path | None, typer.Option(help="simulator, timely: write an HTML report.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Tune a job while its source rates change.

    For every change of rates: observe, recommend, deploy, until there is no backpressure or nothing changes. On flink,
    rates come from outside: one tuning process, or as many as --watch allows. Elsewhere every change is one tuning
    process, and the Flink autoscaler scales down without its usual hour of waiting, as in 'compare'.

    \b
    Examples:
      streamtune tune nexmark-q5 --model model
      streamtune tune job.yaml --model model --state tuning.db --rates pattern --report report.html
      streamtune tune pqp-3way-0 --tuner ds2 --rates my-rates.yaml --exclude sink --json
      streamtune tune --engine flink --url http://jobmanager:8081 --model model --history runs --dry-run
      streamtune tune --engine flink --watch 86400 --forecast rates.csv --prices prices.yaml
      streamtune tune nexmark-q3 --engine timely --changes 3 --backlog-growth 0.03
    """
    from streamtune.control.audit import AuditTrail
    from streamtune.models.names import check_cost_model, check_model
    from streamtune.tuners import check_tuner

    refuse_without_effect(context, engine, tuner)
    check_tuner(tuner, has_model=model is not None, has_cost_model=cost_model is not None)
    check_model(model)
    for one in (cost_model, start_from):
        check_cost_model(one)
    check_outputs((("--report", report), ("--audit", audit), ("--state", state)))
    make = _tuner_maker(tuner, engine, model, cost_model, state, tune_sources=bool(tune_sources))
    if forecast is not None:
        from streamtune.cli.ahead import LookingAhead

        make = LookingAhead.read(forecast, prices).around(make)
    session = TuneSession(
        make=make,
        guards=resolved(
            Guards,
            max_reconfigurations=max_reconfigurations,
            min_parallelism=min_parallelism,
            max_parallelism=max_parallelism,
            exclude=frozenset(exclude) if exclude else None,
            tune_sources=tune_sources,
            dry_run=dry_run,
        ),
        settle_s=settle_s,
        length_s=window_s,
        history=history,
    )
    with AuditTrail(audit) as trail:
        if engine == "flink":
            from streamtune.cli.flink_tuning import FlinkTuning

            settings = resolved(FlinkSettings, url=url)
            if without_checkpoint:
                settings = settings.replace(rescale=settings.rescale.replace(without_checkpoint=True))
            where = FlinkTuning(
                settings.url,
                job_id,
                overrides,
                jar,
                entry_class,
                tuple(argument or ()),
                supervision=resolved(
                    SupervisorSettings, watch_s=watch_s, rate_change=rate_change, max_per_hour=max_per_hour
                ),
                settings=settings,
            )
            with job_lease(store, settings.url, job_id, acts=not session.guards.dry_run):
                _tune_flink(where, session, trail, as_json)
            return
        if engine == "timely":
            story = _tune_timely(job, rates, changes, seed, session, trail, backlog_growth)
        else:
            story = _tune_simulator(job, rates, changes, seed, (bias, noise), session, trail, start_from)
    if report is not None:
        from streamtune.reports.report import write_report

        write_report(report, [story], title=f"{story.job} tuned by {tuner}", command=f"streamtune tune {job}")
    if as_json:
        print_json(story.summary())
        return
    print_story(story)
    for label, path in (("report", report), ("audit trail", audit), ("state", state), ("history", history)):
        if path is not None:
            out.print(f"{label}: {path}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class TuneSession:
    """What all engines have in common."""

    make: Callable[[Job], Tuner]
    guards: Guards
    settle_s: float | None
    length_s: float | None
    history: Path | None

    def window(self, kind: type[MeasurementWindow]) -> MeasurementWindow:
        """The window of an engine, as far as the command line does not say it."""
        return resolved(kind, settle_s=self.settle_s, length_s=self.length_s)

    def watch(self, job: Job, engine: str, show: Watcher) -> Watcher:
        """What sees every moment: the screen, and the history where one is wanted."""
        if self.history is None:
            return show
        from streamtune.control.recording import RunRecorder

        return RunRecorder(self.history, job, engine, show).watch


def tuner_settings(name: str, engine: str) -> Settings:
    """The settings of a tuner in force. Where every rate is one tuning process, the Flink autoscaler's hour of waiting
    before it scales down would be all that is measured: it counts on Flink alone, or where the config file says it.
    """
    from streamtune.tuners import without_waiting

    config = current_config()
    settings: Settings = config.tuner(name)
    if engine == "flink" or config.gives(type(settings), "scale_down_interval_s"):
        return settings
    return without_waiting(name, settings) or settings


def _tuner_maker(
    name: str, engine: str, model: Path | None, cost_model: Path | None, state: Path | None, *, tune_sources: bool
) -> Callable[[Job], Tuner]:
    from streamtune.tuners import make_tuner

    settings = tuner_settings(name, engine)
    if tune_sources and "tune_sources" in type(settings).model_fields:
        settings = settings.replace(tune_sources=True)
    return lambda job: make_tuner(name, job, model=model, cost_model=cost_model, state=state, settings=settings)


def _tune_simulator(
    job: str,
    rates: str,
    changes: int | None,
    seed: int,
    error: tuple[float | None, float | None],
    session: TuneSession,
    trail: AuditTrail,
    start_from: Path | None,
) -> TuningStory:
    from streamtune.cli.arguments import find_job, parse_rate_changes, simulator_settings

    spec = find_job(job)
    wanted = parse_rate_changes(rates, spec.job, seed)[:changes]
    settings, window = simulator_settings(*error), session.window(SimulatorWindow)
    from streamtune.cli.live import LiveTable
    from streamtune.labs.simulator import tune_on_simulator

    if start_from is not None:
        spec = _advised(spec, start_from, wanted[0])
    with LiveTable(spec.job, len(wanted), err) as live:
        return tune_on_simulator(
            spec,
            session.make,
            wanted,
            seed=seed,
            settings=settings,
            guards=session.guards,
            window=window,
            audit=trail,
            watch=session.watch(spec.job, "simulator", live.show),
        )


def _advised(spec: JobSpec, cost_model: Path, rates: Mapping[str, float]) -> JobSpec:
    """The same job, starting with the plan that the cost model advises for the first rates; sources stay."""
    from dataclasses import replace

    from streamtune.dataflow import Dataflow, Job
    from streamtune.models.costmodel.advice import starting_plan
    from streamtune.models.costmodel.model import CostModel

    plan = starting_plan(CostModel.load(cost_model), spec.job, rates=rates)
    flow = spec.job.dataflow
    operators = tuple(op.model_copy(update={"parallelism": plan[op.id]}) for op in flow.operators)
    err.print(f"starting with the advised plan: {dict(plan)}", highlight=False, soft_wrap=True)
    return replace(spec, job=Job(spec.job.name, Dataflow(operators, flow.edges), spec.job.max_parallelism))


def _tune_timely(
    job: str,
    rates: str,
    changes: int | None,
    seed: int,
    session: TuneSession,
    trail: AuditTrail,
    backlog_growth: float | None,
) -> TuningStory:
    from streamtune.cli.live import LiveTable
    from streamtune.cli.timely_tuning import find_timely_job, tune_timely

    spec = find_timely_job(job)
    with LiveTable(spec.job, changes or 0, err) as live:
        return tune_timely(
            job,
            session.make,
            rates,
            changes=changes,
            seed=seed,
            guards=session.guards,
            window=session.window(TimelyWindow),
            audit=trail,
            watch=session.watch(spec.job, "timely", live.show),
            backlog_growth_share=backlog_growth or None,
        )


def _tune_flink(where: FlinkTuning, session: TuneSession, trail: AuditTrail, as_json: bool) -> None:
    from streamtune.cli.flink import rescale_journal
    from streamtune.cli.flink_tuning import tune_flink

    def show(moment: Moment) -> None:
        seen = moment.observation
        if seen is not None:
            held = ", ".join(seen.backpressured()) or "none"
            text = f"{moment.kind}: total parallelism {moment.plan.total}, backpressure: {held}"
        else:
            text = f"applied: {dict(moment.plan)}"
        err.print(text, highlight=False, soft_wrap=True)

    window = session.window(FlinkWindow)
    outcomes = tune_flink(
        where,
        session.make,
        session.guards,
        window,
        trail,
        watch_of=lambda job: session.watch(job, "flink", show),
        tell=lambda line: err.print(line, highlight=False, soft_wrap=True),
        journal=rescale_journal(),
    )
    records = [
        {
            "rates": dict(outcome.rates),
            "reconfigurations": outcome.reconfigurations,
            "backpressure": outcome.backpressure,
            "stop_reason": outcome.stop_reason,
            "plan": dict(outcome.deployment.plan),
            "recommended": dict(outcome.recommendation),
            "total_parallelism": outcome.deployment.plan.total,
        }
        for outcome in outcomes
    ]
    if as_json:
        print_json(records)
        return
    for record in records:
        if record["stop_reason"] == "dry_run":
            done = f"recommended is {record['recommended']}, nothing was changed"
        else:
            done = f"{record['reconfigurations']} reconfigurations, plan {record['plan']}"
        out.print(
            f"{record['stop_reason']}: {done}, backpressure {'left' if record['backpressure'] else 'none'}",
            highlight=False,
            soft_wrap=True,
        )


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
            styled(("yes", "red")) if change.backpressure else "no",
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
