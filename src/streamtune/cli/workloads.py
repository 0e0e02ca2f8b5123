"""``streamtune workloads``: look at the jobs that come with StreamTune, and write them out as job specs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.output import operator_table, out, print_json, styled
from streamtune.errors import StreamTuneError
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.dataflow import Operator, Window
    from streamtune.workloads import Workload

app = typer.Typer(
    name="workloads",
    help="The jobs that come with StreamTune: Nexmark, PQP and random ones.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SeedOption = Annotated[
    int, typer.Option(min=0, max=LARGEST_SEED, help="Draws what a workload's definition leaves open.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


@app.command("list")
def list_workloads(
    template: Annotated[
        str | None, typer.Option(help="Only this one: nexmark, pqp-linear, pqp-2way or pqp-3way.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """List all workloads with their operators, rate unit W_u and the parallelism they need at 10·W_u.

    \b
    Examples:
      streamtune workloads list
      streamtune workloads list --template pqp-2way --json
    """
    from streamtune import workloads

    found = [workloads.load(name, seed) for name in workloads.names()]
    templates = list(dict.fromkeys(workload.template for workload in found))
    if template is not None and template not in templates:
        raise StreamTuneError(f"--template must be one of {', '.join(templates)}, but got '{template}'")
    chosen = [workload for workload in found if template in (None, workload.template)]
    if as_json:
        print_json([_summary(workload) for workload in chosen])
    else:
        out.print(_list_table(chosen))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A name from 'workloads list', or random-<seed>.")],
    multiple: Annotated[
        float | None, typer.Option(min=0, help="Source rates in multiples of W_u.", show_default="10, the peak")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Show one workload: its operators, their hidden physics, and what each needs at a source rate.

    \b
    Examples:
      streamtune workloads show nexmark-q5
      streamtune workloads show random-17 --multiple 5 --json
    """
    from streamtune import workloads
    from streamtune.workloads.workload import PEAK_MULTIPLE

    workload, multiple = workloads.load(name, seed), PEAK_MULTIPLE if multiple is None else multiple
    if as_json:
        print_json(
            {
                **_summary(workload),
                "multiple": multiple,
                "input_rates": workload.input_rates_at(multiple),
                "needs": workload.needs_at(multiple),
                "spec": workload.spec.to_mapping(),
            }
        )
    else:
        out.print(_operators_table(workload, multiple))


@app.command()
def export(
    to: Annotated[Path, typer.Option("--out", help="Folder for the specs; created if missing.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names from 'workloads list', or random-<seed>.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Export every workload of the list.")] = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Write workloads as job specs, NAME.yaml each, with nominal rates of 1·W_u.

    \b
    Examples:
      streamtune workloads export nexmark-q5 random-17 --out jobs
      streamtune workloads export --all --out jobs --json
    """
    from streamtune import workloads
    from streamtune.outputs import write_whole

    if everything == bool(names):
        raise StreamTuneError("give either names of workloads, or --all for every one of them")
    # Load all before anything is written: an unknown name leaves no half-made export behind.
    chosen = [workloads.load(name, seed) for name in names or workloads.names()]
    written = {workload.name: to / f"{workload.name}.yaml" for workload in chosen}
    try:
        to.mkdir(parents=True, exist_ok=True)
        for workload in chosen:
            write_whole(written[workload.name], workload.spec.to_yaml())
    except OSError as error:
        raise StreamTuneError(f"cannot write to '{to}': {error.strerror}. Choose another folder for --out") from error
    if as_json:
        print_json({name: str(path) for name, path in written.items()})
    else:
        for path in written.values():
            out.print(path, highlight=False, soft_wrap=True)


def _summary(workload: Workload) -> dict[str, Any]:
    from streamtune.workloads.workload import PEAK_MULTIPLE

    return {
        "name": workload.name,
        "template": workload.template,
        "operators": len(workload.spec.job.dataflow.operators),
        "units": dict(workload.units),
        "peak_needs": workload.needs_at(PEAK_MULTIPLE),
    }


def _list_table(workloads: list[Workload]) -> Table:
    table = Table(title=f"{len(workloads)} workloads")
    table.add_column("name", style="bold", overflow="fold", min_width=12)
    table.add_column("template")
    table.add_column("operators", justify="right")
    table.add_column("W_u, records/s")
    table.add_column("needs at 10·W_u", justify="right")
    for workload in workloads:
        summary = _summary(workload)
        units = ", ".join(f"{source} {unit:,.0f}" for source, unit in workload.units.items())
        total = sum(need or 0 for need in summary["peak_needs"].values())
        table.add_row(workload.name, workload.template, str(summary["operators"]), units, str(total))
    return table


def _operators_table(workload: Workload, multiple: float) -> Table:
    flow, rates, needs = workload.spec.job.dataflow, workload.input_rates_at(multiple), workload.needs_at(multiple)
    title = f"{workload.name} ({workload.template}) at {multiple:g}·W_u"
    table = operator_table(title, "features", "µs/record", "out/in", "in/s", "needs")
    for operator in flow.operators:
        physics, need = workload.physics[operator.id], needs[operator.id]
        table.add_row(
            styled((operator.id, "bold"), *((f"\n← {one}", "dim") for one in flow.predecessors(operator.id))),
            _features(operator),
            f"{physics.service_us:g}",
            f"{physics.selectivity:g}",
            f"{rates[operator.id]:,.0f}",
            f"more than {workload.spec.job.limit_of(operator.id)}" if need is None else str(need),
        )
    return table


def _features(operator: Operator) -> str:
    parts = [operator.type]
    if operator.window is not None:
        parts.append(_window(operator.window))
    if operator.aggregate is not None:
        parts.append(f"{operator.aggregate.function} per {operator.aggregate.key_class or 'all'}")
    if operator.join is not None:
        parts.append(f"on {operator.join.key_class}")
    if operator.parallelism is not None:
        parts.append(f"parallelism {operator.parallelism}")
    if operator.tuple_type is not None:
        parts.append(f"{operator.tuple_type} tuples")
    return ", ".join(parts)


def _window(window: Window) -> str:
    unit = " s" if window.policy == "time" else " tuples"
    slide = "" if window.slide is None else f" by {window.slide:g}"
    return f"{window.type} {window.length:g}{slide}{unit}"
