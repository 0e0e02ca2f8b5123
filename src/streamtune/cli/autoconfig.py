"""``streamtune autoconfig``: search the settings of a job, or of any program, by running it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.autoconfig_trials import TrialsView, short, trials_table
from streamtune.cli.output import err, out, plain, print_json
from streamtune.engines.flink.settings import check_address
from streamtune.errors import StreamTuneError
from streamtune.outputs import check_folder
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.autoconfig.budget import Budget
    from streamtune.autoconfig.choice import Best
    from streamtune.autoconfig.flink import FlinkTarget
    from streamtune.autoconfig.problem import Problem
    from streamtune.autoconfig.session import Outcome, Plan
    from streamtune.autoconfig.spark.harness import SparkTarget

app = typer.Typer(
    name="autoconfig",
    help="Auto-configuration: search the settings of a streaming job, or of any program, by running it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
SpaceFile = Annotated[
    Path | None,
    typer.Argument(help="Knobs, constraints and the objective's command (YAML); see docs/how-to/autoconfig.md."),
]
StoreOption = Annotated[
    Path | None, typer.Option(help="Folder of the session; the same command goes on there. Default: SPACE.autoconfig.")
]
Seconds = Annotated[float | None, typer.Option("--max-seconds", help="Stop before trials have taken this long.")]
Money = Annotated[float | None, typer.Option("--max-cost", help="Stop before trials have cost this; with --price.")]
Price = Annotated[float | None, typer.Option("--price", help="Money per hour of a running trial.")]
Engine = Annotated[str | None, typer.Option("--engine", help="flink: tune a job over REST, with --url and --jar.")]
Url = Annotated[str | None, typer.Option("--url", help="Flink's REST address, for instance http://localhost:8081.")]
Jar = Annotated[str | None, typer.Option("--jar", help="The job's jar, or the id of an uploaded one.")]
EntryClass = Annotated[str | None, typer.Option("--entry-class", help="Main class; default: the jar's own.")]
JobArguments = Annotated[list[str] | None, typer.Option("--job-arg", help="Argument of the job; may be repeated.")]
Master = Annotated[str | None, typer.Option("--master", help="Spark master of --spark-app; default: local[*].")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="KEY=VALUE of every Spark session of --spark-app; may be repeated.")
]
Warm = Annotated[
    list[Path] | None, typer.Option("--warm-from", help="Store of a past session of a similar job; may be repeated.")
]

# More than anybody waits for: each is a run of the system that is tuned.
MOST_STEPS = 100_000


@app.command()
def run(
    space: SpaceFile = None,
    steps: Annotated[
        int | None, typer.Option(min=1, max=MOST_STEPS, help="Trials in all; default 60, 180 for bo180.")
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(help="random, pla, ipla, bo, ibo, bo180, cma-es, tpe or ours; pla and ipla climb 60 rungs."),
    ] = "ours",
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same trials.")] = 0,
    store: StoreOption = None,
    max_seconds: Seconds = None,
    max_cost: Money = None,
    price: Price = None,
    warm_from: Warm = None,
    spark_app: Annotated[
        Path | None, typer.Option("--spark-app", help="A PySpark streaming application to tune; SPACE is optional.")
    ] = None,
    engine: Engine = None,
    url: Url = None,
    jar: Jar = None,
    entry_class: EntryClass = None,
    job_arg: JobArguments = None,
    master: Master = None,
    conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Search the space: run the command with one configuration after the other, and say which was best.

    The command's last line is a number or {"value": …}; another exit code than 0 is a failed trial, which is a result
    too. The same command after a crash goes on where the session was; nothing is run twice.

    \b
    Examples:
      streamtune autoconfig run space.yaml --steps 30 --store my-session
      streamtune autoconfig run space.yaml --strategy bo --seed 1 --steps 60 --store s1 --json
      streamtune autoconfig run space.yaml --steps 60 --max-seconds 7200 --max-cost 20 --price 4.8
      streamtune autoconfig run space.yaml --spark-app app.py --steps 40 --store spark-session
      streamtune autoconfig run --spark-app app.py --master spark://host:7077 --conf spark.executor.memory=4g
      streamtune autoconfig run --engine flink --url http://localhost:8081 --jar job.jar --steps 30
    """
    target = _target(spark_app, _Spark(master, conf), engine, url, jar, entry_class, job_arg)
    problem, folder = _problem(space, target, store)
    plan = _plan(strategy, seed, steps, max_seconds, max_cost, price)
    warm = _warm(problem, warm_from)
    _finish(problem, plan, folder, target, warm, as_json)


