"""``streamtune provision``: samples, models and plans of instances with different CPU and memory (QEScalor)."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.output import err, out, plain, print_json
from streamtune.sealed import check_target
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.provisioning.oprpm.model import OperatorModel
    from streamtune.provisioning.plans import ProvisionPlan
    from streamtune.provisioning.prices import PriceList, SizeAdvice
    from streamtune.provisioning.sampling.samples import Provision, Sampler

app = typer.Typer(
    name="provision",
    help="QEScalor: how much CPU and memory per instance, and the cheapest plan over the coming epochs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_SECONDS_HELP = (
    "Time to spend at most; default 8, or 52 above 2,000 epochs × sizes. With another --method than exact, "
    "for the bound that its gap is measured by: default 2."
)
_BOUND_S = 2.0
# Names, not imports of what is slow to load; tests hold them against the models that there are.
_MODEL_HELP = (
    "ours (the best by cross-validation), or one of forest, svr, adaboost, gbdt, xgboost, monotone-boosting, "
    "gaussian-process, monotone-spline, physical."
)
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


@app.command(short_help="The cheapest instances of each size in each epoch.")
def plan(
    problem: Annotated[Path, typer.Argument(help="Problem file: sizes, start_cost, stop_cost, workload, initial.")],
    method: Annotated[str, typer.Option(help="exact, qcesa (the paper's), cba:SIZE (one size) or peak.")] = "exact",
    seconds: Annotated[float | None, typer.Option(min=0.1, help=_SECONDS_HELP)] = None,
    gap: Annotated[float, typer.Option(min=0, max=1, help="Stop early at this proven gap.")] = 0.001,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Draws the order of the search.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Find the cheapest instances of each size in each epoch that serve the whole workload (Eq. 1 to 3).

    The answer says what was proven: 'optimal', or the gap, how much cheaper a plan could be at most.

    \b
    Examples:
      streamtune provision plan problem.yaml
      streamtune provision plan problem.json --method qcesa --json
      streamtune provision plan problem.yaml --method cba:small
    """
    from streamtune.provisioning.problem import check_method, load_problem
    from streamtune.provisioning.settings import SolverSettings

    wanted = load_problem(problem)
    check_method(method, wanted)
    from streamtune.provisioning.methods import compile_kernels, plan_by

    begun = time.monotonic()
    compile_kernels()
    settings = SolverSettings(seconds=seconds, gap=min(gap, 0.999), seed=seed)
    if seconds is None:  # compiling for the first time is part of what the user waits for
        spent = time.monotonic() - begun
        whole = settings.time_for(wanted.epochs * len(wanted.sizes)) - spent
        settings = settings.replace(seconds=max(1.0, whole) if method == "exact" else _BOUND_S)
    found = plan_by(method, wanted, settings)
    if as_json:
        print_json(found.as_dict())
    else:
        print_plan(found)


def print_plan(found: ProvisionPlan) -> None:
    """The plan as runs of equal epochs, with its costs and what is proven."""
    answer: dict[str, Any] = found.as_dict()
    proof = "optimal" if answer["optimal"] else f"at most {100 * answer['gap']:.2f} % above the optimum"
    out.print(
        f"{plain(found.method)}: cost {answer['cost']:,.6g}, {proof}, found in {answer['seconds']:.2f} s",
        highlight=False,
        soft_wrap=True,
    )
    out.print(
        f"running {answer['running_cost']:,.6g}, {answer['starts']:,} starts, {answer['stops']:,} stops",
        highlight=False,
        soft_wrap=True,
    )
    table = Table()
    table.add_column("epochs", justify="right")
    used = [name for name in answer["plan"][0] if any(row[name] for row in answer["plan"])]
    for name in used:
        table.add_column(plain(name), justify="right")
    begin = 0
    for epoch in range(1, len(answer["plan"]) + 1):
        if epoch == len(answer["plan"]) or answer["plan"][epoch] != answer["plan"][begin]:
            span = f"{begin}" if epoch == begin + 1 else f"{begin} to {epoch - 1}"
            table.add_row(span, *(f"{answer['plan'][begin][name]:,}" for name in used))
            begin = epoch
    out.print(table)
    if not used:
        err.print("nothing has to run: the workload is 0 in every epoch", style="dim")


