"""Our estimator: a belief about the capacity curve of every operator."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from streamtune.dataflow import Job, Observation
from streamtune.models.capacity import CapacityBelief, CapacityPrior
from streamtune.models.capacity.belief import curve_basis
from streamtune.models.transfer.model import OperatorPrior
from streamtune.readings.capacity import Readings, read_capacity
from streamtune.readings.labels import BOTTLENECK, FINE
from streamtune.tuners.streamtune.estimator import NeedEstimator, Situation, Verdict
from streamtune.tuners.streamtune.experience import Lesson
from streamtune.tuners.streamtune.pretrained import Pretrained
from streamtune.tuners.streamtune.settings import StreamTuneSettings

Floats = npt.NDArray[np.float64]

# Reported busy time above this share may have been capped at the whole second.
_CUT_SD = 0.04
# A capacity known to a factor of ten either way is no figure to show: its operator has hardly seen a record.
_HARDLY_KNOWN = 2.5
# What a saturated operator takes is its capacity, whatever the error of busy time.
_SATURATED_SD = 0.03
# Readings that are gone through again when a prior is set aside.
_KEPT_READINGS = 40
# An operator has changed when a reading is off by so much of log capacity (a third) after so many readings.
_CHANGED = 0.3
_SETTLED_READINGS = 5
# An operator that is believed to keep up with this probability counts as promised.
_PROMISE = 0.8


@dataclass
class _Reading:
    """One reading as the belief takes it in: a capacity, or (``at_least``) a rate that was served."""

    parallelism: int
    log_rate: float
    is_saturated: bool = False
    sd: float | None = None
    at_least: bool = False

    def told_to(self, belief: CapacityBelief) -> None:
        if self.at_least:
            belief.see_at_least(self.parallelism, self.log_rate)
        else:
            belief.see(self.parallelism, self.log_rate, is_saturated=self.is_saturated, sd=self.sd)

    def surprise(self, belief: CapacityBelief) -> float:
        """How many standard deviations it is off what was believed."""
        if self.at_least:
            return max(0.0, -belief.distance(self.parallelism, self.log_rate, is_saturated=True, sd=0.02))
        return abs(belief.distance(self.parallelism, self.log_rate, is_saturated=self.is_saturated, sd=self.sd))


@dataclass
class _Believed:
    """The belief about one operator, what it may fall back on, and what it was told."""

    belief: CapacityBelief
    fallbacks: list[CapacityBelief]
    has_prior: bool
    is_taught: bool = False
    readings: list[_Reading] = field(default_factory=list)

    flat: CapacityBelief | None = None
    is_doubtful: bool = False

    def take(self, reading: _Reading, limit: float) -> bool:
        """Learn from a reading; whether the operator is not what it was.

        Where a reading contradicts the past beyond chance, the past is set aside and own readings count anew. Where it
        contradicts own readings, the operator has changed (new code, other data), and what was read before is dropped:
        at once if the operator is saturated, which cannot be a measurement error, otherwise after a second time.
        """
        while self.fallbacks and reading.surprise(self.belief) > limit:
            self.belief = self.fallbacks.pop(0)
            for one in self.readings:
                one.told_to(self.belief)
        has_changed = self._contradicts(reading, limit)
        if has_changed and (reading.is_saturated or self.is_doubtful) and self.flat is not None:
            self.belief, self.readings, self.is_doubtful = self.flat.copy(), [], False
        else:
            self.is_doubtful, has_changed = has_changed, False
        reading.told_to(self.belief)
        self.readings = [*self.readings[1 - _KEPT_READINGS :], reading]
        self.is_taught = True
        return has_changed

    def _contradicts(self, reading: _Reading, limit: float) -> bool:
        if len(self.readings) < _SETTLED_READINGS or reading.at_least or reading.surprise(self.belief) <= limit:
            return False
        believed = float(self.belief.log_capacity(reading.parallelism)[0][0])
        return abs(reading.log_rate - believed) > _CHANGED


class PosteriorEstimator(NeedEstimator):
    """Per operator: what the past lends (type, cluster, relatives, own past), then its own readings.

    Readings are the throughput at saturation, busy shares, and, without either, the mere fact of having kept
    up. Everything is in closed form, so a recommendation takes milliseconds. Models without past operators give
    the curve of the type, and the encoder's threshold for its level.

    A past that misleads must not cost more than one reconfiguration. Beside every belief stands one that own readings
    alone have taught. Once an operator was a bottleneck where the past had promised that it keeps up, both have to be
    sure: from then on the past may add instances, and never save one.
    """

    def __init__(
        self,
        job: Job,
        settings: StreamTuneSettings,
        model: Pretrained | None,
        prior: dict[str, OperatorPrior] | None = None,
    ) -> None:
        self._job = job
        self._settings = settings
        self._model = model
        self._prior = prior or {}
        self._basis = curve_basis(np.arange(1, job.max_parallelism + 1))
        types = model.capacity if model is not None and settings.use_history else CapacityPrior()
        self._believed = {
            operator.id: self._before(operator.id, operator.type, types)
            for operator in job.dataflow.operators
            if settings.tune_sources or not operator.is_source
        }
        self._alone = {
            operator.id: self._unprejudiced(operator.type)
            for operator in job.dataflow.operators
            if model is not None and (settings.tune_sources or not operator.is_source)
        }
        # Their requests are under way while they idle: that they are not busy does not mean that they could take more.
        self._waiting = {operator.id for operator in job.dataflow.operators if operator.type == "async"}
        self._is_doubted = False
        self._changed: set[str] = set()

    def _before(self, key: str, kind: str, types: CapacityPrior) -> _Believed:
        chain = [types.belief(kind), CapacityPrior().belief(kind)]
        lent = self._prior.get(key)
        if lent is not None and lent.is_known:
            chain.insert(0, lent.belief.copy())
        return _Believed(chain[0], chain[1:], has_prior=len(chain) > 2, flat=chain[-1].copy())

    @staticmethod
    def _unprejudiced(kind: str) -> _Believed:
        belief = CapacityPrior().belief(kind)
        return _Believed(belief, [], has_prior=False, flat=belief.copy())

    @property
    def keys(self) -> list[str]:
        """The operators it judges, in the order of the dataflow: the rows of ``curves``."""
        return list(self._believed)

    def belief(self, key: str) -> CapacityBelief:
        return self._believed[key].belief

    def learn(self, lesson: Lesson, situation: Situation) -> None:
        keys = [key for key in self._believed if key in lesson.observation.operators]
        self._is_doubted = self._is_doubted or self._is_broken(lesson, situation)
        found = _read(lesson, keys)
        for place, key in enumerate(keys):
            for believed in (self._believed[key], self._alone.get(key)):
                if believed is None:
                    continue
                believed.belief.drift(self._settings.drift_sd)
                demand = situation.demand[key]
                reading = self._reading(lesson, key, found, place, believed.belief.noise_sd, demand)
                for one in (reading, self._least(lesson, key, found, place, demand)):
                    if one is not None and believed.take(one, self._settings.surprise):
                        self._changed.add(key)

    def taken_changes(self) -> frozenset[str]:
        changed = frozenset(self._changed)
        self._changed.clear()
        return changed

    def _is_broken(self, lesson: Lesson, situation: Situation) -> bool:
        """Whether an operator is a bottleneck that was promised to keep up."""
        if not self._alone:
            return False
        for key in self._believed:
            if lesson.labels.get(key) == BOTTLENECK and self.is_known(key) and situation.demand[key] > 0:
                degree = lesson.observation.operators[key].parallelism
                if self._believed[key].belief.safe_probability(situation.demand[key], degree)[0] >= _PROMISE:
                    return True
        return False

    def _reading(
        self, lesson: Lesson, key: str, found: Readings, place: int, noise_sd: float, demand: float
    ) -> _Reading | None:
        """What there is to learn, if anything."""
        metrics, label = lesson.observation.operators[key], lesson.labels[key]
        saturated = bool(found.is_saturated[place])
        if bool(found.is_known[place]) and (saturated or self._settings.use_busy):
            noise = _CUT_SD if bool(found.is_cut[place]) else min(noise_sd, _SATURATED_SD) if saturated else noise_sd
            sd = math.hypot(noise, float(found.resolution_sd[place]))
            return _Reading(metrics.parallelism, float(found.log_capacity[place]), saturated, sd)
        if label == BOTTLENECK and metrics.records_in_per_s > 0:
            return _Reading(metrics.parallelism, math.log(metrics.records_in_per_s), True, min(noise_sd, _SATURATED_SD))
        if label == FINE and demand > 0:
            return _Reading(metrics.parallelism, math.log(demand), at_least=True)
        return None

    def _least(self, lesson: Lesson, key: str, found: Readings, place: int, demand: float) -> _Reading | None:
        """What an operator could surely take whose busy time is too short to be read."""
        parallelism, log_rate = lesson.observation.operators[key].parallelism, float(found.log_least[place])
        is_told = lesson.labels[key] == FINE and self._settings.use_busy
        if not is_told or parallelism == 1 or not math.isfinite(log_rate):  # of one instance nothing can be taken
            return None
        if key in self._waiting:  # its busy time is no limit, so all that is sure is what it does take
            if not (demand > 0 and found.is_known[place]):
                return None  # or has been said
            log_rate = math.log(demand)
        return _Reading(parallelism, log_rate, at_least=True)

    def curves(self, situation: Situation) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log capacity, operators × parallelism."""
        return self._curves_of(list(self._now(situation, self._thresholds(situation)).values()))

    def _curves_of(self, beliefs: list[CapacityBelief]) -> tuple[Floats, Floats]:
        means = np.stack([one.mean for one in beliefs])
        spreads = np.stack([one.covariance for one in beliefs])
        misfit = np.array([one.misfit_sd for one in beliefs])
        variance = ((self._basis @ spreads) * self._basis).sum(axis=2)
        return means @ self._basis.T, np.sqrt(np.maximum(variance, 0.0) + misfit[:, None] ** 2)

    def judge(self, situation: Situation) -> dict[str, Verdict]:
        if not self._believed:
            return {}
        mean, sd = self.curves(situation)
        certainty = self._certainty(situation)
        rates = np.array([situation.demand[key] for key in self._believed])
        safe = _keeps_up(mean, sd, rates, situation.rate_sd)
        if self._is_doubted:
            taught = np.array([one.is_taught for one in self._alone.values()])
            curves = self._curves_of([one.belief for one in self._alone.values()])
            alone = _keeps_up(*curves, rates, situation.rate_sd)
            safe = np.where(taught[:, None], np.minimum(safe, alone), safe)
        one = np.exp(mean[:, 0])
        verdicts = {}
        for place, key in enumerate(self._believed):
            words = self._words(key, float(one[place]), float(sd[place, 0]), rates[place])
            limit = self._job.limit_of(key)
            verdicts[key] = Verdict(safe[place, :limit], certainty, words, sd[place, :limit])
        return verdicts

    def _now(self, situation: Situation, thresholds: dict[str, int]) -> dict[str, CapacityBelief]:
        """The encoder counts only until the operator itself was observed: its vectors change with the rates."""
        found = {key: one.belief for key, one in self._believed.items()}
        for key, degree in thresholds.items():
            found[key] = found[key].copy()
            rate = math.log(situation.demand[key])
            found[key].see(degree, rate, is_saturated=True, sd=self._settings.encoder_sd)
        return found

    def is_known(self, key: str) -> bool:
        """Whether anything but a flat prior is known of an operator."""
        believed = self._believed[key]
        return believed.is_taught or believed.has_prior or self._has_encoder

    @property
    def _has_encoder(self) -> bool:
        return self._model is not None and self._settings.use_encoder

    def _certainty(self, situation: Situation) -> float:
        """How sure to be.

        On engines without backpressure a bottleneck is an operator that takes less than 85 % (Section V-B). Even odds
        for the whole rate are far from that; more certainty would buy instances that the rule does not ask for.
        """
        chosen = self._settings
        return chosen.quantile if situation.reports_backpressure else chosen.quantile_without_backpressure

    def _thresholds(self, situation: Situation) -> dict[str, int]:
        """The encoder is asked for operators of which neither the past nor the job itself says anything better."""
        if self._model is None or not self._has_encoder:
            return {}
        wanted = [
            key
            for key, one in self._believed.items()
            if not one.is_taught and not one.has_prior and situation.demand[key] > 0
        ]
        if not wanted:
            return {}
        found = self._model.thresholds(situation.source_rates, situation.selectivities, situation.edge_ratios)
        return {key: found[key] for key in wanted}

    def _words(self, key: str, one: float, sd: float, rate: float) -> str:
        if not self.is_known(key):
            return ""
        if rate <= 0:
            return "nothing reaches it"
        believed = self._believed[key]
        source = "by its own readings" if believed.is_taught else "as similar operators did"
        if not believed.is_taught and believed.has_prior:
            source = _told(self._prior[key])
        if sd > _HARDLY_KNOWN:
            return f"{rate:,.3g} records/s; what one instance serves is hardly known yet"
        return f"{rate:,.0f} records/s; one instance serves about {one:,.0f} (± {sd:.0%}), {source}"


