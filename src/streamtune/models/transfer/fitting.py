"""Empirical Bayes from the sums of past operators: effects of features, scatter of types, worth of kinship."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import Dataflow
from streamtune.models.capacity.belief import LEVEL
from streamtune.models.capacity.prior import TypePrior, fit_type
from streamtune.models.splits import rank
from streamtune.models.transfer.design import TermModel, terms
from streamtune.models.transfer.kinship import CLOSENESS, find_kin
from streamtune.models.transfer.model import Hyperparameters
from streamtune.models.transfer.past import PastOperators
from streamtune.models.transfer.settings import KinSettings, PastSettings

Floats = npt.NDArray[np.float64]

# What sets operators of one type apart before anything is known of it, and what keeps a fit from being too sure.
_USUAL_SD = 0.4
_LEAST_SD = 0.02
# Pairs of relatives that stand for "nothing in common" in every class of kinship.
_UNRELATED_PAIRS = 10.0
_LEAST_READINGS = 2
_MOST_CORRELATED = 0.97

ClusterOf = Callable[[Dataflow], str]


@dataclass(frozen=True)
class _Left:
    """What is left of each past operator when its features are accounted for; NaN where it was not read."""

    level: Floats
    ratio: Floats


def fit_transfer(
    past: PastOperators, cluster_of: ClusterOf | None = None, settings: PastSettings | None = None
) -> Hyperparameters:
    """Fit all levels of the hierarchy; only operators of the training part count."""
    settings = settings or PastSettings()
    rows = [terms(past.features(row)) for row in range(len(past))]
    curves, levels, types = _fit_levels(past, rows)
    ratios, ratio_left, ratio_sd = _fit_selectivities(past, rows)
    left = _Left(_levels_left(past, curves, types), ratio_left)
    kin, kin_ratio, pairs = _fit_kinship(past, left, settings)
    return Hyperparameters(
        levels=levels,
        selectivities=ratios,
        types=types,
        selectivity_sd=ratio_sd,
        clusters={} if cluster_of is None else _fit_clusters(past, left.level, cluster_of),
        kin=kin,
        kin_selectivity=kin_ratio,
        kin_pairs=pairs,
    )


def _fit_levels(past: PastOperators, rows: list[dict[str, float]]) -> tuple[Floats, TermModel, dict[str, TypePrior]]:
    """Level of one instance by features, and by type how operators scatter around it.

    The level of an operator is read with the scaling of its type, which is fitted first without any features.
    """
    sums = past.sums
    read = (sums.count >= _LEAST_READINGS) & past.trains
    kinds = np.array(past.types)
    level, variance = np.full(len(past), np.nan), np.full(len(past), np.nan)
    for kind in sorted(set(kinds[read])):
        of_kind = read & (kinds == kind)
        level[of_kind], variance[of_kind] = _read_levels(past, of_kind, fit_type(sums.where(of_kind)))
    usable = np.flatnonzero(np.isfinite(level))
    model = TermModel.fit([rows[row] for row in usable], level[usable], variance[usable] + _USUAL_SD**2)
    for _ in range(2):  # once more with the scatter of each type that the first fit showed
        expected = model.predict(rows)[0]
        scatter = {
            kind: max(_LEAST_SD, float(np.std((level - expected)[usable][kinds[usable] == kind])))
            for kind in set(kinds[usable])
        }
        spread = np.array([scatter[kinds[row]] ** 2 for row in usable])
        model = TermModel.fit([rows[row] for row in usable], level[usable], variance[usable] + spread)
    expected = model.predict(rows)[0]
    apart = sums.less(expected)
    flat = _around_zero()
    types = {kind: fit_type(apart.where(read & (kinds == kind)), flat) for kind in sorted(set(kinds[read]))}
    return expected, model, types


def _around_zero() -> TypePrior:
    flat = TypePrior.flat()
    covariance = np.array(flat.covariance)
    covariance[LEVEL, LEVEL] = _USUAL_SD**2
    return flat.model_copy(
        update={"mean": (0.0, *flat.mean[1:]), "covariance": tuple(tuple(row) for row in covariance.tolist())}
    )


def _read_levels(past: PastOperators, chosen: npt.NDArray[np.bool_], prior: TypePrior) -> tuple[Floats, Floats]:
    """Level of each operator and its variance, from its own readings and the scaling of its type."""
    sums = past.sums.where(chosen)
    covariance = np.array(prior.covariance)
    covariance[LEVEL, :] = covariance[:, LEVEL] = 0.0
    covariance[LEVEL, LEVEL] = 100.0
    inverse = np.linalg.inv(covariance)
    spread = np.linalg.inv(inverse + sums.xx / prior.noise_sd**2)
    weights = np.einsum("gij,gj->gi", spread, inverse @ np.array(prior.mean) + sums.xy / prior.noise_sd**2)
    level: Floats = np.asarray(weights[:, LEVEL], dtype=np.float64)
    return level, np.asarray(spread[:, LEVEL, LEVEL], dtype=np.float64)


def _levels_left(past: PastOperators, expected: Floats, types: Mapping[str, TypePrior]) -> Floats:
    """By how much each operator, of training and testing part alike, differs from what its features say."""
    found = np.full(len(past), np.nan)
    read = past.sums.count >= _LEAST_READINGS
    kinds = np.array(past.types)
    for kind, prior in types.items():
        chosen = read & (kinds == kind)
        if chosen.any():
            found[chosen] = _read_levels(past, chosen, prior)[0] - expected[chosen] - prior.mean[LEVEL]
    return found


def _fit_selectivities(past: PastOperators, rows: list[dict[str, float]]) -> tuple[TermModel, Floats, dict[str, float]]:
    mean, variance = past.log_selectivity
    kinds = np.array(past.types)
    usable = np.flatnonzero(np.isfinite(mean) & past.trains)
    spread = np.full(len(past), _USUAL_SD**2)
    for _ in range(3):
        model = TermModel.fit([rows[row] for row in usable], mean[usable], (variance + spread)[usable])
        left = mean - model.predict(rows)[0]
        found = {
            kind: max(_LEAST_SD, float(np.sqrt(np.mean(left[usable][kinds[usable] == kind] ** 2))))
            for kind in sorted(set(kinds[usable]))
        }
        spread = np.array([found.get(kind, _USUAL_SD) ** 2 for kind in kinds])
    return model, left, {kind: float(f"{sd:.6g}") for kind, sd in found.items()}


def _fit_clusters(past: PastOperators, left: Floats, cluster_of: ClusterOf) -> dict[str, dict[str, float]]:
    """Mean of what is left by cluster and type, shrunk by how much clusters differ at all (method of moments)."""
    groups: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number, rows in enumerate(past.job_rows):
        cluster = cluster_of(past.job(number).dataflow)
        for row in rows:
            if np.isfinite(left[row]) and past.trains[row]:
                groups[cluster, past.types[row]].append(float(left[row]))
    several = [np.array(values) for values in groups.values() if len(values) > 1]
    if not several:
        return {}
    within = float(np.sum([((one - one.mean()) ** 2).sum() for one in several]) / sum(len(one) - 1 for one in several))
    between = float(np.mean([one.mean() ** 2 - within / len(one) for one in several]))
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (cluster, kind), values in sorted(groups.items()):
        if between > 0:
            kept = between / (between + within / len(values))
            found[cluster][kind] = float(f"{kept * float(np.mean(values)):.6g}")
    return dict(found)


def _fit_kinship(
    past: PastOperators, left: _Left, settings: PastSettings
) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
    """What is left of two operators that correspond, correlated: by class of kinship, over a sample of past jobs."""
    cross, power, pairs = np.zeros((2, len(CLOSENESS))), np.zeros((2, len(CLOSENESS))), np.zeros(len(CLOSENESS))
    place = {name: number for number, name in enumerate(CLOSENESS)}
    kinds = np.array(past.types)
    scaled = [_scaled(one, kinds) for one in (left.level, left.ratio)]
    sample = sorted(range(len(past.job_rows)), key=lambda number: rank("kin:" + past.names[past.job_rows[number][0]]))
    for number in sample[: settings.kin_sample]:
        job = past.job(number)
        for row, kin in zip(
            job.rows, find_kin(past, job.name, job.dataflow, KinSettings(), use_own=False), strict=True
        ):
            for one in kin:
                pairs[place[one.closeness]] += 1
                for measure, values in enumerate(scaled):
                    a, b = values[row], values[one.row]
                    if np.isfinite(a) and np.isfinite(b):
                        cross[measure, place[one.closeness]] += a * b
                        power[measure, place[one.closeness]] += (a * a + b * b) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = np.clip(cross / (power + _UNRELATED_PAIRS), 0.0, _MOST_CORRELATED)
    rounded = [[float(f"{value:.4g}") for value in line] for line in rho.tolist()]
    return (
        dict(zip(CLOSENESS, rounded[0], strict=True)),
        dict(zip(CLOSENESS, rounded[1], strict=True)),
        {name: int(pairs[number]) for name, number in place.items()},
    )


def _scaled(values: Floats, kinds: npt.NDArray[np.str_]) -> Floats:
    """In units of the scatter of each type, so that types compare; a type that never differs says nothing."""
    found = np.full(len(values), np.nan)
    for kind in set(kinds):
        of_kind = (kinds == kind) & np.isfinite(values)
        scatter = float(np.std(values[of_kind])) if of_kind.sum() > 2 else 0.0
        if scatter > _LEAST_SD:
            found[of_kind] = np.clip(values[of_kind] / scatter, -3, 3)
    return found
