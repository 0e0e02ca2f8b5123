"""``streamtune predict``: what a plan will do, before it first runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from streamtune.cli.hosts import HOSTS_HELP
from streamtune.cli.output import err, out, print_json
from streamtune.cli.simulate import JobArgument, JsonOption, RateOption

CostModelOption = Annotated[
    Path, typer.Option("--cost-model", help="A cost model: a folder that 'streamtune costmodel train' wrote.")
]
HostsOption = Annotated[str | None, typer.Option("--hosts", help=HOSTS_HELP)]
SelectivityOption = Annotated[
    str | None, typer.Option("--selectivity", help="Known selectivities, operator=number,…; others are estimated.")
]


def predict(
    job: JobArgument,
    cost_model: CostModelOption,
    plan: Annotated[
        list[str] | None,
        typer.Option("--plan", help="Parallelism: one number, operator=number,…, or a file; may be repeated."),
    ] = None,
    hosts: HostsOption = None,
    rate: RateOption = None,
    selectivity: SelectivityOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict latency and throughput of plans that never ran, with the ensemble's spread.

    A spread of 1.2 means that the networks agree within a factor of 1.2; what lies outside the training range is named.

    \b
    Examples:
      streamtune predict job.yaml --cost-model costmodel --plan 8 --hosts 4xm510
      streamtune predict nexmark-q5 --cost-model costmodel --plan 4 --plan hot_items=12,sink=2 --rate 10x --json
    """
    from streamtune.cli.arguments import find_job, parse_plan, parse_rates, parse_selectivities
    from streamtune.cli.hosts import parse_hosts
    from streamtune.models.names import check_cost_model

    spec = find_job(job)
    plans = [parse_plan(text, spec.job) for text in plan or ()] or [spec.job.initial_plan]
    rates, known = parse_rates(rate, spec.job), parse_selectivities(selectivity, spec.job)
    given = parse_hosts(hosts) if hosts is not None else None
    check_cost_model(cost_model)
    from streamtune.models.costmodel.columns import PlanColumns
    from streamtune.models.costmodel.model import CostModel

    model = CostModel.load(cost_model)
    cluster = given or model.encoder.usual_cluster
    for one in plans:
        cluster.check_plan(one)
    degrees = [[one[key] for key in spec.job.dataflow.index] for one in plans]
    columns = PlanColumns.of_plans(spec.job, degrees, cluster, rates=rates, selectivities=known)
    found, outside = model.predict(columns), model.encoder.outside(columns)
    rows: list[dict[str, Any]] = [
        {
            "plan": dict(one),
            "total_parallelism": one.total,
            "latency_ms": float(found.latency_ms[row]),
            "latency_spread": float(found.latency_spread[row]),
            "throughput_per_s": float(found.throughput_per_s[row]),
            "throughput_spread": float(found.throughput_spread[row]),
        }
        for row, one in enumerate(plans)
    ]
    if as_json:
        print_json({"job": spec.job.name, "rates": rates, "cores": cluster.cores, "plans": rows, "outside": outside})
        return
    table = Table(title=f"{spec.job.name} on {len(cluster.hosts)} hosts with {cluster.cores} cores")
    for heading in ("plan", "total p", "latency ms", "spread", "records/s", "spread"):
        table.add_column(heading, justify="left" if heading == "plan" else "right", overflow="fold")
    for row in rows:
        table.add_row(
            ", ".join(f"{key} {degree}" for key, degree in row["plan"].items()),
            str(row["total_parallelism"]),
            f"{row['latency_ms']:,.0f}",
            f"× {row['latency_spread']:.2f}",
            f"{row['throughput_per_s']:,.0f}",
            f"× {row['throughput_spread']:.2f}",
        )
    out.print(table)
    print_outside(outside)


def print_outside(outside: list[str]) -> None:
    """Say where the model extrapolates."""
    for entry in outside:
        err.print(f"outside the training range: {entry}", style="yellow", highlight=False, soft_wrap=True)