def _keeps_up(mean: Floats, sd: Floats, rates: Floats, rate_sd: float = 0.0) -> Floats:
    """Operators × parallelism: the probability of serving each operator's rate, which may be a guess itself."""
    with np.errstate(divide="ignore", invalid="ignore"):
        safe: Floats = ndtr((mean - np.log(rates)[:, None]) / np.hypot(sd, rate_sd))
    safe[rates <= 0] = 1.0
    return safe


def _told(prior: OperatorPrior) -> str:
    read = [origin for origin in prior.origins if origin.readings]  # others lent how much they give out, at most
    if not read:
        return "as operators with such features did"
    first = read[0]
    if first.is_own:
        return f"as it did in {first.readings} earlier readings"
    more = f" and {len(read) - 1} more" if len(read) > 1 else ""
    return f"as '{first.operator}' of {first.job}{more} did"


def _read(lesson: Lesson, keys: list[str]) -> Readings:
    """The capacity readings of these operators, all at once."""
    seen: Observation = lesson.observation
    metrics = [seen.operators[key] for key in keys]
    return read_capacity(
        [one.records_in_per_s for one in metrics],
        [one.busy_share for one in metrics],
        [math.nan if one.busy_max_ms_per_s is None else one.busy_max_ms_per_s / 1000 for one in metrics],
        [one.backpressured_share for one in metrics],
        [lesson.labels[key] == BOTTLENECK for key in keys],
        seen.busy_resolution,
    )