@app.command()
def resume(
    store: Annotated[Path, typer.Argument(help="Folder of a session.")],
    steps: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_STEPS, help="Trials in all; default, as of all limits: as given last."),
    ] = None,
    max_seconds: Seconds = None,
    max_cost: Money = None,
    price: Price = None,
    spark_app: Annotated[Path | None, typer.Option("--spark-app", help="As the session was begun with.")] = None,
    engine: Engine = None,
    url: Url = None,
    jar: Jar = None,
    entry_class: EntryClass = None,
    job_arg: JobArguments = None,
    master: Master = None,
    conf: Conf = None,
    as_json: JsonOption = False,
) -> None:
    """Go on with a session that was paused or killed; with more --steps also with one that was finished.

    \b
    Examples:
      streamtune autoconfig resume my-session
      streamtune autoconfig resume my-session --steps 80 --json
    """
    from streamtune.autoconfig.report import read_session

    target = _target(spark_app, _Spark(master, conf), engine, url, jar, entry_class, job_arg)
    session = read_session(store)
    if target is None and not session.problem.objective.command:
        raise StreamTuneError(f"{store} was begun with --spark-app or --engine: give the same again")
    plan = _plan(session.strategy, session.seed, steps, max_seconds, max_cost, price, session.budget)
    _finish(session.problem, plan, store, target, (), as_json)


