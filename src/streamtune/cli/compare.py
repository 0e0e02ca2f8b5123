"""``streamtune compare``: several tuners on the same job under the same rates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from streamtune.cli.options import current_config
from streamtune.cli.output import err, out, print_json
from streamtune.cli.simulate import BiasOption, JobArgument, JsonOption, NoiseOption
from streamtune.cli.tune import tuner_settings
from streamtune.cli.tune_options import CostModelOption, ModelOption
from streamtune.control.guards import Guards
from streamtune.engines.simulator.settings import SimulatorWindow
from streamtune.outputs import check_outputs
from streamtune.settings import LARGEST_SEED

if TYPE_CHECKING:
    from streamtune.control.story import TuningStory


def compare(
    job: JobArgument,
    tuners: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    model: ModelOption = None,
    cost_model: CostModelOption = None,
    rates: Annotated[
        str, typer.Option(help="pattern (120 changes), cycle (ten rates), or a YAML/JSON list.")
    ] = "cycle",
    changes: Annotated[int | None, typer.Option(help="Only the first N changes.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of all randomness.", min=0, max=LARGEST_SEED)] = 0,
    bias: BiasOption = None,
    noise: NoiseOption = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run tuners on the same job under the same rates on the simulator, and set them side by side with the oracle.

    All get the same observations. As in 'tune' on the simulator, the Flink autoscaler scales down without its usual
    hour of waiting, unless tuners.flink-autoscaler in the config file says how long to wait.

    \b
    Examples:
      streamtune compare nexmark-q5 --model model
      streamtune compare pqp-3way-0 --tuners streamtune,ds2,conttune --model model --rates pattern --report report.html
    """
    from streamtune.cli.arguments import find_job, parse_rate_changes, simulator_settings
    from streamtune.models.names import check_cost_model, check_model
    from streamtune.tuners import (
        NEED_A_COST_MODEL,
        NEED_A_MODEL,
        check_tuner,
        make_tuner,
        tuner_names,
    )

    spec = find_job(job)
    lacking = {*(NEED_A_MODEL if model is None else ()), *(NEED_A_COST_MODEL if cost_model is None else ())}
    everyone = [name for name in tuner_names() if name not in lacking]
    chosen = everyone if tuners == "all" else [name.strip() for name in tuners.split(",")]
    for name in chosen:
        check_tuner(name, has_model=model is not None, has_cost_model=cost_model is not None)
    wanted = parse_rate_changes(rates, spec.job, seed)[:changes]
    check_model(model)
    check_cost_model(cost_model)
    check_outputs((("--report", report),))
    settings = simulator_settings(bias, noise)
    from streamtune.labs.simulator import tune_on_simulator
    from streamtune.reports.report import write_report

    stories, config = [], current_config()
    with err.status("starting") as status:
        for name in chosen:
            status.update(f"{name}: {len(wanted)} changes of rates on {spec.job.name}")
            stories.append(
                tune_on_simulator(
                    spec,
                    partial(
                        make_tuner, name, model=model, cost_model=cost_model, settings=tuner_settings(name, "simulator")
                    ),
                    wanted,
                    seed=seed,
                    settings=settings,
                    guards=config.settings(Guards),
                    window=config.settings(SimulatorWindow),
                )
            )
    if report is not None:
        write_report(
            report, stories, title=f"{spec.job.name} under several tuners", command=f"streamtune compare {job}"
        )
    if as_json:
        print_json([story.summary() for story in stories])
        return
    print_stories(f"{spec.job.name}: {len(wanted)} changes of rates (seed {seed})", stories)
    if report is not None:
        out.print(f"report: {report}", highlight=False, soft_wrap=True)


def print_stories(title: str, stories: Sequence[TuningStory]) -> None:
    """One line per story."""
    table = Table(title=title)
    for heading in ("job", "tuner", "restarts / change", "ended with backpressure", "total / oracle"):
        table.add_column(heading, justify="left" if heading in ("job", "tuner") else "right")
    for story in stories:
        table.add_row(
            story.job,
            story.tuner,
            f"{story.reconfigurations_per_change:.2f}",
            f"{story.backpressure_after_tuning} of {len(story.changes)}",
            "–" if story.over_oracle is None else f"{story.over_oracle:.3f}",
        )
    out.print(table)
