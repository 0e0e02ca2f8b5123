"""What can be set about bottleneck labels."""

from __future__ import annotations

from pydantic import Field

from streamtune.dataflow import BACKPRESSURE_SHARE
from streamtune.settings import Settings


class LabelSettings(Settings):
    """The thresholds of the labelling rule."""

    busy_threshold: float = Field(default=0.60, ge=0, le=1, description="T: a busy share above it is a bottleneck's")
    backpressure_share: float = Field(
        default=BACKPRESSURE_SHARE, ge=0, le=1, description="backpressured share above which an operator is held up"
    )
    input_ratio: float = Field(
        default=0.85, gt=0, le=1, description="input over offered rate below which a Timely operator is a bottleneck"
    )
    source_tolerance: float = Field(
        default=0.02, ge=0, lt=1, description="part of its nominal rate that a source may lack before it is blamed"
    )
    backlog_growth_share: float | None = Field(
        default=None,
        gt=0,
        description="growth of an operator's queue over its offered rate above which it is a bottleneck on Timely "
        "although its input ratio passes; none: off",
    )
