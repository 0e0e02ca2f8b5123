"""What can be set about the workloads that are scaled to one machine."""

from __future__ import annotations

from pydantic import Field

from streamtune.settings import Settings

# Structures that ZeroTune's models are trained on, and the parameters of Table III that can be drawn unseen.
SEEN_STRUCTURES = ("linear", "2-way-join", "3-way-join")
STRUCTURES = (
    *(*SEEN_STRUCTURES, "2-chained-filters", "3-chained-filters", "4-chained-filters"),
    *("4-way-join", "5-way-join", "6-way-join", "spike-detection", "smart-grid-local", "smart-grid-global"),
)
PARAMETERS = ("tuple_width", "event_rate", "window_duration", "window_length", "workers", "hosts")


class TimelyScale(Settings):
    """What fits the machine."""

    records_per_s: float = Field(default=4000.0, gt=0, description="records/s over all operators, at 10·W_u")
    workers: int = Field(default=8, ge=1, description="what the heaviest operator needs at 10·W_u, about")
    window_factor: float = Field(default=0.2, gt=0, description="by what the lengths of windows are multiplied")
    max_parallelism: int = Field(default=16, ge=1, description="most instances of an operator")
