"""Models whose past has nothing to do with the job: another platform, wrong types, shuffled labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streamtune.dataflow import Job
from streamtune.models.capacity import CapacityPrior, TypePrior
from streamtune.models.capacity.belief import WEIGHTS, CapacityBelief
from streamtune.models.transfer.model import Levels, OperatorPrior, Origin
from streamtune.readings import LabelSettings


@dataclass(frozen=True)
class Misleading:
    """A pretrained model that is sure of things that are not so; drawn by a seed."""

    job: Job
    seed: int
    sureness: float
    cluster: str = "global"
    distance: int | None = None
    labelling: LabelSettings = field(default_factory=LabelSettings)

    @property
    def known_types(self) -> frozenset[str]:
        return frozenset(self.job.dataflow.types)

    @property
    def capacity(self) -> CapacityPrior:
        rng = np.random.default_rng([self.seed, 1])
        return CapacityPrior(
            types={
                kind: TypePrior(
                    mean=tuple(self._weights(rng, 8.0).tolist()),
                    covariance=tuple(map(tuple, self._spread(36.0).tolist())),
                    noise_sd=float(rng.uniform(0.005, 0.2)),
                    operators=50,
                )
                for kind in sorted(set(self.job.dataflow.types))
            }
        )

    @property
    def selectivities(self) -> Mapping[str, float]:
        rng = np.random.default_rng([self.seed, 2])
        return {kind: float(rng.lognormal(0, 1)) for kind in sorted(set(self.job.dataflow.types))}

    def prior(self, _levels: Levels) -> dict[str, OperatorPrior]:
        rng = np.random.default_rng([self.seed, 3])
        return {
            operator.id: OperatorPrior(
                belief=CapacityBelief(
                    self._weights(rng, float(rng.uniform(2, 14))),
                    self._spread(self.sureness**2),
                    float(rng.uniform(0.005, 0.2)),
                ),
                log_selectivity=float(rng.normal(0, 1)),
                selectivity_sd=0.05,
                is_known=True,
                origins=(Origin("another", operator.id, 0, 0.98, 20, is_own=True),),
            )
            for operator in self.job.dataflow.operators
        }

    def vectors(self, *_args: object) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        raise AssertionError("the posterior does not ask for vectors")

    def thresholds(self, *_args: object) -> dict[str, int]:
        rng = np.random.default_rng([self.seed, 4])
        return {key: int(rng.integers(1, 100)) for key in self.job.dataflow.index}

    def warmup(self, *_args: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        raise AssertionError("the posterior does not ask for warm-up data")

    def _weights(self, rng: np.random.Generator, level: float) -> np.ndarray:  # type: ignore[type-arg]
        return np.array([level, *(rng.normal((1.0, -0.1, 0.0, 0.0), (0.15, 0.3, 0.15, 0.03)))])

    def _spread(self, level_variance: float) -> np.ndarray:  # type: ignore[type-arg]
        spread = np.diag(np.square([0.0, 0.03, 0.1, 0.03, 0.005]))
        spread[0, 0] = level_variance
        assert len(spread) == WEIGHTS
        return spread
