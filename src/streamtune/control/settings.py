"""What can be set about the supervision of jobs."""

from __future__ import annotations

import re
from datetime import datetime, time

from pydantic import Field, field_validator

from streamtune.settings import Settings

_PERIOD = re.compile(r"^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$")


class SupervisorSettings(Settings):
    """When a tuning process begins, and how often a job may be changed."""

    watch_s: float = Field(
        default=0.0,
        ge=0,
        description="watch a job for so long and tune it whenever there is backpressure or its rates have moved; 0 is "
        "one tuning process",
    )
    wait_s: float = Field(
        default=5.0, gt=0, description="wait before a watched job is looked at again after it was refused or away"
    )
    max_per_hour: int = Field(default=12, ge=1, description="how often a job may be reconfigured in an hour")
    grace_s: float = Field(
        default=0.0, ge=0, description="so long after a job has grown nothing of it shrinks, as its rates may fall back"
    )
    excluded_periods: tuple[str, ...] = Field(
        default=(), description="times of the day in which nothing is changed, in UTC: 08:00-10:30, 22:00-02:00"
    )
    rate_change: float = Field(
        default=0.1, gt=0, lt=1, description="share by which a source rate must move before the job is tuned again"
    )

    @field_validator("excluded_periods")
    @classmethod
    def _are_periods(cls, periods: tuple[str, ...]) -> tuple[str, ...]:
        for period in periods:
            if _PERIOD.match(period) is None:
                raise ValueError(f"a period is written as 22:00-02:00, but got {period!r}")
        return periods

    def is_excluded(self, now: datetime) -> bool:
        """Whether nothing may be changed at that time."""
        return self.excluding(now) is not None

    def excluding(self, now: datetime) -> str | None:
        """The period in which nothing may be changed at that time; one may go past midnight.

        >>> from datetime import UTC
        >>> SupervisorSettings(excluded_periods=("22:00-02:00",)).excluding(datetime(2026, 1, 1, 23, tzinfo=UTC))
        '22:00-02:00'
        """
        for period in self.excluded_periods:
            found = _PERIOD.match(period)
            assert found is not None
            begin, end = time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
            clock = now.time()
            if begin <= clock < end or (begin > end and (clock >= begin or clock < end)):
                return period
        return None
