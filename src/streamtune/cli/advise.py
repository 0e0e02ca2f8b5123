"""``streamtune advise``: the plan to start a new job with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import operator_table, out, print_json
from streamtune.cli.predict import CostModelOption, HostsOption, SelectivityOption, print_outside
from streamtune.cli.simulate import JobArgument, JsonOption, RateOption
from streamtune.models.costmodel.settings import AdviceSettings
from streamtune.outputs import check_picture


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
    plot: Annotated[Path | None, typer.Option(help="Draw the trade-off to this file (PNG or SVG).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the plan a new job shall start with: least predicted cost of latency, throughput and resources.

    \b
    Examples:
      streamtune advise job.yaml --cost-model costmodel --hosts 4xm510 --plot trade-off.png
      streamtune advise nexmark-q5 --cost-model costmodel --rate 10x --resources 0 --json
    """
    from streamtune.cli.arguments import find_job, parse_rates, parse_selectivities
    from streamtune.cli.hosts import parse_hosts
    from streamtune.models.names import check_cost_model

    spec = find_job(job)
    settings = resolved(
        AdviceSettings, latency_weight=weight, resource_weight=resources, candidates=candidates, seed=seed
    )
    rates, selectivities = parse_rates(rate, spec.job), parse_selectivities(selectivity, spec.job)
    given = parse_hosts(hosts) if hosts is not None else None
    check_cost_model(cost_model)
    if plot is not None:
        check_picture(plot)
    from streamtune.models.costmodel.advice import advise as choose
    from streamtune.models.costmodel.model import CostModel

    model = CostModel.load(cost_model)
    cluster = given or model.encoder.usual_cluster
    initial = spec.job.initial_plan
    advice = choose(
        model,
        spec.job,
        cluster,
        settings,
        rates=rates,
        selectivities=selectivities,
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
    title = f"plan for {spec.job.name}: the best of {len(advice.costs)} (seed {settings.seed})"
    table = operator_table(title, "type", "parallelism")
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
