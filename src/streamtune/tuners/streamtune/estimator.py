"""``NeedEstimator``: how sure one can be that a parallelism keeps up. Two exist: our posterior and the paper's M_f."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from streamtune.tuners.streamtune.experience import Lesson

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Situation:
    """The rates a plan is wanted for: of the sources, and what then reaches every operator."""

    source_rates: Mapping[str, float]
    demand: Mapping[str, float]
    selectivities: Mapping[str, float]
    reports_backpressure: bool = True
    edge_ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)
    rate_sd: float = 0.0  # of the logarithm of the rates
    headroom: float = 1.0  # ``demand`` over what the source rates alone send: for catching up, and spare time


@dataclass(frozen=True)
class Verdict:
    """One operator: the probability of keeping up at p = 1 … p_max, and how sure one has to be."""

    safe: Floats
    needed: float
    told: str = ""
    sds: Floats | None = None  # of the logarithm of capacity at p = 1 … p_max

    @cached_property
    def degree(self) -> int:
        """The least parallelism that is safe enough; the safest where none is, and of equally hopeless ones the most.

        >>> Verdict(np.array([0.2, 0.9, 1.0]), 0.8).degree, Verdict(np.zeros(3), 0.8).degree
        (2, 3)
        """
        enough = self.safe >= self.needed
        if enough.any():
            return int(np.argmax(enough)) + 1
        return len(self.safe) - int(np.argmax(self.safe[::-1]))

    @property
    def sd(self) -> float:
        """How roughly the capacity at that parallelism is known."""
        return 0.0 if self.sds is None else float(self.sds[self.degree - 1])

    @cached_property
    def is_reached(self) -> bool:
        return bool((self.safe >= self.needed).any())


class NeedEstimator(ABC):
    """Learns from lessons, judges situations."""

    @abstractmethod
    def learn(self, lesson: Lesson, situation: Situation) -> None:
        """Learn from an observation of the running job."""

    @abstractmethod
    def judge(self, situation: Situation) -> dict[str, Verdict]:
        """A verdict on every operator except sources that are not to be tuned."""

    def taken_changes(self) -> frozenset[str]:
        """Operators found to be not what they were, since this was last asked."""
        return frozenset()
