"""``Ahead``: any tuner, made to act before the rate does (QEScalor's controller around StreamTune's belief)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Observation, Plan
from streamtune.forecasts.base import Forecaster
from streamtune.forecasts.series import RateSeries
from streamtune.provisioning.ahead import AheadPlan, plan_ahead
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.settings import AheadSettings
from streamtune.provisioning.shortage import plan_weighed
from streamtune.readings.curves import CapacityCurve
from streamtune.tuners.base import Recommendation, Tuner

Floats = npt.NDArray[np.float64]
# Rates closer than this need the same plan: what is believed about capacities is not known any better.
_ALIKE = 0.02


class Foresight(Protocol):
    """Says how the total rate of a job's sources goes on."""

    @property
    def step_s(self) -> float: ...

    def coming(self, past: RateSeries) -> Floats:
        """Records/s to be ready for in each of the next steps; ``past`` ends now."""
        ...


@runtime_checkable
class Outlook(Protocol):
    """A foresight that also says how sure it is: medians, and the standard deviation of their logarithm."""

    def outlook(self, past: RateSeries) -> tuple[Floats, Floats]: ...


class Foreseen:
    """A forecaster that has learnt from the job's own past, at one level of certainty."""

    def __init__(
        self, forecaster: Forecaster, past: RateSeries, *, horizon: int, levels: Sequence[float], level: float
    ) -> None:
        self.step_s, self._horizon, self._levels, self._level = past.step_s, horizon, tuple(levels), level
        self._forecaster = forecaster
        forecaster.fit(past, horizon, self._levels)

    def at(self, level: float) -> Foreseen:
        """The same forecaster, as certain as this; nothing is learnt again."""
        other = copy(self)
        other._level = level
        return other

    def coming(self, past: RateSeries) -> Floats:
        return np.asarray(self._forecaster.predict(past, self._horizon)[:, self._levels.index(self._level)])

    def outlook(self, past: RateSeries) -> tuple[Floats, Floats]:
        return outlook_of(self._forecaster.predict(past, self._horizon), self._levels)


def outlook_of(quantiles: Floats, levels: Sequence[float]) -> tuple[Floats, Floats]:
    """Median and spread of what ``… × levels`` says: the spread that the highest level has over the middle one.

    >>> median, spread = outlook_of(np.array([[100.0, 120.0]]), (0.5, 0.9))
    >>> median.tolist(), spread.round(3).tolist()
    ([100.0], [0.142])
    """
    middle = min(range(len(levels)), key=lambda place: abs(levels[place] - 0.5))
    highest = max(range(len(levels)), key=lambda place: levels[place])
    median = np.maximum(quantiles[..., middle], 1e-9)
    away = NormalDist().inv_cdf(levels[highest]) - NormalDist().inv_cdf(levels[middle])
    if away <= 0:
        return median, np.zeros_like(median)
    return median, np.log(np.maximum(quantiles[..., highest], median) / median) / away


