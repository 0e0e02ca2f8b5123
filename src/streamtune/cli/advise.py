"""``streamtune advise``: the plan to start a new job with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import out, print_json
from streamtune.cli.predict import CostModelOption, HostsOption, SelectivityOption, print_outside
from streamtune.cli.simulate import JobArgument, JsonOption, RateOption
from streamtune.models.costmodel.settings import AdviceSettings


def advise(
    job: JobArgument,
    cost_model: CostModelOption,
    hosts: HostsOption = None,
    rate: RateOption = None,
    selectivity: SelectivityOption = None,
    weight: Annotated[
        float | None,
        setting(AdviceSettings, "latency_weight", "--weight", help="wt of Eq. 1: latency (1) against throughput (0)."),
    ] = None,
    resources: Annotated[float | None, setting(AdviceSettings, "resource_weight", "--resources")] = None,
    candidates: Annotated[int | None, setting(AdviceSettings, "candidates")] = None,
    seed: Annotated[int | None, setting(AdviceSettings, "seed")] = None,
    tune_sources: Annotated[bool, typer.Option(help="Choose the parallelism of sources too.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the trade-off to this PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the plan a new job shall start with: least predicted cost of latency, throughput and resources.

    \b
    Examples:
      streamtune advise job.yaml --cost-model costmodel --hosts 4xm510 --plot trade-off.png
      streamtune advise nexmark-q5 --cost-model costmodel --rate 10x --resources 0 --json
    """
    from streamtune.cli.arguments import find_job, make_folder_of, parse_rates, parse_selectivities
    from streamtune.cli.hosts import parse_hosts
    from streamtune.models.costmodel.advice import advise as choose
    from streamtune.models.costmodel.model import CostModel

    spec = find_job(job)
    model = CostModel.load(cost_model)
    cluster = parse_hosts(hosts) if hosts else model.encoder.usual_cluster
    if plot is not None:
        make_folder_of(plot)
    initial = spec.job.initial_plan
    settings = resolved(
        AdviceSettings, latency_weight=weight, resource_weight=resources, candidates=candidates, seed=seed
    )
    advice = choose(
        model,
        spec.job,
        cluster,
        settings,
        rates=parse_rates(rate, spec.job),
        selectivities=parse_selectivities(selectivity, spec.job),
        fixed={} if tune_sources else {source.id: initial[source.id] for source in spec.job.dataflow.sources},
    )
    if plot is not None:
        from streamtune.reports.advice_picture import draw_advice

        draw_advice(advice, spec.job.name, plot)
    if as_json:
        print_json(
            {
                "job": spec.job.name,
                "plan": dict(advice.plan),
                "total_parallelism": advice.plan.total,
                "latency_ms": advice.latency_ms,
                "latency_spread": advice.latency_spread,
                "throughput_per_s": advice.throughput_per_s,
                "throughput_spread": advice.throughput_spread,
                "candidates": len(advice.costs),
                "seed": settings.seed,
                "outside": list(advice.outside),
            }
        )
        return
    table = Table(title=f"plan for {spec.job.name}: the best of {len(advice.costs)} (seed {settings.seed})")
    table.add_column("operator", overflow="fold")
    table.add_column("type", overflow="fold")
    table.add_column("parallelism", justify="right")
    for operator in spec.job.dataflow.operators:
        table.add_row(operator.id, operator.type, str(advice.plan[operator.id]))
    out.print(table)
    out.print(
        f"predicted: {advice.latency_ms:,.0f} ms (× {advice.latency_spread:.2f}), {advice.throughput_per_s:,.0f} "
        f"records/s (× {advice.throughput_spread:.2f}), total parallelism {advice.plan.total}",
        highlight=False,
        soft_wrap=True,
    )
    print_outside(list(advice.outside))
    if plot is not None:
        out.print(f"picture: {plot}", highlight=False, soft_wrap=True)
