"""What can be set about the supervision of jobs."""

from __future__ import annotations

from pydantic import Field

from streamtune.settings import Settings


class SupervisorSettings(Settings):
    """When a tuning process begins, and how often a job may be changed."""

    watch_s: float = Field(
        default=0.0,
        ge=0,
        description="watch a job for so long and tune it whenever there is backpressure or its rates have moved; 0 is "
        "one tuning process",
    )
    max_per_hour: int = Field(default=12, ge=1, description="how often a job may be reconfigured in an hour")
    rate_change: float = Field(
        default=0.1, gt=0, lt=1, description="share by which a source rate must move before the job is tuned again"
    )
