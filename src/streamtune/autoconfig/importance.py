"""Which knob mattered: how much worse a forest predicts the trials when one knob's values are shuffled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamtune.autoconfig.problem import Problem
from streamtune.autoconfig.space import encode_all
from streamtune.autoconfig.trial import Trial

_FEWEST_TRIALS = 8
_TREES = 100
_SHUFFLES = 20


def importance(trials: Sequence[Trial], problem: Problem) -> dict[str, float]:
    """Knob → share of the explained differences, largest first; empty when too few trials succeeded to tell."""
    good = [trial for trial in trials if trial.value is not None]
    values = np.array([trial.value for trial in good], dtype=float)
    if len(good) < _FEWEST_TRIALS or float(np.ptp(values)) == 0.0:
        return {}
    from sklearn.ensemble import ExtraTreesRegressor

    features = encode_all(problem.space, [trial.knobs for trial in good])
    forest = ExtraTreesRegressor(n_estimators=_TREES, min_samples_leaf=2, random_state=0, n_jobs=1)
    forest.fit(features, values)
    generator = np.random.default_rng(0)
    base = float(np.mean((forest.predict(features) - values) ** 2))
    lost: dict[str, float] = {}
    for name, place in problem.space.slices.items():
        worse = []
        for _ in range(_SHUFFLES if len(problem.space.knobs) <= 20 else 3):
            shuffled = features.copy()
            shuffled[:, place] = features[generator.permutation(len(good))][:, place]
            worse.append(float(np.mean((forest.predict(shuffled) - values) ** 2)) - base)
        lost[name] = max(0.0, float(np.mean(worse)))
    whole = sum(lost.values()) or 1.0
    return {name: value / whole for name, value in sorted(lost.items(), key=lambda item: -item[1])}
