"""Old observations must not freeze a belief: what changes after thousands of windows is noticed within three."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamtune.dataflow import Observation
from streamtune.tuners.streamtune import StreamTune
from tuners.sightings import chain, metrics, sighting

STABLE_WINDOWS = 2_000
NOTICED_WITHIN = 3
OFFERED = 1000.0


def window(
    minute: float, parallelism: tuple[int, int], per_s: float, selectivity: float, noise: np.random.Generator
) -> Observation:
    """``op1`` passes on ``selectivity`` of what it takes; one instance of ``op2`` serves ``per_s`` records/s."""
    jitter = float(noise.normal(1.0, 0.03))
    first, second = parallelism
    reaches = OFFERED * selectivity
    load = min(1.0, reaches / (per_s * second) * jitter)
    taken = min(reaches, per_s * second)
    blocked = 0.0 if taken >= reaches * 0.999 else 1000 * (1 - taken / reaches)
    return sighting(
        {
            "source": metrics(1, taken / selectivity, 30, blocked=blocked * 0.95),
            "op1": metrics(first, taken / selectivity, 200, emitted=taken, blocked=blocked * 0.75),
            "op2": metrics(second, taken, 1000 * load),
        },
        offered=OFFERED,
        minute=minute,
    )


def settled(noise: np.random.Generator) -> StreamTune:
    tuner = StreamTune(chain("flat_map", "map"))
    for minute in range(STABLE_WINDOWS):
        tuner.learn(window(minute, (1, 5), 250.0, 1.0, noise))
    return tuner


def followed(tuner: StreamTune, per_s: float, selectivity: float, noise: np.random.Generator) -> list[int]:
    """Instances of ``op2`` that are asked for, window by window, each applied before the next."""
    degrees, plan = [], 5
    for number in range(NOTICED_WITHIN):
        seen = window(STABLE_WINDOWS + number, (1, plan), per_s, selectivity, noise)
        tuner.learn(seen)
        plan = tuner.recommend(seen).plan["op2"]
        degrees.append(plan)
    return degrees


@pytest.mark.slow
@pytest.mark.parametrize(
    ("per_s", "selectivity", "what"),
    [(125.0, 1.0, "code twice as slow"), (250.0, 2.0, "twice as many records out"), (500.0, 1.0, "code twice as fast")],
)
def test_a_change_after_two_thousand_windows_is_noticed_within_three(
    per_s: float, selectivity: float, what: str
) -> None:
    """1,000 records/s at 125/s each need 8 (as do 2,000 at 250/s), at 500/s each 2; a third more is certainty."""
    noise = np.random.default_rng(0)
    least = math.ceil(OFFERED * selectivity / per_s)
    degrees = followed(settled(noise), per_s, selectivity, noise)
    assert least <= degrees[-1] <= math.ceil(least * 4 / 3) + 1, f"{what}: {degrees}, the least is {least}"


@pytest.mark.slow
def test_what_does_not_change_is_not_changed() -> None:
    noise = np.random.default_rng(1)
    tuner = settled(noise)
    assert set(followed(tuner, 250.0, 1.0, noise)) <= {4, 5}
