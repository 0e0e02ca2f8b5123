"""``streamtune provision``: samples, models and plans of instances with different CPU and memory (QEScalor)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from streamtune.cli.output import err, out, print_json

if TYPE_CHECKING:
    from streamtune.provisioning.plans import ProvisionPlan

app = typer.Typer(
    name="provision",
    help="QEScalor: how much CPU and memory per instance, and the cheapest plan over the coming epochs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


@app.command()
def plan(
    problem: Annotated[Path, typer.Argument(help="Problem file: sizes, start_cost, stop_cost, workload, initial.")],
    method: Annotated[str, typer.Option(help="exact, qcesa (the paper's), cba:SIZE (one size) or peak.")] = "exact",
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Time to spend at most; default 8, or 50 above 2,000 epochs × sizes.")
    ] = None,
    gap: Annotated[float, typer.Option(min=0, max=1, help="Stop early at this proven gap.")] = 0.001,
    seed: Annotated[int, typer.Option(min=0, help="Draws the order of the search.")] = 0,
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
    from streamtune.provisioning.exact import SolverSettings
    from streamtune.provisioning.methods import compile_kernels, plan_by
    from streamtune.provisioning.problem import load_problem

    wanted = load_problem(problem)
    compile_kernels()
    found = plan_by(method, wanted, SolverSettings(seconds=seconds, gap=min(gap, 0.999), seed=seed))
    if as_json:
        print_json(found.as_dict())
    else:
        print_plan(found)


def print_plan(found: ProvisionPlan) -> None:
    """The plan as runs of equal epochs, with its costs and what is proven."""
    answer: dict[str, Any] = found.as_dict()
    proof = "optimal" if answer["optimal"] else f"at most {100 * answer['gap']:.2f} % above the optimum"
    out.print(
        f"{escape(found.method)}: cost {answer['cost']:,.6g}, {proof}, found in {answer['seconds']:.2f} s",
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
        table.add_column(escape(name), justify="right")
    begin = 0
    for epoch in range(1, len(answer["plan"]) + 1):
        if epoch == len(answer["plan"]) or answer["plan"][epoch] != answer["plan"][begin]:
            span = f"{begin}" if epoch == begin + 1 else f"{begin} to {epoch - 1}"
            table.add_row(span, *(f"{answer['plan'][begin][name]:,}" for name in used))
            begin = epoch
    out.print(table)
    if not used:
        err.print("nothing has to run: the workload is 0 in every epoch", style="dim")


@app.callback()
def _group() -> None:
    """Keeps ``plan`` a subcommand, however many there are."""
