"""How far on the safe side to plan: learnt by living through the latest part of a job's own past.

A plan for a high quantile of the forecast covers more and costs more, and how much of each depends on the job. So the
plans of a few levels are rolled over days that are over, and the cheapest that would have covered enough is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamtune.forecasts.base import Forecaster
from streamtune.forecasts.selection import SLOW
from streamtune.forecasts.series import RateSeries
from streamtune.provisioning.ahead import Capacity, needed_instances, plan_ahead
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.settings import AheadSettings

Floats = npt.NDArray[np.float64]
USUAL = 0.95  # where there is too little past to learn from
_LEAST_EPOCHS, _MOST_EPOCHS = 12, 192  # of the past to live through
_SLOW_EVERY = 6
_HORIZON = 12  # epochs: what lies further ahead hardly moves the first of them


@dataclass(frozen=True)
class LevelTest:
    """What planning for one level would have come to: the share of epochs that were served, and the cost."""

    level: float
    covered: float
    cost: float


@dataclass(frozen=True)
class LearntLevel:
    """The level to plan for, with the tests it was chosen by."""

    level: float
    tests: tuple[LevelTest, ...]
    epochs: int
    wanted: float

    @property
    def covered(self) -> float | None:
        """Of the epochs it was tested on; none where there was no test."""
        return next((test.covered for test in self.tests if test.level == self.level), None)

    def as_dict(self) -> dict[str, Any]:
        tests = [asdict(test) for test in self.tests]
        return {"epochs": self.epochs, "wanted": self.wanted, "tests": tests, "said": self.told()}

    def told(self) -> str:
        """One line for people."""
        if self.covered is None:
            return f"planned for level {self.level:g}: too little past to learn a level from"
        count = f"{100 * self.covered:.1f} % of the last {self.epochs} epochs"
        if self.covered < self.wanted:
            return f"planned for level {self.level:g}: it covered most, {count}; {100 * self.wanted:g} % were wanted"
        return f"planned for level {self.level:g}: the cheapest that covered {100 * self.wanted:g} %, {count}"


def learnt_level(
    series: RateSeries,
    forecaster: Forecaster,
    capacities: Mapping[str, Capacity],
    prices: PriceList,
    settings: AheadSettings,
) -> LearntLevel:
    """The cheapest of ``settings.levels`` that covered ``settings.cover`` of the last quarter, rolled epoch by epoch.

    The forecaster learns from what came before that quarter. Where no level covered enough, the one that covered most.
    """
    first = max(len(series) - len(series) // 4, len(series) - _MOST_EPOCHS)
    epochs = len(series) - first
    if epochs < _LEAST_EPOCHS:
        return LearntLevel(USUAL, (), 0, settings.cover)
    levels = tuple(sorted(settings.levels))
    foreseen = _foreseen(series, first, forecaster, levels)
    remembered = {key: _Remembered(one) for key, one in capacities.items()}
    tests = tuple(
        _rolled(series, first, [one[:, place] for one in foreseen], level, remembered, prices, settings)
        for place, level in enumerate(levels)
    )
    enough = [test for test in tests if test.covered >= settings.cover]
    best = (
        min(enough, key=lambda test: test.cost) if enough else max(tests, key=lambda test: (test.covered, -test.cost))
    )
    return LearntLevel(best.level, tests, epochs, settings.cover)


def _foreseen(series: RateSeries, first: int, forecaster: Forecaster, levels: tuple[float, ...]) -> list[Floats]:
    """What was foreseen in each epoch; what is slow to make is used for a few, each by the quantiles for it."""
    every = _SLOW_EVERY if forecaster.name in SLOW else 1
    forecaster.fit(series.until(first), _HORIZON + every - 1, levels)
    found = []
    for now in range(first, len(series), every):
        ahead = forecaster.predict(series.until(now), _HORIZON + every - 1)
        found += [ahead[age : age + _HORIZON] for age in range(min(every, len(series) - now))]
    return found


def _rolled(
    series: RateSeries,
    first: int,
    foreseen: Sequence[Floats],
    level: float,
    capacities: Mapping[str, Capacity],
    prices: PriceList,
    settings: AheadSettings,
) -> LevelTest:
    """Plan, live through one epoch, look again."""
    actual = series.values[first:]
    needed, _ = needed_instances(actual, capacities, settings.largest)
    start, _ = needed_instances(series.values[first - 1 : first], capacities, settings.largest)
    running = start[0]
    covered, cost = 0, 0.0
    price = prices.instance_per_epoch(series.step_s)
    for epoch, rates in enumerate(foreseen):
        now = dict(zip(capacities, map(int, running), strict=True))
        last = float(series.values[first + epoch - 1])
        counts = plan_ahead(rates, capacities, now, prices, series.step_s, settings, last).counts[0]
        change = counts - running
        if settings.changes == "job":
            turned = prices.change * bool(change.any())
        else:
            turned = prices.start * np.maximum(change, 0).sum() + prices.stop * np.maximum(-change, 0).sum()
        cost += price * float(counts.sum()) + float(turned)
        covered += bool((counts >= needed[epoch]).all())
        running = counts
    return LevelTest(level, covered / len(foreseen), cost)


class _Remembered:
    """A capacity that is asked about each rate once."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._said: dict[float, int] = {}

    def instances_for(self, rate_per_s: float) -> int:
        if rate_per_s not in self._said:
            self._said[rate_per_s] = self._capacity.instances_for(rate_per_s)
        return self._said[rate_per_s]
