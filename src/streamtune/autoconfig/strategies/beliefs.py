"""What the trials so far tell about the operators: how the work is shared, and whom more instances do not help.

A running job gives true rates (DS2, OSDI 2018): an operator with p instances that are busy a share b of their time does
b·p instance-seconds of work per second, and all operators' work grows with the throughput alike. The *shares* of that
work are therefore what parallelism should be proportional to, whatever the throughput was. An operator whose work per
record grows with its own parallelism (a lock, one database) is contentious: more instances only burn processor time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamtune.autoconfig.space import Space
from streamtune.autoconfig.trial import Trial

_LEAST_BUSY = 1e-3
_CONTENTIOUS_ABOVE = 0.5
_TELLING_RATIO = 1.3
_GUESSED_NOISE = 0.05**2


@dataclass(frozen=True)
class Beliefs:
    """Knob → its share of the work (they add up to 1), and the knobs that must stay at their lowest."""

    shares: dict[str, float]
    contentious: frozenset[str]
    observed: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.shares)


def believe(space: Space, hints: Sequence[str], trials: Sequence[Trial], prior: Mapping[str, float]) -> Beliefs:
    """Shares from all readings; ``prior`` (base weights, a similar job's shares) where there are none.

    What is averaged over the trials is each operator's work relative to its prior share, on a logarithmic scale. As far
    as operators differ by no more than one operator differs from trial to trial, the difference is noise and the prior
    is kept (empirical Bayes): equal operators behind a good prior stay equal.
    """
    readings = [one for trial in trials if trial.operators and (one := _relative_work(space, hints, trial, prior))]
    if not readings:
        return Beliefs(_normalised(prior), frozenset(), observed=False)
    costs = _costs(space, hints, trials)
    contentious = frozenset(name for name in hints if _grows(costs[name]))
    seen = {name: [one[name] for one in readings if name in one] for name in hints}
    steady = [name for name in hints if seen[name] and name not in contentious]
    means = {name: float(np.mean(seen[name])) for name in hints if seen[name]}
    noise = _noise([seen[name] for name in steady])
    errors = {name: noise / len(seen[name]) for name in means}
    spread = float(np.var([means[name] for name in steady])) if len(steady) > 1 else 0.0
    between = max(0.0, spread - float(np.mean([errors[name] for name in steady]))) if steady else spread
    centre = float(np.median([means[name] for name in steady])) if steady else 0.0
    shares = {}
    for name in hints:
        trust = between / (between + errors[name]) if name in means and between + errors.get(name, 0.0) > 0 else 0.0
        shares[name] = prior[name] * float(np.exp(trust * (means.get(name, centre) - centre)))
    return Beliefs(_normalised(shares), contentious, observed=True)


def _relative_work(space: Space, hints: Sequence[str], trial: Trial, prior: Mapping[str, float]) -> dict[str, float]:
    """Knob → logarithm of its work over its prior share in one trial, relative to the job's median."""
    found = {}
    for name in hints:
        reading = trial.operators.get(space.knobs[name].operator or "")
        if reading is not None and reading.rate > 0:
            found[name] = float(np.log(max(reading.busy, _LEAST_BUSY) * reading.parallelism / prior[name]))
    middle = float(np.median(list(found.values()))) if found else 0.0
    return {name: value - middle for name, value in found.items()}


def _noise(series: Sequence[Sequence[float]]) -> float:
    """Variance of one reading from trial to trial, pooled over the operators; a guess while there is one trial."""
    degrees = sum(len(one) - 1 for one in series)
    squares = sum(float(np.sum((np.array(one) - np.mean(one)) ** 2)) for one in series)
    return (squares + _GUESSED_NOISE) / (degrees + 1)


def _costs(space: Space, hints: Sequence[str], trials: Sequence[Trial]) -> dict[str, list[tuple[float, float]]]:
    """Knob → (log parallelism, log work per record relative to the job's median change) over the trials.

    On hosts with more runnable tasks than cores everything looks slower: what all operators share is taken out.
    """
    table: dict[str, list[tuple[float, float]]] = {name: [] for name in hints}
    first: dict[str, float] = {}
    for trial in trials:
        cost: dict[str, float] = {}
        for name in hints:
            reading = trial.operators.get(space.knobs[name].operator or "")
            if reading is not None and reading.rate > 0:
                cost[name] = float(np.log(max(reading.busy, _LEAST_BUSY) * reading.parallelism / reading.rate))
        for name, value in cost.items():
            first.setdefault(name, value)
        shared = float(np.median([value - first[name] for name, value in cost.items()])) if cost else 0.0
        for name, value in cost.items():
            degree = trial.operators[space.knobs[name].operator or ""].parallelism
            table[name].append((float(np.log(degree)), value - shared))
    return table


def _grows(points: Sequence[tuple[float, float]]) -> bool:
    """Whether work per record grows with parallelism: the slope of the logarithms is 0 for independent instances."""
    if len(points) < 2:
        return False
    x, y = np.array(points).T
    if x.max() - x.min() < np.log(_TELLING_RATIO):
        return False
    return bool(np.polyfit(x, y, 1)[0] > _CONTENTIOUS_ABOVE)


def _normalised(values: Mapping[str, float]) -> dict[str, float]:
    whole = sum(values.values())
    return {name: value / whole for name, value in values.items()} if whole > 0 else dict.fromkeys(values, 1.0)
