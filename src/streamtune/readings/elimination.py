"""The operator that must be the bottleneck because nothing else can be.

Asynchronous I/O, old sources and some engines report no busy time. Algorithm 1 leaves such an operator unlabelled, even
where backpressure begins right before it and every other reader of the blocked operator has time to spare. Then what it
takes is all that it can take: as good a reading of its capacity as saturation is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamtune.dataflow import BACKPRESSURE_SHARE, Dataflow, Observation, OperatorMetrics
from streamtune.readings.capacity import SATURATED_SHARE
from streamtune.readings.metrics import hottest_busy_share


@dataclass(frozen=True)
class Elimination:
    """The operators that are ``blamed`` since nothing else can be, and those that are ``cleared`` by that."""

    blamed: frozenset[str]
    cleared: frozenset[str]


def eliminate(dataflow: Dataflow, observation: Observation) -> Elimination:
    """Who is left when everybody with time to spare is ruled out.

    Where several readers of a blocked operator report no busy time, any of them may be the one: nobody is blamed.
    """
    held_up = {key for key, metrics in observation.operators.items() if _held_share(metrics) > BACKPRESSURE_SHARE}
    blamed: set[str] = set()
    cleared: set[str] = set()
    for key in held_up:
        readers = [one for one in dataflow.successors(key) if one in observation.operators]
        if held_up.intersection(readers):
            continue
        busy = {one: hottest_busy_share(observation.operators[one]) for one in readers}
        unknown = [one for one, share in busy.items() if not math.isfinite(share)]
        known = [one for one in readers if one not in unknown]
        if len(unknown) == 1 and all(busy[one] < SATURATED_SHARE for one in known):
            blamed.update(unknown)
            cleared.update(known)
    return Elimination(frozenset(blamed), frozenset(cleared))


def _held_share(metrics: OperatorMetrics) -> float:
    """The share of time an operator was blocked; of the whole second where nothing else is known."""
    share = metrics.backpressured_share
    return share if math.isfinite(share) else metrics.backpressured_ms_per_s / 1000
