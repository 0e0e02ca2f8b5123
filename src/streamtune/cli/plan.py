"""``streamtune plan``: how many instances a job will need, before it runs and before its rate changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.effect import is_given
from streamtune.cli.options import setting
from streamtune.cli.output import err, out, plain, print_json
from streamtune.cli.simulate import JsonOption, RateOption
from streamtune.cli.tune_options import ModelOption
from streamtune.engines.flink.settings import FlinkSettings
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.forecasts.base import Forecast
    from streamtune.forecasts.series import RateSeries
    from streamtune.provisioning.ahead import AheadPlan

_EPOCH_S = 900.0


def plan(
    context: typer.Context,
    job: Annotated[
        str, typer.Argument(help="A job spec (YAML or JSON), or a built-in workload; not with --engine flink.")
    ] = "",
    rate: RateOption = None,
    model: ModelOption = None,
    observe: Annotated[
        str | None,
        typer.Option(
            help="Try the job first, on the simulator at this small rate: 1x of the nominal ones, or a number."
        ),
    ] = None,
    certainty: Annotated[
        float | None, typer.Option(help="How sure to be that all operators together keep up; see StreamTuneSettings.")
    ] = None,
    engine: Annotated[str | None, typer.Option(help="flink: plan for a job that runs there now.")] = None,
    url: Annotated[str | None, setting(FlinkSettings, "url", help="flink: address of the JobManager.")] = None,
    job_id: Annotated[
        str | None, typer.Option("--job", help="flink: id of the running job; not needed if it is the only one.")
    ] = None,
    overrides: Annotated[Path | None, typer.Option(help="flink: a YAML file with what Flink does not tell.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="With --observe: seed of the simulator.")] = 0,
    forecast: Annotated[
        str | None, typer.Option("--forecast", help="The job's past rates: a CSV of time and records/s, or 'history'.")
    ] = None,
    history: Annotated[
        str | None, typer.Option("--history", help="Where the history is, for --forecast history.")
    ] = None,
    epoch: Annotated[
        float | None,
        typer.Option(
            "--epoch",
            min=1,
            max=31 * 86_400,
            help="Seconds of an epoch, a multiple of a step of the rates; default 900, or the next multiple above it.",
        ),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", min=1, max=10_000, help="Epochs to plan.")] = 96,
    level: Annotated[
        float | None,
        typer.Option("--level", help="Plan for this quantile of the forecast; default: learnt from the job's past."),
    ] = None,
    headroom: Annotated[float, typer.Option("--headroom", min=0, max=9, help="Share to add to every rate.")] = 0.0,
    capacity: Annotated[
        str | None, typer.Option("--capacity", help="Records/s of one instance, operator=number,… or a file.")
    ] = None,
    selectivity: Annotated[
        str | None, typer.Option("--selectivity", help="Records out per record in, operator=number,…; default 1.")
    ] = None,
    current: Annotated[str | None, typer.Option("--current", help="What runs now: a number, operator=number,…")] = None,
    prices: Annotated[Path | None, typer.Option("--prices", help="Price list (YAML or JSON).")] = None,
    changes: Annotated[str, typer.Option("--changes", help="What a change stops: job (Flink) or instance.")] = "job",
    picture: Annotated[Path | None, typer.Option("--picture", help="Draw rates and plan into this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """How many instances will a job need: at a given rate before it ran, or over the next day?

    With --rate: a first plan, from what past jobs taught (--model), from a short try (--observe), or from a look at a
    job that runs (--engine flink). It says which past operators each operator was learnt from, and how far it
    extrapolates. Nothing is deployed.

    With --forecast: the plan over time; the forecast is made by the method that did best on the job's own past.

    \b
    Examples:
      streamtune plan nexmark-q5 --model model --rate 10x
      streamtune plan job.yaml --model model --observe 1x --rate 10x --json
      streamtune plan --engine flink --url http://localhost:8081 --model model --rate 10x
      streamtune plan nexmark-q5 --forecast rates.csv
      streamtune plan job.yaml --forecast rates.csv --capacity filter=40000,join=1200 --level 0.99 --picture plan.svg
      streamtune plan nexmark-q5 --forecast history --history my-history --json
    """
    from streamtune.errors import StreamTuneError
    from streamtune.outputs import check_picture

    _refuse_other_mode(context, forecast is not None)
    if forecast is None:
        from streamtune.cli.first_plan import PlanQuestion, answer_plan

        if not job and engine is None:
            raise StreamTuneError("which job? Give a job spec or a workload: streamtune plan nexmark-q5 --model MODEL")
        question = PlanQuestion(job, rate, model, observe, certainty, engine, url, job_id, seed, overrides)
        answer_plan(question, as_json)
        return
    if not job:
        raise StreamTuneError(
            "which job? Give a job spec or a workload: streamtune plan nexmark-q5 --forecast rates.csv"
        )
    if picture is not None:  # before all the work
        check_picture(picture, "--picture")
    if level is not None and not 0 < level < 1:
        raise StreamTuneError(f"--level must be between 0 and 1, but got {level:g}")
    if changes not in ("job", "instance"):
        raise StreamTuneError(f"--changes must be job or instance, but got '{changes}'")
    with err.status("looking at the job's past…"):
        answer, foreseen, ahead, past = _planned(
            job, forecast, history, epoch, horizon, level, headroom, capacity, selectivity, current, prices, changes
        )
    if picture is not None:
        from streamtune.provisioning.pictures import draw_plan

        draw_plan(picture, past, foreseen, ahead, answer["level"])
        answer["picture"] = str(picture)
    if as_json:
        print_json(answer)
    else:
        _print(answer, ahead)
    if ahead.short_epochs:
        raise typer.Exit(1)


# What only one of the two questions looks at.
_AT_A_RATE = ("rate", "model", "observe", "certainty", "engine", "url", "job_id", "overrides", "seed")
_OVER_TIME = (
    *("history", "epoch", "horizon", "level", "headroom", "capacity", "selectivity"),
    *("current", "prices", "changes", "picture"),
)


def _refuse_other_mode(context: typer.Context, over_time: bool) -> None:
    """An option of the other question is refused, not ignored."""
    from streamtune.errors import StreamTuneError

    spelled = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    given = [name for name in context.params if is_given(context, name)]
    for name in given:
        if over_time and name in _AT_A_RATE:
            raise StreamTuneError(f"{spelled[name]} has no effect with --forecast: leave one of them out")
        if not over_time and name in _OVER_TIME:
            raise StreamTuneError(
                f"{spelled[name]} has an effect with --forecast only: add --forecast, or leave it out"
            )
    if "seed" in given and "observe" not in given:
        raise StreamTuneError("--seed is the simulator's, which only --observe asks: leave it out")
    for name in ("url", "job_id", "overrides"):
        if name in given and "engine" not in given:
            raise StreamTuneError(f"{spelled[name]} is of a running job: add --engine flink, or leave it out")


def _planned(
    job: str,
    source: str,
    history: str | None,
    epoch_s: float | None,
    horizon: int,
    level: float | None,
    headroom: float,
    capacity: str | None,
    selectivity: str | None,
    current: str | None,
    prices: Path | None,
    changes: str,
) -> tuple[dict[str, Any], Forecast, AheadPlan, Any]:
    from streamtune.cli.arguments import find_job, parse_plan, parse_selectivities
    from streamtune.cli.options import current_config
    from streamtune.cli.plan_sources import capacities_of, rates_of
    from streamtune.forecasts.selection import FORECASTERS, choose, forecast
    from streamtune.forecasts.series import MOMENTS
    from streamtune.forecasts.settings import ForecastSettings
    from streamtune.provisioning.ahead import plan_ahead
    from streamtune.provisioning.prices import PriceList, load_prices
    from streamtune.provisioning.safety import learnt_level
    from streamtune.provisioning.settings import AheadSettings

    spec = find_job(job)
    # What is small is read first: a wrong name is refused before a forecast is made.
    costs = load_prices(prices) if prices else PriceList()
    degrees = parse_plan(current, spec.job)
    past = rates_of(source, history, spec.job, _EPOCH_S if epoch_s is None else epoch_s)
    series = _in_epochs(past, epoch_s)
    capacities = capacities_of(spec, _capacities(capacity, spec.job), parse_selectivities(selectivity, spec.job))
    running = {key: degrees[key] for key in capacities}
    settings = current_config().settings(AheadSettings)
    limits = {"changes": changes, "headroom": headroom, "largest": spec.job.max_parallelism}
    settings = settings.replace(**limits, hold_s=max(settings.hold_s, series.step_s))
    wanted = current_config().settings(ForecastSettings).replace(horizon=horizon, levels=(0.5, 0.9))
    name = choose(series, wanted)[0].method if len(series) >= 8 else "naive"
    learnt = None
    if level is None:
        learnt = learnt_level(series, FORECASTERS[name](), capacities, costs, settings)
        level = learnt.level
    foreseen = forecast(series, wanted.replace(levels=tuple(sorted({0.5, level})), methods=(name,)))
    rates = foreseen.at(level)
    ahead = plan_ahead(rates, capacities, running, costs, series.step_s, settings, float(series.values[-1]))
    peak = plan_ahead([float(rates.max())] * horizon, capacities, running, costs, series.step_s, settings)
    answer: dict[str, Any] = {
        "job": spec.job.name,
        "forecast": {key: value for key, value in foreseen.as_dict().items() if key != "quantiles"},
        "held_steps": past.held,
        "level": level,
        "learnt_level": None if learnt is None else learnt.as_dict(),
        "rates": [float(rate) for rate in rates],
        **ahead.as_dict(),
        "next_change": _change(ahead, running),
        "peak_cost": peak.cost,
        "covered": ahead.covered,
        # What falls short is no cheaper way to do the same.
        "saves": None if ahead.short_epochs else 1 - ahead.cost / peak.cost if peak.cost > 0 else 0.0,
    }
    if foreseen.start_s >= MOMENTS:
        begins = [foreseen.start_s + epoch * ahead.epoch_s for epoch in range(horizon)]
        answer["plan"] = [{"start_s": start, **row} for start, row in zip(begins, answer["plan"], strict=True)]
    return answer, foreseen, ahead, series


def _in_epochs(past: RateSeries, asked_s: float | None) -> RateSeries:
    """The highest rate of each epoch; rates that are coarser stay as they are. What was not asked for is said."""
    from streamtune.errors import StreamTuneError

    step, wanted = past.step_s, _EPOCH_S if asked_s is None else asked_s
    steps = max(1, math.ceil(wanted / step - 1e-6)) if asked_s is None else max(1, round(wanted / step))
    if asked_s is not None and asked_s > step and abs(steps * step - asked_s) > 1e-6 * asked_s:
        raise StreamTuneError(
            f"--epoch {asked_s:g}: the rates are one per {step:g} s, which do not make up such epochs: "
            f"give a multiple of {step:g}, such as {steps * step:g}"
        )
    if steps * step > wanted * (1 + 1e-6):
        shorter = "" if asked_s is None else f": --epoch {asked_s:g} is shorter"
        err.print(
            f"the rates are one per {step:g} s, and the plan's epochs are {steps * step:g} s{shorter}",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )
    return past.coarser(steps * step) if steps > 1 else past


def _capacities(text: str | None, job: Any) -> dict[str, float]:
    from streamtune.cli.arguments import _pairs
    from streamtune.errors import StreamTuneError

    if text is None:
        return {}
    given = dict(_pairs(text, "--capacity"))
    for key, value in given.items():
        if key not in job.dataflow.index:
            raise StreamTuneError(f"--capacity: no operator '{key}': they are {', '.join(job.dataflow.index)}")
        if not 0 < value < float("inf"):
            raise StreamTuneError(f"--capacity: '{key}' must be finite and above 0, but got {value:g}")
    return given


def _change(ahead: AheadPlan, running: dict[str, int]) -> dict[str, Any] | None:
    found = ahead.next_change(running)
    return None if found is None else {"in_s": found[0], "plan": found[1]}


def _print(answer: dict[str, Any], ahead: AheadPlan) -> None:
    error = answer["forecast"]["error"]
    known = ", ".join(f"{key} {100 * value:.0f} %" for key, value in error.items()) or "unknown: too little past"
    out.print(
        f"{plain(answer['job'])}: forecast by {answer['forecast']['method']}; error on its own past: {known}",
        highlight=False,
        soft_wrap=True,
    )
    if answer["learnt_level"] is not None:
        out.print(answer["learnt_level"]["said"], highlight=False, soft_wrap=True)
    if answer["held_steps"]:
        steps = "1 step" if answer["held_steps"] == 1 else f"{answer['held_steps']:,} steps"
        held = "keeps" if answer["held_steps"] == 1 else "keep"
        out.print(f"{steps} without an observation {held} the rate before", highlight=False, soft_wrap=True)
    out.print(_table(ahead))
    saves = "" if answer["saves"] is None else f"; {100 * answer['saves']:.0f} % cheaper than the peak all the time"
    hours = f"{answer['instance_hours']:,.1f} instance-hours"
    out.print(
        f"cost {answer['cost']:,.4g}, {hours}, {answer['changes']} changes{saves}",
        highlight=False,
        soft_wrap=True,
    )
    _print_short(ahead)


def _table(ahead: AheadPlan) -> Table:
    """A row for every change."""
    table = Table()
    table.add_column("from", justify="right")
    for key in ahead.operators:
        table.add_column(plain(key), justify="right")
    last = None
    for epoch, row in enumerate(ahead.counts.tolist()):
        if row != last:
            table.add_row(f"+{epoch * ahead.epoch_s / 3600:.2f} h", *map(str, row))
            last = row
    return table


def _print_short(ahead: AheadPlan) -> None:
    """In how many epochs the rate is not served, and which operators are short by how much."""
    if not ahead.short_epochs or ahead.needed is None:
        return
    epochs = f"{ahead.short_epochs:,} of {len(ahead.counts):,} epochs"
    err.print(f"the rate is not served in {epochs}:", style="red", highlight=False, soft_wrap=True)
    for column, key in enumerate(ahead.operators):
        needed, has = int(ahead.needed[:, column].max()), int(ahead.counts[:, column].max())
        if key in ahead.short:
            err.print(
                f"operator '{plain(key)}' needs up to {needed:,} instances and may have {has:,}: "
                "raise max_parallelism, or make an instance do more",
                style="red",
                highlight=False,
                soft_wrap=True,
            )
