"""ZeroTune as a tuner: sample plans, predict their cost, take the cheapest (Agnihotri et al., ICDE 2024)."""

from __future__ import annotations

import math

from streamtune.dataflow import Job, Observation
from streamtune.dataflow.hosts import Cluster
from streamtune.errors import TuningError
from streamtune.models.costmodel.advice import advise
from streamtune.models.costmodel.model import CostModel
from streamtune.models.costmodel.settings import AdviceSettings
from streamtune.readings.selectivity import selectivity
from streamtune.tuners.base import Recommendation, Tuner
from streamtune.tuners.settings import ZeroTuneSettings

_FEWEST_CANDIDATES = 100


class ZeroTune(Tuner):
    """The plan of least predicted cost among at least 100 candidates (Eq. 1), for the source rates of the observation.

    Everything is decided before a run: of an observation it uses the rates, and the selectivities that were
    measured; it ignores backpressure and busy times. So it reconfigures once per change of rates and never corrects
    itself. The published objective has no term for resources (``resource_weight`` 0): it over-provisions.
    """

    name = "zerotune"

    def __init__(
        self,
        job: Job,
        model: CostModel,
        cluster: Cluster | None = None,
        settings: AdviceSettings | None = None,
    ) -> None:
        super().__init__(job)
        self._model = model
        self._cluster = cluster or model.encoder.usual_cluster
        self._settings = settings or ZeroTuneSettings()
        if self._settings.candidates < _FEWEST_CANDIDATES:
            raise TuningError(
                f"zerotune compares at least {_FEWEST_CANDIDATES} plans, but got {self._settings.candidates}"
            )
        self._selectivities: dict[str, float] = {}

    def learn(self, observation: Observation) -> None:
        for key, metrics in observation.operators.items():
            seen = selectivity(metrics, math.nan)
            if math.isfinite(seen):
                self._selectivities[key] = seen

    def recommend(self, observation: Observation) -> Recommendation:
        sources = [source.id for source in self.job.dataflow.sources]
        cores = self._cluster.cores
        fixed = {key: min(observation.operators[key].parallelism, self.job.limit_of(key), cores) for key in sources}
        advice = advise(
            self._model,
            self.job,
            self._cluster,
            self._settings,
            rates=observation.source_rates,
            selectivities=self._selectivities,
            fixed=fixed,
        )
        predicted = (
            f"{advice.latency_ms:,.0f} ms and {advice.throughput_per_s:,.0f} records/s are predicted for this plan: "
            f"the least cost of {len(advice.costs)} plans"
        )
        why = dict.fromkeys(advice.plan, predicted)
        why |= dict.fromkeys(sources, "a source: kept as it is")
        figures = {
            key: {"latency_ms": advice.latency_ms, "throughput_per_s": advice.throughput_per_s} for key in advice.plan
        }
        return Recommendation(advice.plan, why, figures)
