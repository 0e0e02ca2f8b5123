"""``TransferModel``: the hierarchical prior of a new job's operators, kept in the bundle beside the past it rests on.

Four levels, each a setting: what the operator's type and features say (over all jobs), what its cluster adds, what the
operators of related jobs lend, and what the job's own past lends. The same for capacity curves and for selectivities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from streamtune.dataflow import Job
from streamtune.frozen import Frozen
from streamtune.models.capacity.belief import LEVEL, CapacityBelief
from streamtune.models.capacity.prior import PriorError, TypePrior
from streamtune.models.transfer.design import TermModel, terms
from streamtune.models.transfer.kinship import Kin, features_of, find_kin
from streamtune.models.transfer.lending import Lender, lend
from streamtune.models.transfer.past import PastOperators
from streamtune.models.transfer.settings import KinSettings

Floats = npt.NDArray[np.float64]


class Hyperparameters(Frozen):
    """What the history says about operators in general, as JSON in the bundle."""

    levels: TermModel = Field(default_factory=TermModel, description="log capacity of one instance by features")
    selectivities: TermModel = Field(default_factory=TermModel, description="log selectivity by features")
    types: Mapping[str, TypePrior] = Field(default_factory=dict, description="what is left, by type")
    selectivity_sd: Mapping[str, float] = Field(default_factory=dict, description="what is left of selectivity")
    clusters: Mapping[str, Mapping[str, float]] = Field(
        default_factory=dict, description="cluster → type → how its operators differ from others of their type"
    )
    kin: Mapping[str, float] = Field(default_factory=dict, description="correlation by closeness, of capacity")
    kin_selectivity: Mapping[str, float] = Field(default_factory=dict, description="the same of selectivity")
    kin_pairs: Mapping[str, int] = Field(default_factory=dict, description="pairs each of them rests on")

    @classmethod
    def from_json(cls, text: str) -> Hyperparameters:
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise PriorError(f"this is not a transfer prior: {error.errors()[0]['msg']}") from error


@dataclass(frozen=True)
class Levels:
    """Which levels of the hierarchy count."""

    features: bool = True
    cluster: bool = True
    relatives: bool = True
    own_past: bool = True
    kin: KinSettings = field(default_factory=KinSettings)


@dataclass(frozen=True)
class Origin:
    """One past operator behind a belief, and the share that it has in it."""

    job: str
    operator: str
    distance: int
    correlation: float
    readings: int
    is_own: bool

    def to_record(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "operator": self.operator,
            "distance": self.distance,
            "correlation": round(self.correlation, 3),
            "readings": self.readings,
            "own_past": self.is_own,
        }


@dataclass(frozen=True)
class OperatorPrior:
    """One operator before it has run: its capacity curve, its selectivity, and where that comes from."""

    belief: CapacityBelief
    log_selectivity: float
    selectivity_sd: float
    is_known: bool
    origins: tuple[Origin, ...] = ()
    seen_rate: float = 0.0
    seen_parallelism: int = 0


class TransferModel:
    """Hyperparameters and the past operators they were fitted to."""

    def __init__(self, hyper: Hyperparameters, past: PastOperators) -> None:
        self.hyper = hyper
        self.past = past
        self._known: dict[int, tuple[float, float]] = {}

    def _expected(self, rows: Iterable[int]) -> None:
        """What features predict of past operators, level and log selectivity: once for each that is needed."""
        missing = [row for row in dict.fromkeys(rows) if row not in self._known]
        if missing:
            told = [terms(self.past.features(row)) for row in missing]
            levels, ratios = self.hyper.levels.predict(told)[0], self.hyper.selectivities.predict(told)[0]
            self._known |= dict(zip(missing, zip(levels.tolist(), ratios.tolist(), strict=True), strict=True))

    def prior(self, job: Job, cluster: str, levels: Levels | None = None) -> dict[str, OperatorPrior]:
        """The prior of every operator of a job, sources included."""
        levels = levels or Levels()
        flow = job.dataflow
        rows = [terms(features) for features in features_of(flow)]
        level, level_var = self.hyper.levels.predict(rows)
        ratio, ratio_var = self.hyper.selectivities.predict(rows)
        kin = find_kin(self.past, job.name, flow, levels.kin, use_own=levels.own_past, use_relatives=levels.relatives)
        lending = [self._chosen(some, levels.kin) for some in kin]
        self._expected(one.row for some in lending for one, _, _ in some)
        found = {}
        for place, operator in enumerate(flow.operators):
            chosen = lending[place]
            known = levels.features and self.hyper.levels.knows(f"type={operator.type}")
            curve = self._curve(operator.type, known, float(level[place]), float(level_var[place]), cluster, levels)
            belief = self._belief(operator.type, known, curve, chosen)
            log_ratio, sd = self._selectivity(operator.type, float(ratio[place]), float(ratio_var[place]), chosen)
            most = self.past.most
            found[operator.id] = OperatorPrior(
                belief=belief,
                log_selectivity=log_ratio,
                selectivity_sd=sd,
                is_known=known or any(rho > 0 and self.past.sums.count[one.row] > 0 for one, rho, _ in chosen),
                origins=tuple(self._origin(one, rho) for one, rho, _ in chosen if rho > 0),
                seen_rate=max((float(most["most_rate"][one.row]) for one, _, _ in chosen), default=0.0),
                seen_parallelism=int(max((most["most_parallelism"][one.row] for one, _, _ in chosen), default=0)),
            )
        return found

    def _chosen(self, kin: list[Kin], settings: KinSettings) -> list[tuple[Kin, float, float]]:
        """The relatives that lend, each with its correlation of capacity and of selectivity."""
        found = []
        for one in kin:
            if one.is_own:
                rho = settings.own_correlation if one.is_same else self.hyper.kin.get(one.closeness, 0.0)
                found.append((one, rho, rho))
                continue
            closeness = one.closeness
            rho, rho_ratio = self.hyper.kin.get(closeness, 0.0), self.hyper.kin_selectivity.get(closeness, 0.0)
            if max(rho, rho_ratio) > 0:
                found.append((one, rho, rho_ratio))
        own = [entry for entry in found if entry[0].is_own]
        others = [entry for entry in found if not entry[0].is_own]
        others.sort(key=lambda entry: -entry[1])
        return [*own[: settings.most_relatives], *others[: settings.most_relatives]]

    def _curve(
        self, kind: str, known: bool, level: float, level_var: float, cluster: str, levels: Levels
    ) -> tuple[Floats, Floats, float]:
        """Mean and covariance of the weights by type, features and cluster, and the error of a reading."""
        left = self.hyper.types.get(kind)
        if not known or left is None:
            flat = left or TypePrior.flat()
            mean, covariance = np.array(TypePrior.flat().mean), np.array(TypePrior.flat().covariance)
            mean[1:], covariance[1:, 1:] = flat.mean[1:], np.array(flat.covariance)[1:, 1:]
            return mean, covariance, flat.noise_sd
        mean, covariance = np.array(left.mean), np.array(left.covariance)
        mean[LEVEL] += level
        if levels.cluster:
            mean[LEVEL] += self.hyper.clusters.get(cluster, {}).get(kind, 0.0)
        covariance[LEVEL, LEVEL] += level_var
        return mean, covariance, left.noise_sd

    def _belief(
        self, kind: str, known: bool, curve: tuple[Floats, Floats, float], chosen: list[tuple[Kin, float, float]]
    ) -> CapacityBelief:
        mean, covariance, noise = curve
        left = self.hyper.types.get(kind, TypePrior.flat())
        sums = self.past.sums
        lenders = []
        for one, rho, _ in chosen:
            if sums.count[one.row] == 0:
                continue
            usual = mean.copy()
            if known:
                usual = np.array(left.mean)
                usual[LEVEL] += self._known[one.row][0]
            precision = sums.xx[one.row] / noise**2
            lenders.append(Lender(rho, precision, sums.xy[one.row] / noise**2 - precision @ usual))
        return CapacityBelief(*lend(mean, covariance, lenders), noise)

    def _selectivity(
        self, kind: str, ratio: float, ratio_var: float, chosen: list[tuple[Kin, float, float]]
    ) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm."""
        spread = self.hyper.selectivity_sd.get(kind, 0.5)
        if not self.hyper.selectivities.knows(f"type={kind}"):
            ratio, ratio_var = 0.0, 0.25
        mean, variance = self.past.log_selectivity
        lenders = []
        for one, _, rho in chosen:
            if np.isfinite(mean[one.row]):
                precision = 1 / float(variance[one.row])
                apart = float(mean[one.row]) - self._known[one.row][1]
                lenders.append(Lender(rho, np.array([[precision]]), np.array([precision * apart])))
        found, left = lend(np.array([ratio]), np.array([[spread**2 + ratio_var]]), lenders)
        return float(found[0]), float(np.sqrt(left[0, 0]))

    def _origin(self, one: Kin, rho: float) -> Origin:
        readings = int(self.past.sums.count[one.row])
        return Origin(one.job, one.operator, one.distance, rho, readings, one.is_own)
