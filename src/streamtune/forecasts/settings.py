"""What can be set about forecasts."""

from __future__ import annotations

from pydantic import Field

from streamtune.settings import Settings


class ForecastSettings(Settings):
    """What to forecast, and how to choose the method."""

    horizon: int = Field(default=96, ge=1, le=100_000, description="steps ahead")
    levels: tuple[float, ...] = Field(default=(0.5, 0.9, 0.99), min_length=1, description="quantiles, rising")
    methods: tuple[str, ...] = Field(
        default=("naive", "seasonal-naive", "anchored-seasonal", "boosting", "mstl"),
        description="the candidates; mstl where statsforecast is installed and the past has two days",
    )
    origins: int = Field(default=24, ge=1, description="points of the past to forecast from when back-testing")
    slow_origins: int = Field(
        default=4,
        ge=1,
        description="as many for a method that is fitted anew at each (mstl, about 0.5 s a forecast): on these it has "
        "to beat the best of the others",
    )
    test_share: float = Field(default=0.25, gt=0, lt=1, description="the latest part of the past, to test on")
