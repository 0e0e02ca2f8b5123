"""A job whose code or data changes after very many windows, and what a tuner asks for window by window.

``benchmarks/drift.py`` draws it; ``test_drift.py`` holds it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from streamtune.dataflow import Observation
from streamtune.tuners.streamtune import StreamTune
from tuners.sightings import chain, metrics, sighting

STABLE_WINDOWS = 2_000
NOTICED_WITHIN = 3
OFFERED = 1000.0
BEFORE_PER_S = 250.0


@dataclass(frozen=True)
class Change:
    """From now on: records/s that one instance of ``op2`` serves, and records out of ``op1`` per record in."""

    what: str
    per_s: float
    selectivity: float

    @property
    def least(self) -> int:
        """The fewest instances of ``op2`` that keep up."""
        return math.ceil(OFFERED * self.selectivity / self.per_s)


NOTHING = Change("nothing changes", BEFORE_PER_S, 1.0)
CHANGES = (
    Change("code twice as slow", BEFORE_PER_S / 2, 1.0),
    Change("twice as many records out", BEFORE_PER_S, 2.0),
    Change("code twice as fast", BEFORE_PER_S * 2, 1.0),
)


def window(minute: float, parallelism: tuple[int, int], change: Change, noise: np.random.Generator) -> Observation:
    """One measurement: ``op1`` and ``op2`` run with these degrees of parallelism."""
    jitter = float(noise.normal(1.0, 0.03))
    first, second = parallelism
    reaches = OFFERED * change.selectivity
    load = min(1.0, reaches / (change.per_s * second) * jitter)
    taken = min(reaches, change.per_s * second)
    blocked = 0.0 if taken >= reaches * 0.999 else 1000 * (1 - taken / reaches)
    return sighting(
        {
            "source": metrics(1, taken / change.selectivity, 30, blocked=blocked * 0.95),
            "op1": metrics(first, taken / change.selectivity, 200, emitted=taken, blocked=blocked * 0.75),
            "op2": metrics(second, taken, 1000 * load),
        },
        offered=OFFERED,
        minute=minute,
    )


def settled(noise: np.random.Generator, windows: int = STABLE_WINDOWS) -> StreamTune:
    """A tuner that has seen the same for very long."""
    tuner = StreamTune(chain("flat_map", "map"))
    for minute in range(windows):
        tuner.learn(window(minute, (1, 5), NOTHING, noise))
    return tuner


def followed(
    tuner: StreamTune, change: Change, noise: np.random.Generator, windows: int = NOTICED_WITHIN, plan: int = 5
) -> list[int]:
    """Instances of ``op2`` that are asked for, window by window, each applied before the next."""
    degrees = []
    for number in range(windows):
        seen = window(STABLE_WINDOWS + number, (1, plan), change, noise)
        tuner.learn(seen)
        plan = tuner.recommend(seen).plan["op2"]
        degrees.append(plan)
    return degrees
