"""A bundle applied to one job: the nearest cluster, and what its encoder says about the job's operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from streamtune.dataflow import Dataflow, Job
from streamtune.models.bundle import GLOBAL, ClusterModel, ModelBundle
from streamtune.models.capacity import CapacityPrior
from streamtune.models.encoder.evaluation import smallest_safe
from streamtune.models.encoder.graphs import scaled_log
from streamtune.models.encoder.tables import graphs_of
from streamtune.models.transfer.model import Levels, OperatorPrior
from streamtune.readings import LabelSettings
from streamtune.similarity import measure_pairs, pack

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FAR_DISTANCE = 8
_BUDGET = 200_000


def nearest_cluster(
    flow: Dataflow, centres: Mapping[str, Dataflow], far_distance: int = FAR_DISTANCE
) -> tuple[str, int | None]:
    """The nearest centre by edit distance, and how far it is; the global encoder where there is none nearby.

    Every operator that one of the two has more is an edit. A centre that is too far by that alone is not measured: for
    a large job that would take far longer than all else, and the distance is told as at least so much.
    """
    if not centres:
        return GLOBAL, None
    apart = np.array([abs(len(flow.operators) - len(centre.operators)) for centre in centres.values()])
    pairs = [(0, int(place) + 1) for place in np.flatnonzero(apart <= far_distance)]
    if not pairs:
        return GLOBAL, int(apart.min())
    found = measure_pairs(pack([flow, *centres.values()]), pairs, budget=_BUDGET)
    nearest = int(np.argmin(found.lower))
    distance = int(found.lower[nearest])
    return (list(centres)[pairs[nearest][1] - 1] if distance <= far_distance else GLOBAL), distance


@dataclass(frozen=True)
class AssignedModel:
    """Algorithm 2, lines 1 to 3, for one job. ``distance`` is to the centre of the nearest cluster."""

    bundle: ModelBundle
    job: Job
    model: ClusterModel
    distance: int | None

    @classmethod
    def of(cls, bundle: ModelBundle, job: Job, far_distance: int = FAR_DISTANCE) -> AssignedModel:
        """The nearest cluster by edit distance; the global encoder where even that is further than ``far_distance``.

        Where the search for a distance runs out of budget, its lower bound decides.
        """
        centres = {model.name: model.centre for model in bundle.clusters if model.centre is not None}
        name, distance = nearest_cluster(job.dataflow, centres, far_distance)
        return cls(bundle, job, bundle.models[name], distance)

    @property
    def cluster(self) -> str:
        return self.model.name

    @property
    def capacity(self) -> CapacityPrior:
        return self.bundle.capacity

    def prior(self, levels: Levels) -> dict[str, OperatorPrior] | None:
        """What past operators lend to this job's; None where the bundle keeps no past."""
        transfer = self.bundle.transfer
        return None if transfer is None else transfer.prior(self.job, self.cluster, levels)

    @property
    def labelling(self) -> LabelSettings:
        """The labelling rule that the model learnt from."""
        return self.bundle.manifest.labelling

    @property
    def selectivities(self) -> Mapping[str, float]:
        return self.bundle.features.selectivities

    @property
    def known_types(self) -> frozenset[str]:
        return frozenset(self.bundle.features.categories["type"])

    @cached_property
    def _edge_index(self) -> torch.Tensor:
        edges = np.array(self.job.dataflow.edge_indices, dtype=np.int64).reshape(-1, 2)
        return torch.from_numpy(np.ascontiguousarray(edges.T))

    def _embed(
        self,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float],
        edge_ratios: Mapping[tuple[str, str], float] | None,
    ) -> torch.Tensor:
        features = self.bundle.features.encode(self.job.dataflow, source_rates, selectivities, edge_ratios)
        return self.model.embed(torch.from_numpy(features), self._edge_index)

    def vectors(
        self,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float],
        edge_ratios: Mapping[tuple[str, str], float] | None = None,
    ) -> dict[str, Floats]:
        """The parallelism-agnostic vector of every operator."""
        found = self._embed(source_rates, selectivities, edge_ratios).numpy().astype(np.float64)
        return dict(zip(self.job.dataflow.index, found, strict=True))

    def thresholds(
        self,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float],
        edge_ratios: Mapping[tuple[str, str], float] | None = None,
    ) -> dict[str, int]:
        """The least parallelism of every operator that the encoder itself calls safe."""
        agnostic = self._embed(source_rates, selectivities, edge_ratios)

        def probability_at(p: int) -> Floats:
            log_p = torch.full((len(agnostic),), float(scaled_log(p)))
            return self.model.probability_at(agnostic, log_p).numpy().astype(np.float64)

        degrees = smallest_safe(probability_at, self.job.max_parallelism)
        found = zip(self.job.dataflow.index, degrees, strict=True)
        return {key: min(int(degree), self.job.limit_of(key)) for key, degree in found}

    def warmup(self, rows: int, seed: int) -> tuple[Floats, Ints, Ints]:
        """Vectors, parallelism and labels of past operators in this cluster; at most ``rows``, drawn by ``seed``."""
        graphs = graphs_of(self.model.warmup, self.bundle.features)
        batch = graphs.batch()
        vectors = self.model.embed(batch.features, batch.edge_index).numpy().astype(np.float64)
        labelled = np.flatnonzero(graphs.labels >= 0)
        if len(labelled) > rows:
            labelled = np.sort(np.random.default_rng(seed).choice(labelled, rows, replace=False))
        return vectors[labelled], graphs.parallelism[labelled], graphs.labels[labelled].astype(np.int64)
