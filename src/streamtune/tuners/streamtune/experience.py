"""What the running job itself has taught: rates, selectivities, labels, and the bounds that follow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Job, Observation
from streamtune.readings import LabelSettings, label_observation
from streamtune.readings.demand import carried_rates, input_rates
from streamtune.readings.elimination import eliminate
from streamtune.readings.labels import BOTTLENECK, FINE, UNLABELLED
from streamtune.readings.shortfall import saturated_and_short
from streamtune.tuners.streamtune.ratio import ObservedRatio

# Rates that differ by less count as the same: selectivities are measured.
_SAME_RATE = 0.005
_NO_LIMIT = 1e18
# What is remembered of a job; the oldest lessons go, an eighth at a time.
KEPT_LESSONS = 512
_DROPPED = 64


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
        """An observed bottleneck overrules an observation without one at as many instances or fewer.

        At the edge of overload both happen, and an operator may have become slower: what is refuted caps nothing.
        """
        is_refuted = self.high is not None and self.high < self.low
        capped = degree if self.high is None or is_refuted else min(degree, self.high)
        return max(self.low, capped)


class Experience:
    """Lessons of one job, in the order of observation, and what follows from them."""

    def __init__(self, job: Job, labelling: LabelSettings | None = None) -> None:
        self._job = job
        self.labelling = labelling or LabelSettings()
        self._passed = {key: ObservedRatio() for key in job.dataflow.index}
        # Over every edge, per record into its writer.
        self._carried: dict[tuple[str, str], ObservedRatio] = {}
        self._counted: set[tuple[str, str]] = set()
        self.lessons: deque[Lesson] = deque(maxlen=KEPT_LESSONS)
        size = len(job.dataflow.index)
        self._labels, self._degrees, self._clean = _Rows(size), _Rows(size), _Rows(1)
        self._offered, self._taken_then = _Rows(len(job.dataflow.sources)), _Rows(size)

    def add(self, observation: Observation) -> Lesson:
        labels = label_observation(self._job.dataflow, observation, self.labelling)
        # An engine without backpressure names bottlenecks itself, and may be told to look at more than we do.
        labels |= dict.fromkeys(observation.bottlenecks, BOTTLENECK)
        if observation.reports_backpressure:
            # Lack of backpressure says nothing for an operator that is busy all the time and takes too little.
            short = saturated_and_short(self._job.dataflow, observation)
            labels |= {key: UNLABELLED for key in short if labels[key] == FINE}
            left = eliminate(self._job.dataflow, observation)
            labels |= dict.fromkeys(left.cleared, UNLABELLED) | dict.fromkeys(left.blamed, BOTTLENECK)
        lesson = Lesson(observation, labels)
        self._keep(lesson)
        for key, metrics in observation.operators.items():
            taken, given = metrics.records_in_per_s, metrics.records_out_per_s
            is_known = taken > 0 and math.isfinite(taken) and math.isfinite(given)
            if is_known and self._passed[key].add(given * observation.window_s, taken * observation.window_s):
                self._forget_behind(key)
        self._carry(observation)
        return lesson

    def _carry(self, observation: Observation) -> None:
        """Add up what went over every edge; an observation that did not count it had all of the output on all edges."""
        counted = observation.edge_rates
        self._counted |= counted.keys()
        for edge in self._job.dataflow.edges:
            writer = observation.operators.get(edge.source)
            if writer is None or not writer.records_in_per_s > 0:
                continue
            rate = counted.get((edge.source, edge.target), writer.records_out_per_s)
            if math.isfinite(rate) and math.isfinite(writer.records_in_per_s):
                ratio = self._carried.setdefault((edge.source, edge.target), ObservedRatio())
                if ratio.add(rate * observation.window_s, writer.records_in_per_s * observation.window_s):
                    self._forget_behind(edge.source)

    def _keep(self, lesson: Lesson) -> None:
        """As arrays too, so that a recommendation takes no longer the more was learnt."""
        self.lessons.append(lesson)
        seen = lesson.observation
        self._labels.add([float(lesson.labels[key]) for key in self._job.dataflow.index])
        self._degrees.add([float(_parallelism(seen, key)) for key in self._job.dataflow.index])
        self._clean.add([float(not seen.has_backpressure)])
        self._offered.add([seen.source_rates.get(source.id, 0.0) for source in self._job.dataflow.sources])
        # Where what was offered is a guess, what each operator took stands for it; NaN elsewhere.
        taken = [_taken(seen, key) if seen.guessed_rates else math.nan for key in self._job.dataflow.index]
        self._taken_then.add(taken)

    def selectivities(self) -> dict[str, float]:
        """Records out per record in over all observations; operators never observed at work are left out."""
        ratios = {key: ratio.value for key, ratio in self._passed.items()}
        return {key: ratio for key, ratio in ratios.items() if math.isfinite(ratio)}

    def edge_ratios(self) -> dict[tuple[str, str], float]:
        """Records over an edge per record into its writer, of the edges that were ever counted."""
        ratios = {edge: ratio.value for edge, ratio in self._carried.items() if edge in self._counted}
        return {edge: ratio for edge, ratio in ratios.items() if math.isfinite(ratio)}

    def demand(self, source_rates: Mapping[str, float], usual: Mapping[str, float]) -> dict[str, float]:
        """Records/s that must reach every operator; ``usual`` stands in for selectivities that were not observed."""
        flow = self._job.dataflow
        offered = {source.id: source_rates.get(source.id, 0.0) for source in flow.sources}
        return input_rates(flow, self._selectivities(usual), offered, self.edge_ratios())

    def _selectivities(self, usual: Mapping[str, float]) -> dict[str, float]:
        seen = self.selectivities()
        return {key: seen.get(key, usual.get(key, 1.0)) for key in self._job.dataflow.index}

    def forget(self, key: str) -> None:
        """An operator is not what it was: what was seen of it before the last lesson binds no longer."""
        self._labels.rows[:-1, self._job.dataflow.index[key]] = UNLABELLED

    def _forget_behind(self, key: str) -> None:
        """Another share of an operator's input is passed on: old rates say nothing about what reached those behind."""
        found: set[str] = set()
        waiting = [key]
        while waiting:
            new = set(self._job.dataflow.successors(waiting.pop())) - found
            found |= new
            waiting += new
        for one in found:
            self.forget(one)

    def bounds(self, demand: Mapping[str, float], usual: Mapping[str, float]) -> dict[str, Bounds]:
        """The monotone closure of all lessons: over parallelism and over rate.

        A parallelism observed as a bottleneck is too small at the same or a higher rate; one observed safe is enough
        at the same or a lower one, unless as many or more were a bottleneck. Old rates are carried through the
        selectivities known now, so that they compare.
        """
        keys = tuple(self._job.dataflow.index)
        if not self.lessons:
            return dict.fromkeys(keys, Bounds())
        wanted = np.array([demand[key] for key in keys])
        rates = self._rates_then(self._selectivities(usual))
        labels, degrees, clean = self._labels.rows, self._degrees.rows, self._clean.rows > 0
        short = (labels == BOTTLENECK) & (wanted >= rates * (1 - _SAME_RATE))
        enough = (labels == FINE) & (wanted <= rates * (1 + _SAME_RATE)) & (degrees > 0) & clean
        low = np.where(short, degrees + 1, 1).max(axis=0)
        high = np.where(enough & (degrees >= low), degrees, _NO_LIMIT).min(axis=0)
        return {
            key: Bounds(int(low[place]), None if high[place] == _NO_LIMIT else int(high[place]))
            for place, key in enumerate(keys)
        }

    def _rates_then(self, selectivities: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Lessons × operators: what reached each operator. Demand is linear in the rates of the sources."""
        flow = self._job.dataflow
        offered = np.zeros((len(flow.sources), len(flow.index)))
        for number, source in enumerate(flow.sources):
            offered[number, flow.index[source.id]] = 1.0
        share = carried_rates(flow, offered, np.array([[selectivities[key] for key in flow.index]]), self.edge_ratios())
        # What was offered may not be known, but what a saturated operator took is: it is short of anything above.
        taken = self._taken_then.rows
        rates: npt.NDArray[np.float64] = np.where(np.isnan(taken), self._offered.rows @ share, taken)
        return rates


class _Rows:
    """Rows of numbers that are added one by one; the oldest are dropped when there are too many."""

    def __init__(self, width: int) -> None:
        self._kept = np.zeros((64, width))
        self._size = 0

    def add(self, row: list[float]) -> None:
        if self._size == len(self._kept):
            if self._size >= KEPT_LESSONS:
                self._kept[:-_DROPPED] = self._kept[_DROPPED:]
                self._size -= _DROPPED
            else:
                self._kept = np.concatenate([self._kept, np.zeros_like(self._kept)])
        self._kept[self._size] = row
        self._size += 1

    @property
    def rows(self) -> npt.NDArray[np.float64]:
        return self._kept[: self._size]


def _parallelism(observation: Observation, key: str) -> int:
    metrics = observation.operators.get(key)
    return 0 if metrics is None else metrics.parallelism


def _taken(observation: Observation, key: str) -> float:
    metrics = observation.operators.get(key)
    return math.inf if metrics is None else metrics.records_in_per_s
