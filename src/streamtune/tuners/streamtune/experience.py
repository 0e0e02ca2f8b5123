"""What the running job itself has taught: rates, selectivities, labels, and the bounds that follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Job, Observation
from streamtune.readings import LabelSettings, label_observation
from streamtune.readings.demand import input_rates
from streamtune.readings.labels import BOTTLENECK, FINE

# Rates that differ by less count as the same: selectivities are measured.
_SAME_RATE = 0.005


@dataclass(frozen=True)
class Lesson:
    """One observation with its labels: the unit of learning."""

    observation: Observation
    labels: Mapping[str, int]


@dataclass(frozen=True)
class Bounds:
    """What was observed of one operator around a rate: too small at and below ``low`` − 1, enough at ``high``."""

    low: int = 1
    high: int | None = None

    def apply(self, degree: int) -> int:
        """An observed bottleneck overrules an observation without one: at the edge of overload both happen."""
        capped = degree if self.high is None else min(degree, self.high)
        return max(self.low, capped)


class Experience:
    """Lessons of one job, in the order of observation, and what follows from them."""

    def __init__(self, job: Job, labelling: LabelSettings | None = None) -> None:
        self._job = job
        self.labelling = labelling or LabelSettings()
        self._taken = dict.fromkeys(job.dataflow.index, 0.0)
        self._given = dict.fromkeys(job.dataflow.index, 0.0)
        self.lessons: list[Lesson] = []

    def add(self, observation: Observation) -> Lesson:
        labels = label_observation(self._job.dataflow, observation, self.labelling)
        # An engine without backpressure names bottlenecks itself, and may be told to look at more than we do.
        labels |= dict.fromkeys(observation.bottlenecks, BOTTLENECK)
        lesson = Lesson(observation, labels)
        self.lessons.append(lesson)
        for key, metrics in observation.operators.items():
            taken, given = metrics.records_in_per_s, metrics.records_out_per_s
            if taken > 0 and math.isfinite(taken) and math.isfinite(given):
                self._taken[key] += taken * observation.window_s
                self._given[key] += given * observation.window_s
        return lesson

    def selectivities(self) -> dict[str, float]:
        """Records out per record in over all observations; operators never observed at work are left out."""
        return {key: self._given[key] / taken for key, taken in self._taken.items() if taken > 0}

    def demand(self, source_rates: Mapping[str, float], usual: Mapping[str, float]) -> dict[str, float]:
        """Records/s that must reach every operator; ``usual`` stands in for selectivities that were not observed."""
        seen = self.selectivities()
        flow = self._job.dataflow
        selectivities = {key: seen.get(key, usual.get(flow.operator(key).type, 1.0)) for key in flow.index}
        offered = {source.id: source_rates.get(source.id, 0.0) for source in flow.sources}
        return input_rates(flow, selectivities, offered)

    def bounds(self, demand: Mapping[str, float], usual: Mapping[str, float]) -> dict[str, Bounds]:
        """The monotone closure of all lessons: over parallelism and over rate.

        A parallelism observed as a bottleneck is too small at the same or a higher rate; one observed safe is enough
        at the same or a lower one. Old rates are carried through the selectivities known now, so that they compare.
        """
        keys = tuple(self._job.dataflow.index)
        low, high = np.ones(len(keys), dtype=np.int64), np.full(len(keys), np.iinfo(np.int64).max)
        wanted = np.array([demand[key] for key in keys])
        rates_of: dict[tuple[float, ...], npt.NDArray[np.float64]] = {}
        for lesson in self.lessons:
            offered = tuple(lesson.observation.source_rates.values())
            if offered not in rates_of:
                then = self.demand(lesson.observation.source_rates, usual)
                rates_of[offered] = np.array([then[key] for key in keys])
            rates = rates_of[offered]
            degrees = np.array([_parallelism(lesson.observation, key) for key in keys])
            label = np.array([lesson.labels[key] for key in keys])
            short = (label == BOTTLENECK) & (wanted >= rates * (1 - _SAME_RATE))
            enough = (label == FINE) & (wanted <= rates * (1 + _SAME_RATE)) & (degrees > 0)
            enough &= not lesson.observation.has_backpressure
            low = np.where(short, np.maximum(low, degrees + 1), low)
            high = np.where(enough, np.minimum(high, degrees), high)
        none = np.iinfo(np.int64).max
        return {key: Bounds(int(low[i]), None if high[i] == none else int(high[i])) for i, key in enumerate(keys)}


def _parallelism(observation: Observation, key: str) -> int:
    metrics = observation.operators.get(key)
    return 0 if metrics is None else metrics.parallelism
