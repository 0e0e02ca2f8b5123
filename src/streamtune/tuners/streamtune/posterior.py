"""Our estimator: a belief about the capacity curve of every operator."""

from __future__ import annotations

import math

import numpy as np

from streamtune.dataflow import Job, OperatorMetrics
from streamtune.models.capacity import CapacityBelief, CapacityPrior
from streamtune.readings.capacity import read_capacity
from streamtune.readings.labels import BOTTLENECK, FINE
from streamtune.tuners.streamtune.estimator import NeedEstimator, Situation, Verdict
from streamtune.tuners.streamtune.experience import Lesson
from streamtune.tuners.streamtune.pretrained import Pretrained
from streamtune.tuners.streamtune.settings import StreamTuneSettings

# Reported busy time above this share may have been capped at the whole second.
_CUT_SD = 0.04


class PosteriorEstimator(NeedEstimator):
    """Per operator: prior curve of its type from the history, level from the encoder, then its own readings.

    Readings are the throughput at saturation, busy shares, and, without either, the mere fact of having kept
    up. Everything is in closed form, so a recommendation takes milliseconds.
    """

    def __init__(self, job: Job, settings: StreamTuneSettings, model: Pretrained | None) -> None:
        self._job = job
        self._settings = settings
        self._model = model
        prior = model.capacity if model is not None and settings.use_history else CapacityPrior()
        self._beliefs = {
            operator.id: prior.belief(operator.type) for operator in job.dataflow.operators if not operator.is_source
        }
        self._untaught = set(self._beliefs)

    def belief(self, key: str) -> CapacityBelief:
        return self._beliefs[key]

    def learn(self, lesson: Lesson, situation: Situation) -> None:
        for key, belief in self._beliefs.items():
            metrics = lesson.observation.operators.get(key)
            if metrics is None:
                continue
            belief.drift(self._settings.drift_sd)
            resolution = lesson.observation.busy_resolution
            if self._read(belief, metrics, lesson.labels[key], situation.demand[key], resolution):
                self._untaught.discard(key)

    def _read(
        self, belief: CapacityBelief, metrics: OperatorMetrics, label: int, demand: float, resolution: float
    ) -> bool:
        """Whether there was something to learn."""
        busiest = math.nan if metrics.busy_max_ms_per_s is None else metrics.busy_max_ms_per_s / 1000
        found = read_capacity(
            [metrics.records_in_per_s],
            [metrics.busy_share],
            [busiest],
            [metrics.backpressured_share],
            [label == BOTTLENECK],
            resolution,
        )
        saturated = bool(found.is_saturated[0])
        if bool(found.is_known[0]) and (saturated or self._settings.use_busy):
            sd = math.hypot(_CUT_SD if bool(found.is_cut[0]) else belief.noise_sd, float(found.resolution_sd[0]))
            belief.see(metrics.parallelism, float(found.log_capacity[0]), is_saturated=saturated, sd=sd)
        elif label == BOTTLENECK and metrics.records_in_per_s > 0:
            belief.see(metrics.parallelism, math.log(metrics.records_in_per_s), is_saturated=True)
        elif label == FINE and demand > 0:
            belief.see_at_least(metrics.parallelism, math.log(demand))
        else:
            return False
        return True

    def judge(self, situation: Situation) -> dict[str, Verdict]:
        degrees = np.arange(1, self._job.max_parallelism + 1)
        thresholds = self._thresholds(situation)
        certainty = self._certainty(situation)
        verdicts = {}
        for key, belief in self._beliefs.items():
            rate = situation.demand[key]
            if key in thresholds:
                # The encoder counts only until the operator itself was observed: its vectors change with the rates.
                belief = belief.copy()
                belief.see(thresholds[key], math.log(rate), is_saturated=True, sd=self._settings.encoder_sd)
            safe = belief.safe_probability(rate, degrees)
            verdicts[key] = Verdict(safe, certainty, self._words(key, belief, rate, key in thresholds))
        return verdicts

    def _certainty(self, situation: Situation) -> float:
        """How sure to be.

        On engines without backpressure a bottleneck is an operator that takes less than 85 % (Section V-B). Even odds
        for the whole rate are far from that; more certainty would buy instances that the rule does not ask for.
        """
        chosen = self._settings
        return chosen.quantile if situation.reports_backpressure else chosen.quantile_without_backpressure

    def _thresholds(self, situation: Situation) -> dict[str, int]:
        if self._model is None or not self._settings.use_encoder or not self._untaught:
            return {}
        found = self._model.thresholds(situation.source_rates, situation.selectivities)
        return {key: found[key] for key in self._untaught if situation.demand[key] > 0}

    def _words(self, key: str, belief: CapacityBelief, rate: float, is_guess: bool) -> str:
        if key in self._untaught and not is_guess:
            return ""
        if rate <= 0:
            return "nothing reaches it"
        mean, sd = belief.log_capacity([1, self._job.max_parallelism])
        one = math.exp(float(mean[0]))
        source = "as similar operators did" if is_guess else "by its own readings"
        return f"{rate:,.0f} records/s; one instance serves about {one:,.0f} (± {sd[0]:.0%}), {source}"
