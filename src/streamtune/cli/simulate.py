"""``streamtune simulate`` and ``streamtune oracle``: one look at a job on the simulator."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import operator_table, out, print_json, share, styled
from streamtune.engines.simulator.settings import MeasurementError, SimulatorWindow
from streamtune.settings import LARGEST_SEED

JobArgument = Annotated[str, typer.Argument(help="A job spec (YAML or JSON), or the name of a built-in workload.")]
RateOption = Annotated[
    str | None,
    typer.Option("--rate", help="Source rates: 10x of the nominal ones, one number for all, or source=rate,…"),
]
BiasOption = Annotated[float | None, setting(MeasurementError, "bias_sigma", "--bias")]
NoiseOption = Annotated[float | None, setting(MeasurementError, "noise_sigma", "--noise")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def simulate(
    job: JobArgument,
    plan: Annotated[
        str | None, typer.Option("--plan", help="Parallelism: one number for all, operator=number,…, or a file.")
    ] = None,
    rate: RateOption = None,
    window_s: Annotated[float | None, setting(SimulatorWindow, "length_s", "--window-s", "--window")] = None,
    settle_s: Annotated[float | None, setting(SimulatorWindow, "settle_s", "--settle-s", "--settle")] = None,
    bias: BiasOption = None,
    noise: NoiseOption = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0, max=LARGEST_SEED)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Run a job under a plan on the simulator and show what it reports.

    \b
    Examples:
      streamtune simulate nexmark-q5 --plan 8 --rate 10x
      streamtune simulate job.yaml --plan hot_items=12,sink=2 --rate bids=80000 --json
    """
    from streamtune.cli.arguments import find_job, parse_plan, parse_rates, simulator_settings

    spec = find_job(job)
    rates, chosen = parse_rates(rate, spec.job), parse_plan(plan, spec.job)
    window, settings = resolved(SimulatorWindow, settle_s=settle_s, length_s=window_s), simulator_settings(bias, noise)
    from streamtune.engines.simulator import Simulator

    engine = Simulator.of(spec, settings=settings, seed=seed)
    deployment = engine.deploy(spec.job, chosen)
    engine.set_source_rates(deployment, rates)
    seen = engine.observe(deployment, window)
    if as_json:
        print_json(
            {
                "job": spec.job.name,
                "seed": seed,
                "backpressure": seen.has_backpressure,
                "backpressured": list(seen.backpressured()),
                "total_parallelism": seen.plan.total,
                **seen.model_dump(mode="json"),
            }
        )
        return
    title = f"{spec.job.name} at {', '.join(f'{k} {v:,.0f}/s' for k, v in rates.items())}"
    table = operator_table(title, "type", "p", "in/s", "out/s", "busy", "idle", "blocked")
    for operator in spec.job.dataflow.operators:
        m = seen.operators[operator.id]
        blocked = share(m.backpressured_share)
        table.add_row(
            operator.id,
            operator.type,
            str(m.parallelism),
            f"{m.records_in_per_s:,.0f}",
            f"{m.records_out_per_s:,.0f}",
            share(m.busy_share),
            share(m.idle_ms_per_s / 1000),
            styled((blocked, "red")) if operator.id in seen.backpressured() else blocked,
        )
    out.print(table)
    verdict = ("backpressure", "red") if seen.has_backpressure else ("no backpressure", "green")
    out.print(
        styled(
            verdict,
            f"; {seen.throughput_per_s:,.0f} records/s emitted by the sources, "
            f"mean latency {seen.latency_ms:,.0f} ms, total parallelism {seen.plan.total}",
        ),
        highlight=False,
        soft_wrap=True,
    )


def oracle(
    job: JobArgument,
    rate: RateOption = None,
    tune_sources: Annotated[bool, typer.Option(help="Search sources too instead of keeping theirs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the true minimum parallelism of every operator, by search over the physics. For scoring only.

    \b
    Examples:
      streamtune oracle nexmark-q5 --rate 10x
      streamtune oracle job.yaml --rate bids=80000 --json
    """
    from streamtune.cli.arguments import find_job, parse_rates
    from streamtune.errors import EngineError

    spec = find_job(job)
    if spec.physics is None:
        raise EngineError(f"job '{spec.job.name}' has no physics, so its optimum is not known: add physics to the spec")
    rates = parse_rates(rate, spec.job)
    from streamtune.engines.simulator import find_oracle

    initial = spec.job.initial_plan
    fixed = {} if tune_sources else {source.id: initial[source.id] for source in spec.job.dataflow.sources}
    found = find_oracle(spec.job, spec.physics, rates, fixed=fixed)
    if as_json:
        print_json(
            {
                "job": spec.job.name,
                "rates": rates,
                "plan": dict(found.plan),
                "total_parallelism": found.total,
                "demand_per_s": dict(found.demand_per_s),
                "unreachable": list(found.unreachable),
            }
        )
        return
    table = operator_table(f"least plan of {spec.job.name}", "demand/s", "parallelism")
    for key, degree in found.plan.items():
        note = (" (not enough)", "red") if key in found.unreachable else (" (kept)" if key in fixed else "", "dim")
        table.add_row(styled(key, note), f"{found.demand_per_s[key]:,.0f}", str(degree))
    out.print(table)
    out.print(f"total parallelism {found.total}", highlight=False)
    if found.unreachable:
        out.print(
            f"{', '.join(found.unreachable)} cannot keep up at any allowed parallelism: "
            "raise max_parallelism or lower the rate",
            style="red",
            highlight=False,
            soft_wrap=True,
        )