@app.command()
def show(
    store: Annotated[Path, typer.Argument(help="Folder of a session.")],
    plots: Annotated[Path | None, typer.Option(help="Write convergence.svg and parallel.svg into this folder.")] = None,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a session: the best configuration, which knob mattered, plots, and what to put into the config file.

    \b
    Examples:
      streamtune autoconfig show my-session
      streamtune autoconfig show my-session --plots pictures --trials
    """
    from streamtune.autoconfig.importance import importance
    from streamtune.autoconfig.neighbours import conclude
    from streamtune.autoconfig.report import config_file, defaults_are_missing, read_session

    if plots is not None:
        check_folder(plots, "--plots")
    session = read_session(store)
    best = conclude(session.trials, session.problem)
    weights = importance(session.trials, session.problem)
    pictures = _draw(session.trials, session.problem, plots)
    lines = config_file(session.problem, best.knobs) if best else ""
    if as_json:
        answer = _answer(session.problem, session.strategy, session.seed, store, best, session.trials, "")
        print_json({**answer, "importance": weights, "config_file": lines, "plots": [str(path) for path in pictures]})
        return
    if trials:
        out.print(trials_table(session.trials, session.problem))
    _print_best(best, session.trials, session.problem)
    if defaults_are_missing(session):
        out.print(f"{session.strategy} did not measure the defaults: how much better this is than them is not known")
    if weights:
        table = Table("knob", "importance", title="Which knob mattered", title_justify="left")
        for name, weight in weights.items():
            table.add_row(plain(name), f"{100 * weight:.0f} %")
        out.print(table)
    if lines:
        out.print("For the config file:", style="bold")
        out.print(lines, markup=False, highlight=False, soft_wrap=True)
    for path in pictures:
        err.print(f"plot: {plain(str(path))}", highlight=False, soft_wrap=True)


def _plan(
    strategy: str, seed: int, steps: int | None, seconds: float | None, money: float | None, price: float | None,
    past: Budget | None = None,
) -> Plan:  # fmt: skip
    """What is not given stays as it was in the past."""
    import math

    from streamtune.autoconfig.budget import Budget
    from streamtune.autoconfig.session import Plan
    from streamtune.autoconfig.strategies import DEFAULT_STEPS, NAMES

    if strategy not in NAMES:
        raise StreamTuneError(f"--strategy: no strategy {strategy!r}: there are {', '.join(NAMES)}")
    for option, value in (("--max-seconds", seconds), ("--max-cost", money), ("--price", price)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise StreamTuneError(f"{option} must be a number above 0, but got {value:g}")
    past = past or Budget(steps=DEFAULT_STEPS.get(strategy, 60))
    given = {"steps": steps, "seconds": seconds, "money": money, "price_per_hour": price}
    budget: Budget = past.model_copy(update={name: value for name, value in given.items() if value is not None})
    if (budget.money is None) != (budget.price_per_hour is None):
        raise StreamTuneError("--max-cost and --price belong together: give both or neither")
    return Plan(strategy=strategy, seed=seed, budget=budget)


def _warn_of_weights(problem: Problem, strategy: str) -> None:
    """Where the informed strategies have nothing that informs them."""
    twin = {"ibo": "bo", "ipla": "pla"}.get(strategy)
    if twin is not None and all(knob.weight is None for knob in problem.space.knobs.values()):
        err.print(f"no knob has a weight: {strategy} is {twin}", style="yellow", highlight=False)


@dataclass(frozen=True)
class _Target:
    """What is tuned when it is not a command: a Spark application or a Flink job."""

    engine: str
    name: str
    spark_app: Path | None = None
    spark: SparkTarget | None = None
    flink: FlinkTarget | None = None


@dataclass(frozen=True)
class _Spark:
    """What is said of Spark's sessions."""

    master: str | None
    conf: list[str] | None

    @property
    def settings(self) -> SparkTarget:
        from streamtune.autoconfig.spark.harness import SparkTarget

        wrong = [one for one in self.conf or () if not one.partition("=")[0] or "=" not in one]
        if wrong:
            raise StreamTuneError(f"--conf must be KEY=VALUE, for instance spark.app.name=x, but got {wrong[0]!r}")
        conf = {key: value for key, _, value in (one.partition("=") for one in self.conf or ())}
        return SparkTarget(conf=conf) if self.master is None else SparkTarget(master=self.master, conf=conf)


def _target(
    spark_app: Path | None,
    spark: _Spark,
    engine: str | None,
    url: str | None,
    jar: str | None,
    entry_class: str | None,
    arguments: list[str] | None,
) -> _Target | None:
    if spark_app is not None and engine in {None, "spark"}:
        return _Target("spark", spark_app.stem, spark_app=spark_app, spark=spark.settings)
    for option, value in {"--master": spark.master, "--conf": spark.conf}.items():
        if value:
            raise StreamTuneError(f"{option} has no effect without --spark-app: leave it out, or give both")
    if engine is None:
        given = {"--url": url, "--jar": jar, "--entry-class": entry_class, "--job-arg": arguments}
        for option in (option for option, one in given.items() if one):
            raise StreamTuneError(f"{option} has no effect without --engine flink: leave it out, or give both")
        return None
    if engine != "flink":
        raise StreamTuneError(f"--engine: expected flink (Spark: --spark-app app.py), but got {engine!r}")
    if url is None or jar is None:
        raise StreamTuneError("--engine flink needs --url and --jar: where the JobManager is, and what to run")
    check_address(url)
    from streamtune.autoconfig.flink import FlinkTarget

    settings = FlinkTarget(url=url, jar=jar, entry_class=entry_class, arguments=tuple(arguments or ()))
    return _Target("flink", Path(jar).stem, flink=settings)


def _problem(space: Path | None, target: _Target | None, store: Path | None) -> tuple[Problem, Path]:
    from streamtune.autoconfig.problem import load_problem

    if space is None and target is None:
        raise StreamTuneError("nothing to tune: give a space file, for instance streamtune autoconfig run space.yaml")
    if space is None:
        from streamtune.autoconfig.spaces import engine_problem

        assert target is not None
        return engine_problem(target.engine), store or Path(f"{target.name}.autoconfig")
    problem = load_problem(space)
    if target is None:
        if not problem.objective.command:
            raise StreamTuneError(f"{space}: objective.command is missing: say how a configuration is measured")
        unused = problem.unused_knobs()
        if unused:
            strange = ", ".join(f"{{{name}}}" for name in problem.unknown_placeholders())
            told = f"; {strange} in it names no knob and stays as it is" if strange else ""
            err.print(f"no {{placeholder}} in the command for {plain(', '.join(unused) + told)}", style="yellow")
    return problem, store or Path(f"{space.stem}.autoconfig")


def _warm(problem: Problem, stores: list[Path] | None) -> list[dict[str, Any]]:
    if not stores:
        return []
    from streamtune.autoconfig.report import read_session
    from streamtune.autoconfig.similar import warm_starts

    return warm_starts(problem, [read_session(store) for store in stores])


def _finish(problem: Problem, plan: Plan, store: Path, target: _Target | None, warm: Any, as_json: bool) -> None:
    from streamtune.autoconfig.session import run_session

    _warn_of_weights(problem, plan.strategy)
    err.print(f"limits: {plan.budget.in_words()}", style="dim", highlight=False, soft_wrap=True)
    try:
        with (
            _objective(problem, store, target) as objective,
            TrialsView(problem, plan.budget.steps, live=not as_json) as view,
        ):
            outcome: Outcome = run_session(problem, plan, objective, store, tell=view.tell, warm=warm)
    except KeyboardInterrupt:
        told = f"paused: 'streamtune autoconfig resume {plain(str(store))}' goes on"
        err.print(told, highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
    if outcome.best is None:
        told = "every trial failed: see 'reason' of the trials, and the runs' stderr in the store"
        err.print(told, style="yellow", soft_wrap=True)
    if as_json:
        print_json(_answer(problem, plan.strategy, plan.seed, store, outcome.best, outcome.trials, outcome.stopped))
        return
    out.print(trials_table(outcome.trials, problem))
    _print_best(outcome.best, outcome.trials, problem)
    err.print(f"stopped after {plain(outcome.stopped)}; session: {plain(str(store))}", highlight=False, soft_wrap=True)


def _objective(problem: Problem, store: Path, target: _Target | None) -> Any:
    from contextlib import nullcontext

    if target is not None and target.spark_app is not None:
        from streamtune.autoconfig.spark.harness import spark_objective

        return spark_objective(problem, target.spark_app, store, target.spark)
    if target is not None and target.flink is not None:
        from streamtune.autoconfig.flink import flink_objective

        return flink_objective(problem, target.flink, store)
    from streamtune.autoconfig.objective import CommandObjective

    return nullcontext(CommandObjective(problem.objective, problem.space, store / "runs"))


def _answer(
    problem: Problem, strategy: str, seed: int, store: Path, best: Best | None, trials: Any, stopped: str
) -> dict[str, Any]:
    return {
        "best": None if best is None else best.to_record(),
        "trials": [trial.to_record() for trial in trials],
        "strategy": strategy,
        "seed": seed,
        "direction": problem.objective.direction,
        "store": str(store),
        "stopped": stopped,
    }


def _print_best(best: Best | None, trials: Any, problem: Problem) -> None:
    if best is None:
        out.print("no trial succeeded")
        return
    spread = "" if best.spread is None else f" ± {best.spread:.3g}"
    out.print(
        f"best: {best.value:.6g}{spread} ({problem.objective.direction}, trial {best.number}, "
        f"measured {best.measurements} ×, {sum(trial.failed for trial in trials)} of {len(trials)} trials failed)",
        highlight=False, soft_wrap=True, style="bold",
    )  # fmt: skip
    for name, value in best.knobs.items():
        out.print(f"  {plain(name)} = {plain(short(value))}", highlight=False)


def _draw(trials: Any, problem: Problem, folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    from streamtune.autoconfig.pictures import draw

    return draw(trials, problem, folder)
