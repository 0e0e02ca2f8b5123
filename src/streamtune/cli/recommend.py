"""``streamtune recommend``: what StreamTune would choose and why, without deploying anything."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtune.cli.options import resolved, setting
from streamtune.cli.output import err, operator_table, out, print_json
from streamtune.cli.simulate import JobArgument, JsonOption, RateOption
from streamtune.cli.tune_options import ModelOption, StateOption
from streamtune.engines.simulator.settings import SimulatorWindow
from streamtune.errors import StreamTuneError
from streamtune.outputs import check_outputs, check_picture
from streamtune.settings import LARGEST_SEED
from streamtune.tuners.streamtune.settings import StreamTuneSettings

if TYPE_CHECKING:
    from streamtune.tuners import Recommendation
    from streamtune.tuners.streamtune import Verdict

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 24


def recommend(
    job: JobArgument,
    model: ModelOption = None,
    state: StateOption = None,
    rate: RateOption = None,
    observe: Annotated[
        str | None,
        typer.Option(
            help="Look at the job once on the simulator under this plan first: one number for all, or operator=number,…"
        ),
    ] = None,
    quantile: Annotated[
        float | None, setting(StreamTuneSettings, "quantile", help="How sure to be that an operator keeps up.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With --observe: seed of the simulator; 0 by default.", min=0, max=LARGEST_SEED)
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the probability curves into this file (PNG or SVG).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show for every operator the probability of keeping up over its parallelism, and why a number was chosen.

    Nothing is deployed. What is known comes from the model (past jobs), the state file (this job's own past), and
    --observe (one look on the simulator).

    \b
    Examples:
      streamtune recommend nexmark-q5 --model model --rate 10x
      streamtune recommend job.yaml --model model --observe 4 --rate 10x --plot curves.png
      streamtune recommend job.yaml --state tuning.db --json
    """
    from streamtune.cli.arguments import find_job, parse_plan, parse_rates, simulator_settings
    from streamtune.models.names import check_model

    if seed is not None and observe is None:
        raise StreamTuneError(f"--seed is the simulator's, which only --observe asks, but got {seed}: leave it out")
    spec = find_job(job)
    rates = parse_rates(rate, spec.job)
    plan = None if observe is None else parse_plan(observe, spec.job)
    if plan is not None and spec.physics is None:
        raise StreamTuneError(
            f"job '{spec.job.name}' has no physics, so the simulator cannot run it: add physics to the spec, "
            "or leave --observe out"
        )
    settings = resolved(StreamTuneSettings, quantile=quantile)
    check_model(model)
    check_outputs((("--plot", plot), ("--state", state)))
    if plot is not None:
        check_picture(plot)
    from streamtune.dataflow import Observation
    from streamtune.engines.simulator import simulate_once
    from streamtune.tuners import Memory, StreamTune, load_model

    tuner = StreamTune(
        spec.job,
        settings,
        model=None if model is None else load_model(model, spec.job),
        memory=None if state is None else Memory(state, spec.job),
    )
    seen = Observation(observed_at=datetime.now(UTC), window_s=1.0, source_rates=rates, operators={})
    if plan is not None:
        seen = simulate_once(
            spec.job,
            spec.physics or {},
            plan,
            rates,
            window=resolved(SimulatorWindow),
            settings=simulator_settings(None, None),
            seed=seed or 0,
        )
        tuner.learn(seen)
    if model is None and state is None and observe is None:
        err.print("nothing is known of this job: give --model, --state or --observe", style="yellow")
    found, verdicts = tuner.recommend(seen), tuner.verdicts(seen)
    if plot is not None:
        _draw(plot, found, verdicts)
    if as_json:
        print_json(_record(spec.job.name, rates, found, verdicts))
        return
    table = operator_table(
        f"{spec.job.name}: nothing is deployed",
        "p",
        f"keeps up with, p = 1 … {spec.job.max_parallelism}",
        "sure",
        "why",
    )
    for key in spec.job.dataflow.index:
        degree = found.plan[key]
        verdict = verdicts.get(key)
        curve = "" if verdict is None else _curve(verdict)
        sure = "" if verdict is None else f"{verdict.safe[degree - 1]:.0%}"
        table.add_row(key, str(degree), curve, sure, found.why[key])
    out.print(table)
    out.print(f"total parallelism {found.plan.total}", highlight=False)


def _curve(verdict: Verdict) -> str:
    """The probability over p on a logarithmic axis, as text."""
    import numpy as np

    places = np.unique(np.geomspace(1, len(verdict.safe), _COLUMNS).round().astype(int))
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(verdict.safe[p - 1] * len(_BLOCKS)))] for p in places)


def _record(name: str, rates: dict[str, float], found: Recommendation, verdicts: dict[str, Verdict]) -> dict[str, Any]:
    operators = {
        key: {
            "parallelism": degree,
            "why": found.why[key],
            **({"keeps_up": [round(float(p), 4) for p in verdicts[key].safe]} if key in verdicts else {}),
        }
        for key, degree in found.plan.items()
    }
    return {"job": name, "rates": rates, "total_parallelism": found.plan.total, "operators": operators}


def _draw(path: Path, found: Recommendation, verdicts: dict[str, Verdict]) -> None:
    from streamtune.reports.verdict_picture import draw_verdicts

    draw_verdicts(path, found.plan, verdicts)
    err.print(f"picture: {path}", highlight=False, soft_wrap=True)
