"""Options of ``tune`` that other commands have too, or that need more than a line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TUNER_HELP = (
    "Which method decides: streamtune, streamtune-paper, ds2, ds2-calibrated, conttune, flink-autoscaler, dhalion, "
    "greedy or zerotune."
)
ModelOption = Annotated[
    Path | None,
    typer.Option("--model", help="A model bundle ('streamtune pretrain'): what past jobs taught. Without it, nothing."),
]
CostModelOption = Annotated[
    Path | None,
    typer.Option("--cost-model", help="A cost model ('streamtune costmodel train'), which zerotune decides by."),
]
StateOption = Annotated[
    Path | None,
    typer.Option("--state", help="Keep what this job teaches in this file, and go on from it next time."),
]
ForecastOption = Annotated[
    Path | None,
    typer.Option("--forecast", help="flink: act before the rate does, by the job's past rates (CSV)."),
]
PricesOption = Annotated[
    Path | None,
    typer.Option("--prices", help="With --forecast: price list; short_hour says what being short may cost."),
]
BacklogOption = Annotated[
    float | None,
    typer.Option(
        "--backlog-growth",
        min=0.0,
        help="timely: a queue that grows by more than this share of its rate (say 0.03) is a bottleneck too, although "
        "the 85 % rule passes it.",
    ),
]
