"""What the tuner asks of a model bundle, without knowing torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from streamtune.models.capacity import CapacityPrior
from streamtune.models.transfer.model import Levels, OperatorPrior
from streamtune.readings import LabelSettings

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Pretrained(Protocol):
    """A model applied to one job: its nearest cluster is chosen."""

    @property
    def cluster(self) -> str:
        """The encoder in use."""

    @property
    def labelling(self) -> LabelSettings:
        """The labelling rule that the model learnt from."""

    @property
    def distance(self) -> int | None:
        """Edit distance from the job to the centre of that cluster; None where there are no clusters."""

    @property
    def capacity(self) -> CapacityPrior: ...

    @property
    def selectivities(self) -> Mapping[str, float]:
        """The usual selectivity by operator type."""

    @property
    def known_types(self) -> frozenset[str]: ...

    def prior(self, levels: Levels) -> dict[str, OperatorPrior] | None:
        """What past operators lend to this job's; None where the bundle keeps no past."""

    def vectors(
        self,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float],
        edge_ratios: Mapping[tuple[str, str], float] | None = None,
    ) -> dict[str, Floats]:
        """The parallelism-agnostic vector of every operator."""

    def thresholds(
        self,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float],
        edge_ratios: Mapping[tuple[str, str], float] | None = None,
    ) -> dict[str, int]:
        """The least parallelism of every operator that the encoder itself calls safe."""

    def warmup(self, rows: int, seed: int) -> tuple[Floats, Ints, Ints]:
        """Vectors, parallelism and labels of past operators in this cluster."""
