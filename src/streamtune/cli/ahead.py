"""``tune --engine flink --forecast``: any tuner, made to act before the rate does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from streamtune.cli.options import current_config
from streamtune.cli.output import err
from streamtune.errors import StreamTuneError
from streamtune.forecasts.series import DAY_S, MOMENTS, RateSeries, read_series

if TYPE_CHECKING:
    from streamtune.dataflow import Job
    from streamtune.provisioning.prices import PriceList
    from streamtune.tuners import Tuner

_HORIZON = 12
_LEVELS = (0.5, 0.9)
# Without a price list an hour of being short is worth some thirteen instance-hours, a change three minutes of it: what
# the days of benchmarks/provisioning.py call the middle of the curve.
_SHORT_HOUR, _CHANGE = 0.6, 0.03
_LONGEST_GAP_S = 7 * DAY_S


@dataclass(frozen=True)
class LookingAhead:
    """What ``--forecast`` and ``--prices`` say, read before anything is touched."""

    past: RateSeries
    prices: PriceList

    @classmethod
    def read(cls, forecast: Path, prices: Path | None) -> LookingAhead:
        from streamtune.provisioning.prices import PriceList, load_prices

        costs = PriceList(short_hour=_SHORT_HOUR, change=_CHANGE) if prices is None else load_prices(prices)
        return cls(read_series(forecast), costs)

    def around(self, make: Callable[[Job], Tuner]) -> Callable[[Job], Tuner]:
        """Makes tuners that look ahead; the forecaster is chosen and fitted once."""
        from streamtune.forecasts.selection import FORECASTERS, choose
        from streamtune.forecasts.settings import ForecastSettings
        from streamtune.provisioning.settings import AheadSettings
        from streamtune.tuners.ahead import Ahead, Foreseen

        past = up_to(self.past, time.time())
        wanted = current_config().settings(ForecastSettings).replace(horizon=_HORIZON, levels=_LEVELS)
        best = choose(past, wanted)[0] if len(past) >= 8 else None
        name = "naive" if best is None else best.method
        error = "unknown: too little past" if best is None else f"{100 * best.error['all']:.0f} %"
        err.print(f"forecast by {name}; error on its own past: {error}", highlight=False, soft_wrap=True)
        foreseen = Foreseen(FORECASTERS[name](), past, horizon=_HORIZON, levels=_LEVELS, level=_LEVELS[-1])
        settings = current_config().settings(AheadSettings)
        if settings.hold_s == 0:  # looks end anywhere in a step: what is offered now may go on for most of one
            settings = settings.replace(hold_s=past.step_s)
        return lambda job: Ahead(make(job), foreseen, past=past, prices=self.prices, settings=settings)


def up_to(past: RateSeries, now_s: float) -> RateSeries:
    """A past that ends now: what came since its end was as a day before, or as its last rate.

    Times that are no moments (seconds from nought) are taken to end now.

    >>> begun = 1.7e9
    >>> up_to(RateSeries(np.array([1.0, 2.0, 3.0]), 60.0, begun), begun + 300).values.tolist()
    [1.0, 2.0, 3.0, 3.0, 3.0]
    >>> up_to(RateSeries(np.array([1.0, 2.0, 3.0]), 60.0), begun).values.tolist()
    [1.0, 2.0, 3.0]
    """
    if past.end_s < MOMENTS:
        return past
    missing = round((now_s - past.end_s) / past.step_s)
    if missing * past.step_s > _LONGEST_GAP_S:
        raise StreamTuneError(
            f"the rates of --forecast end {(now_s - past.end_s) / DAY_S:.0f} days ago: at most "
            f"{_LONGEST_GAP_S / DAY_S:.0f} are bridged. Give newer ones"
        )
    if missing <= 0:
        kept = past.until(len(past) + missing) if len(past) + missing >= 2 else None
        if kept is None:
            raise StreamTuneError("the rates of --forecast lie in the future: give those of the past")
        return kept
    values = past.values.tolist()
    back = past.season or 1
    for _ in range(missing):
        values.append(values[-back])
    return RateSeries(np.array(values), past.step_s, past.start_s, past.held + missing)