class Ahead(Tuner):
    """Asks the inner tuner how many instances each coming rate needs, and QCESA when changing pays.

    Every observation adds to the past. The forecast says what is coming, the inner tuner's belief about capacities how
    many instances of each operator that takes, and :func:`plan_ahead` whether to change now, later or not at all.
    Backpressure that is there all the same is answered by the inner tuner at once; what is coming is kept.

    With a price for being short (``PriceList.short_hour``) and a tuner that believes in curves, the forecast's spread,
    what is not known about capacities and what waits are weighed against instances (:mod:`..provisioning.shortage`);
    that price then says how much backpressure to live with, and what was seen in windows of uneven rates binds nobody.

    >>> from streamtune.tuners.ds2 import DS2
    >>> from streamtune.workloads import load
    >>> job = load("nexmark-q1").spec.job
    >>> class Doubles:
    ...     step_s = 300.0
    ...     def coming(self, past):
    ...         return np.full(4, 2 * past.values[-1])
    >>> Ahead(DS2(job), Doubles()).name
    'ahead'
    """

    name = "ahead"

    def __init__(
        self,
        inner: Tuner,
        foresight: Foresight,
        *,
        past: RateSeries | None = None,
        prices: PriceList | None = None,
        settings: AheadSettings | None = None,
    ) -> None:
        super().__init__(inner.job)
        self.inner = inner
        self._foresight = foresight
        self._prices = prices or PriceList()
        largest = inner.job.max_parallelism
        self._settings = (settings or AheadSettings()).replace(largest=largest)
        self._known = [] if past is None else past.values.tolist()
        self._start_s = None if past is None else past.start_s
        self._moments: dict[float, float] = {}
        self._last: tuple[Observation, Plan | None] | None = None  # asked twice about one window, it thinks once
        # What the inner tuner said about rates, until it learns more or something else runs.
        self._said: dict[int, Plan] = {}
        self._said_about: Plan | None = None
        self._is_weighed = False

    def learn(self, observation: Observation) -> None:
        self.inner.learn(observation)
        self._said.clear()
        self._note(observation)

    def _note(self, observation: Observation) -> None:
        self._moments[observation.observed_at.timestamp()] = sum(observation.source_rates.values())

    def is_due(self, observation: Observation) -> bool:
        self._note(observation)
        plan = self._wanted(observation)
        return plan is not None and plan != observation.plan

    def recommend(self, observation: Observation) -> Recommendation:
        wanted = self._wanted(observation)
        if wanted is None:
            return self.inner.recommend(observation)
        if not observation.has_backpressure or self._is_weighed:
            return Recommendation(wanted, self._why(observation.plan, wanted))
        now = self.inner.recommend(observation)
        both = Plan({key: max(now.plan[key], wanted[key]) for key in wanted})
        return Recommendation(both, {**self._why(now.plan, both), **now.why}, now.figures)

    def planned(self, observation: Observation) -> AheadPlan | None:
        """The plan over the whole horizon; None where nothing can be foreseen yet."""
        total = sum(observation.source_rates.values())
        past = self._past()
        if past is None or total <= 0:
            return None
        curves = self._curves(observation)
        self._is_weighed = bool(curves)
        if curves:
            return self._weighed(observation, past, curves)
        running = observation.plan
        if running != self._said_about:
            self._said, self._said_about = {}, running
        capacities = {
            key: _Believed(self.inner, observation, key, self._said)
            for key in running
            if not self.job.dataflow.operator(key).is_source
        }
        rates = self._foresight.coming(past)
        return plan_ahead(rates, capacities, running, self._prices, self._foresight.step_s, self._settings, total)

    def _curves(self, observation: Observation) -> Mapping[str, CapacityCurve]:
        return {} if self._prices.short_hour is None else self.inner.capacity_curves(observation)

    def _weighed(self, observation: Observation, past: RateSeries, curves: Mapping[str, CapacityCurve]) -> AheadPlan:
        """What is cheapest when an hour of being short has a price."""
        foresight, step_s = self._foresight, self._foresight.step_s
        if isinstance(foresight, Outlook):
            rates, spread = foresight.outlook(past)
        else:
            rates = foresight.coming(past)
            spread = np.zeros_like(rates)
        total = sum(observation.source_rates.values())
        lags = (observation.operators[source.id].lag_records or 0.0 for source in self.job.dataflow.sources)
        waiting = sum(lag for lag in lags if math.isfinite(lag)) / step_s
        rates = np.concatenate([rates[:1] + waiting, rates[1:]])
        return plan_weighed(rates, spread, curves, observation.plan, self._prices, step_s, self._settings, total)

    def _wanted(self, observation: Observation) -> Plan | None:
        if self._last is None or self._last[0] is not observation:
            plan = self.planned(observation)
            first = None if plan is None else dict(zip(plan.operators, map(int, plan.counts[0]), strict=True))
            self._last = observation, None if first is None else observation.plan.replace(first)
        return self._last[1]

    def _past(self) -> RateSeries | None:
        """What was known before, and the means of the steps observed since; a step without an observation holds."""
        step_s = self._foresight.step_s
        rates = list(self._known)
        start_s = self._start_s
        if self._moments:
            first = min(self._moments)
            rates += _by_step([(when - first, rate) for when, rate in sorted(self._moments.items())], step_s)
            start_s = first - len(self._known) * step_s if start_s is None else start_s
        return RateSeries(np.array(rates), step_s, start_s or 0.0) if len(rates) >= 2 else None

    @staticmethod
    def _why(running: Plan, wanted: Plan) -> dict[str, str]:
        return {
            key: "what is coming needs no other number"
            if wanted[key] == running[key]
            else "for the rate that is coming"
            for key in wanted
        }


def _by_step(moments: Sequence[tuple[float, float]], step_s: float) -> list[float]:
    """Means per step, a step without any keeps the one before.

    >>> _by_step([(0, 4.0), (30, 6.0), (180, 9.0)], 60)
    [5.0, 5.0, 5.0, 9.0]
    """
    steps: dict[int, list[float]] = {}
    for when, rate in moments:
        steps.setdefault(round(when / step_s - 1e-9) if step_s else 0, []).append(rate)
    values: list[float] = []
    for step in range(max(steps) + 1):
        values.append(sum(steps[step]) / len(steps[step]) if step in steps else values[-1])
    return values


class _Believed:
    """What the inner tuner believes about one operator: the instances it would choose at a rate of the whole job."""

    def __init__(self, tuner: Tuner, observation: Observation, operator: str, said: dict[int, Plan]) -> None:
        self._tuner, self._observation, self._operator, self._said = tuner, observation, operator, said

    def instances_for(self, rate_per_s: float) -> int:
        step = math.ceil(math.log(max(rate_per_s, 1e-9)) / _ALIKE - 1e-9)
        if step not in self._said:
            self._said[step] = self._tuner.plan_at(self._observation, self._rates(math.exp(step * _ALIKE)))
        return self._said[step][self._operator]

    def _rates(self, total: float) -> Mapping[str, float]:
        """So much in all, dealt out as now."""
        now = self._observation.source_rates
        return {key: rate * total / sum(now.values()) for key, rate in now.items()}
