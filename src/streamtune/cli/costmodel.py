"""``streamtune costmodel``: labelled plans, training, fine-tuning, and a look at a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.history import Conf, JsonOption, Location, Master, TableFormat, open_history
from streamtune.cli.options import changed, resolved, setting
from streamtune.cli.output import err, out, print_json
from streamtune.errors import StreamTuneError
from streamtune.labs.settings import Enumeration, PlanDataSettings
from streamtune.models.costmodel.settings import (
    CostModelSettings,
    CostNetworkSettings,
    CostTrainingSettings,
    FineTuneSettings,
    Readout,
)
from streamtune.models.names import check_cost_model
from streamtune.sealed import check_target

app = typer.Typer(
    name="costmodel",
    help="ZeroTune: models that predict latency and throughput of plans before they run.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command()
def generate(
    location: Location,
    plans: Annotated[int | None, setting(PlanDataSettings, "plans")] = None,
    enumeration: Annotated[Enumeration | None, setting(PlanDataSettings, "enumeration")] = None,
    structures: Annotated[
        str | None, setting(PlanDataSettings, "structures", help="Structures, in turn; with commas.")
    ] = None,
    ranges: Annotated[str | None, setting(PlanDataSettings, "ranges")] = None,
    first: Annotated[int | None, setting(PlanDataSettings, "first")] = None,
    seed: Annotated[int | None, setting(PlanDataSettings, "seed")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Draw queries from ZeroTune's Table III, enumerate plans, run them on simulated hosts, and store the results.

    \b
    Examples:
      streamtune costmodel generate my-plans --plans 24000
      streamtune costmodel generate my-plans --enumeration random --plans 6000
    """
    settings = resolved(
        PlanDataSettings,
        plans=plans,
        enumeration=enumeration,
        structures=None if structures is None else tuple(part.strip() for part in structures.split(",")),
        ranges=ranges,
        first=first,
        seed=seed,
    )
    with open_history(location, spark_master, spark_conf, table_format, must_exist=False) as history:
        from streamtune.labs.cost_plans import generate_plans

        rows = generate_plans(history, settings)
    if as_json:
        print_json({"location": location, "plans": rows, "seed": settings.seed})
    else:
        out.print(f"{rows:,} labelled plans in {location} (seed {settings.seed})", highlight=False, soft_wrap=True)


@app.command()
def train(
    location: Location,
    model: Annotated[Path, typer.Option("--out", help="Folder of the model to write.")],
    engine: Annotated[
        str | None, typer.Option(help="Learn from the runs of this engine in the history, not from generated plans.")
    ] = None,
    enumeration: Annotated[Enumeration | None, typer.Option(help="Only plans enumerated like this.")] = None,
    members: Annotated[int | None, setting(CostModelSettings, "members")] = None,
    epochs: Annotated[int | None, setting(CostTrainingSettings, "epochs")] = None,
    width: Annotated[int | None, setting(CostNetworkSettings, "width")] = None,
    readout: Annotated[Readout | None, setting(CostNetworkSettings, "readout")] = None,
    seed: Annotated[int | None, setting(CostTrainingSettings, "seed", help="Of weights, order and dropout.")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Train a cost model, one Spark task per network: 80 % of the queries to learn from, 10 % to stop by, 10 % to test.

    \b
    Examples:
      streamtune costmodel train my-plans --out costmodel
      streamtune costmodel train my-history --engine timely --out timely-costmodel
    """
    settings = resolved(CostModelSettings, members=members)
    network = changed(settings.training.network, width=width, readout=readout)
    settings = settings.replace(training=changed(settings.training, network=network, epochs=epochs, seed=seed))
    if enumeration is not None and engine is not None:
        raise StreamTuneError(f"--enumeration is of generated plans, but got --engine {engine}: leave one out")
    check_target(model, "cost model")
    with open_history(location, spark_master, spark_conf, table_format) as history:
        from streamtune.labs.cost_runs import calibrated_optisample
        from streamtune.training.costmodel import optisample_of_history, plans_of_history, train_on_spark

        if engine is None:
            optisample = calibrated_optisample(settings.training.seed)
        else:
            rows = plans_of_history(history, engine)
            optisample = optisample_of_history(history, engine)
            err.print(f"{rows:,} runs of {engine} have latency and throughput", style="dim", highlight=False)
        notes = train_on_spark(
            history,
            model,
            settings_json=settings.model_dump_json(),
            enumeration=enumeration,
            optisample=optisample,
            progress=lambda message: err.print(message, style="dim", highlight=False),
        )
    _print(model, notes, as_json)


@app.command("fine-tune")
def fine_tune(
    model: Annotated[Path, typer.Argument(metavar="COST_MODEL", help="Folder of a trained cost model.")],
    plans: Annotated[str, typer.Option("--plans", help="Where 'streamtune costmodel generate' put the plans.")],
    target: Annotated[Path, typer.Option("--out", help="Folder of the model to write.")],
    shots: Annotated[int | None, setting(FineTuneSettings, "shots")] = None,
    epochs: Annotated[int | None, setting(FineTuneSettings, "epochs")] = None,
    spark_master: Master = None,
    spark_conf: Conf = None,
    table_format: TableFormat = None,
    as_json: JsonOption = False,
) -> None:
    """Few-shot learning: go on training a model on a few runs of what is new to it.

    \b
    Examples:
      streamtune costmodel generate joins --structures 4-way-join,5-way-join,6-way-join --plans 500 --first 3000000
      streamtune costmodel fine-tune costmodel --plans joins --out costmodel-joins
    """
    settings = resolved(FineTuneSettings, shots=shots, epochs=epochs)
    check_cost_model(model)
    check_target(target, "cost model")
    with open_history(plans, spark_master, spark_conf, table_format) as history:
        from streamtune.training.costmodel import stored_plans

        table = stored_plans(history, settings.shots)
    from streamtune.models.costmodel.datasets import plans_of
    from streamtune.models.costmodel.model import CostModel

    tuned = CostModel.load(model).fine_tune(
        plans_of(table),
        settings,
        progress=lambda message: err.print(message, style="dim", highlight=False),
    )
    tuned.save(target)
    _print(target, dict(tuned.notes), as_json)


@app.command()
def show(
    model: Annotated[Path, typer.Argument(metavar="COST_MODEL", help="Folder of a trained cost model.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a model was trained on and how well it did; checks every file first.

    \b
    Examples:
      streamtune costmodel show costmodel
    """
    check_cost_model(model)
    from streamtune.models.costmodel.model import CostModel

    _print(model, dict(CostModel.load(model).notes), as_json)


def _print(model: Path, notes: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json({"model": str(model), **notes})
        return
    table = Table(title=f"cost model of {notes['plans']:,} plans of {notes['queries']:,} queries")
    for heading in ("part", "plans", "latency q-error 50 / 95 %", "throughput q-error 50 / 95 %"):
        table.add_column(heading, justify="left" if heading == "part" else "right")
    for part in ("validation", "test"):
        if part in notes:
            latency, throughput = notes[part]["latency"], notes[part]["throughput"]
            table.add_row(
                part,
                f"{latency['plans']:,.0f}",
                f"{latency['median']:.2f} / {latency['p95']:.2f}",
                f"{throughput['median']:.2f} / {throughput['p95']:.2f}",
            )
    out.print(table)
    out.print(f"model: {model}", highlight=False, soft_wrap=True)