@app.command(short_help="Measure one instance with how much CPU and memory.")
def sample(
    operator: Annotated[str, typer.Argument(help="CO1, CO2 (compute-bound), CMO1 or CMO2 (with state in memory).")],
    target: Annotated[Path, typer.Option("--out", help="File of the samples to write (JSON).")],
    algorithm: Annotated[str, typer.Option(help="ours, dsa (the paper's), or fssa:STEP.")] = "ours",
    smallest: Annotated[str, typer.Option(help="Smallest provision, CORES:MIB.")] = "0.1:20",
    largest: Annotated[str, typer.Option(help="Largest provision, CORES:MIB.")] = "1.2:96",
    steps: Annotated[int, typer.Option(min=2, max=1000, help="Provisions on the ladder between them.")] = 16,
    state_mb: Annotated[
        float | None,
        typer.Option(min=1, help="MiB of state of CMO1 and CMO2; default 48, with --simulated the calibrated."),
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Sample calibrated physics, not a process.")] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Of the noise of --simulated; default 0.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what one instance does with how much CPU and memory, under real limits (control groups, as root).

    \b
    Examples:
      streamtune provision sample CMO1 --out cmo1.json
      streamtune provision sample CO1 --algorithm fssa:2 --largest 1.6:96 --out co1.json
      streamtune provision sample CMO2 --simulated --out cmo2.json
    """
    from streamtune.labs.sampling import check_provision
    from streamtune.provisioning.problem import ProvisioningError
    from streamtune.provisioning.sampling.algorithms import dsa, fssa, ladder, ours
    from streamtune.provisioning.sampling.samples import write_samples

    rungs = ladder(_provision(smallest, "--smallest"), _provision(largest, "--largest"), steps)
    if not simulated:  # before the first of them is measured
        for rung in (rungs[0], rungs[-1]):
            check_provision(rung)
    sampler = _sampler(operator, simulated, state_mb, seed)
    name, _, step = algorithm.partition(":")
    if name == "ours" and not step:
        found = ours(rungs, sampler)
    elif name == "dsa" and not step:
        found = dsa(rungs, sampler)
    elif name == "fssa" and step.isdecimal():
        found = fssa(rungs, sampler, int(step))
    else:
        raise ProvisioningError(f"unknown algorithm '{algorithm}': choose ours, dsa or fssa:STEP")
    notes = {"algorithm": algorithm, "sampler": "simulated" if simulated else "process"}
    write_samples(target, operator, found, notes)
    rows = [one.model_dump(exclude_none=True) for one in found]
    if as_json:
        print_json({"operator": operator, **notes, "samples": rows, "file": str(target)})
        return
    count = "1 sample" if len(found) == 1 else f"{len(found)} samples"
    table = Table(title=f"{operator}: {count} in {sum(one.seconds for one in found):.1f} s")
    for heading in ("cores", "MiB", "records/s", "spread", "cores used"):
        table.add_column(heading, justify="right")
    for one in sorted(found, key=lambda each: each.cpu):
        used = "" if one.cpu_used is None else f"{one.cpu_used:.2f}"
        table.add_row(
            f"{one.cpu:.2f}", f"{one.memory_mb:.0f}", f"{one.performance_per_s:,.0f}", f"{100 * one.spread:.1f} %", used
        )
    out.print(table)


def _sampler(operator: str, simulated: bool, state_mb: float | None, seed: int | None) -> Sampler:
    """What measures; an option that it would not look at is refused."""
    from streamtune.labs.sampling import OPERATORS, ProcessSampler
    from streamtune.provisioning.problem import ProvisioningError
    from streamtune.provisioning.sampling.physics import KNOWN, SimulatedSampler

    if operator not in OPERATORS:
        raise ProvisioningError(f"unknown operator '{operator}': choose from {', '.join(OPERATORS)}")
    if state_mb is not None and not operator.startswith("CMO"):
        raise ProvisioningError(f"--state-mb: {operator} has no state, CMO1 and CMO2 have: leave it out")
    if not simulated:
        if seed is not None:
            raise ProvisioningError("--seed is of the simulator's noise: add --simulated, or leave it out")
        return ProcessSampler(operator, state_mb=48.0 if state_mb is None else state_mb)
    physics = KNOWN[operator]
    if state_mb is not None:
        physics = physics.model_copy(update={"state_mb": state_mb})
    return SimulatedSampler(physics, seed=seed or 0)


def _provision(text: str, option: str) -> Provision:
    from pydantic import ValidationError

    from streamtune.provisioning.problem import MOST_CORES, MOST_MIB, ProvisioningError, fits_nowhere
    from streamtune.provisioning.sampling.samples import Provision

    cpu, _, memory = text.partition(":")
    try:
        found = Provision(cpu=float(cpu), memory_mb=float(memory))
    except (ValueError, ValidationError) as error:
        raise ProvisioningError(f"{option}: expected CORES:MIB such as 0.5:64, but got {text!r}") from error
    if found.cpu > MOST_CORES or found.memory_mb > MOST_MIB:
        raise ProvisioningError(f"{option}: {text} {fits_nowhere(found.cpu, found.memory_mb)}")
    return found


@app.command(short_help="Learn an operator's performance from its samples.")
def train(
    samples: Annotated[Path, typer.Argument(help="File that 'streamtune provision sample' wrote.")],
    target: Annotated[Path, typer.Option("--out", help="Folder of the model to write.")],
    model: Annotated[str, typer.Option(help=_MODEL_HELP)] = "ours",
    update: Annotated[
        Path | None,
        typer.Option(help="A model to renew: its samples of other provisions are kept, moved by the change seen."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Of folds and forests.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn an operator's performance over CPU and memory from its samples (OPRPM).

    \b
    Examples:
      streamtune provision train cmo1.json --out cmo1-model
      streamtune provision train cmo1.json --model forest --out cmo1-forest
      streamtune provision train cmo1-new.json --update cmo1-model --out cmo1-model-2
    """
    from streamtune.provisioning.sampling.samples import read_samples

    check_target(target, "model of an operator")
    operator, taken = read_samples(samples)
    from streamtune.provisioning.oprpm.drift import renewed
    from streamtune.provisioning.oprpm.model import train as learn

    if update is None:
        found = learn(operator, taken, model, seed)
    else:
        found = renewed(_model_of(update, operator, samples, len(taken)), taken, keep_old=True, name=model, seed=seed)
    found.save(target)
    _print_model(found, as_json)


@app.command(short_help="Whether new samples still fit a model.")
def check(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    samples: Annotated[Path, typer.Argument(help="New samples, a file that 'streamtune provision sample' wrote.")],
    as_json: JsonOption = False,
) -> None:
    """Does an operator still do what its model says? Exit code 1 where it does not: sample it, 'train --update'.

    One sample that is far off, or many that are a little off to the same side, say no (CUSUM); noise does not.

    \b
    Examples:
      streamtune provision check cmo1-model cmo1-new.json
    """
    from streamtune.cli.options import current_config
    from streamtune.provisioning.sampling.samples import read_samples
    from streamtune.provisioning.settings import DriftSettings

    operator, taken = read_samples(samples)
    from streamtune.provisioning.oprpm.drift import drift

    known = _model_of(model, operator, samples, len(taken))
    told = drift(known, taken, current_config().settings(DriftSettings))
    if as_json:
        print_json({"operator": operator, "samples": len(taken), "fits": told is None, "said": told})
    else:
        fits = f"{plain(operator)}: the model fits {'the sample' if len(taken) == 1 else f'all {len(taken)} samples'}"
        out.print(fits if told is None else plain(told), highlight=False, soft_wrap=True)
    if told is not None:
        raise typer.Exit(1)


def _model_of(folder: Path, operator: str, samples: Path, count: int) -> OperatorModel:
    """A model that new samples are held against: it must be one of their operator."""
    from streamtune.provisioning.oprpm.model import OperatorModel
    from streamtune.provisioning.problem import ProvisioningError

    if count == 0:
        raise ProvisioningError(f"{samples} holds no samples: take at least one with 'streamtune provision sample'")
    found = OperatorModel.load(folder)
    if found.operator != operator:
        raise ProvisioningError(f"{folder} is a model of '{found.operator}', but {samples} has samples of '{operator}'")
    return found


@app.command(short_help="What a model rests on, and what it predicts.")
def show(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.")],
    provisions: Annotated[list[str] | None, typer.Option("--at", help="Predict at CORES:MIB; may be repeated.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price list (YAML or JSON): names the size whose records are cheapest.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a model: what it rests on, its error, and what it predicts; checks every file first.

    With --prices: the cheapest size per record, of those of --at, or of those that were sampled.

    \b
    Examples:
      streamtune provision show cmo1-model --at 0.5:64 --at 1:96
      streamtune provision show cmo1-model --prices prices.yaml
    """
    from streamtune.provisioning.prices import load_prices

    asked = [_provision(text, "--at") for text in provisions or ()]
    costs = None if prices is None else load_prices(prices)
    from streamtune.provisioning.oprpm.model import OperatorModel

    _print_model(OperatorModel.load(model), as_json, asked, costs)


def _print_model(
    model: OperatorModel, as_json: bool, at: list[Provision] | None = None, prices: PriceList | None = None
) -> None:
    from streamtune.provisioning.problem import cores
    from streamtune.provisioning.sampling.samples import told

    predicted = model.performance(at).tolist() if at else []
    advice = None if prices is None else _advice(model, at or [], prices)
    answer = {
        "operator": model.operator,
        "model": model.name,
        "samples": len(model.samples),
        "error": model.error,
        "errors": model.errors,
        "predicted": [
            {**one.model_dump(), "performance_per_s": rate, "sampled": model.knows(one)}
            for one, rate in zip(at or [], predicted, strict=True)
        ],
        **({} if prices is None else {"advice": None if advice is None else advice.model_dump()}),
    }
    if as_json:
        print_json(answer)
        return
    error = f"relative error {100 * model.error:.1f} % by cross-validation"
    out.print(
        f"{plain(model.operator)}: {model.name} of {len(model.samples)} samples, "
        f"{error if math.isfinite(model.error) else 'relative error unknown: too few samples to leave some out'}",
        highlight=False,
        soft_wrap=True,
    )
    for one, rate in zip(at or [], predicted, strict=True):
        guess = "" if model.knows(one) else f"; outside what was sampled ({_box(model)}): a guess"
        out.print(f"{told(one)}: {rate:,.0f} records/s{guess}", highlight=False, soft_wrap=True)
    if prices is not None and advice is None:
        out.print("no size serves anything: name others with --at", highlight=False)
    if advice is not None:
        out.print(
            f"cheapest per record: {cores(advice.cpu)}, {advice.memory_mb:g} MiB, "
            f"{advice.per_million_records:.4g} per million records. On Flink: the size of a TaskManager "
            "with one slot, plus what Flink itself needs",
            highlight=False,
            soft_wrap=True,
        )


def _box(model: OperatorModel) -> str:
    low, high = model.sampled
    return f"{low.cpu:g} to {high.cpu:g} cores, {low.memory_mb:g} to {high.memory_mb:g} MiB"


def _advice(model: OperatorModel, at: list[Provision], prices: PriceList) -> SizeAdvice | None:
    from streamtune.provisioning.prices import cheapest_size
    from streamtune.provisioning.sampling.samples import Provision

    sampled = sorted({(one.cpu, one.memory_mb) for one in model.samples})
    among = at or [Provision(cpu=cpu, memory_mb=memory) for cpu, memory in sampled]
    return cheapest_size(among, model.performance(among).tolist(), prices)
