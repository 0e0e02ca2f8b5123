"""Table I of the ZeroTune paper as numbers: categories one-hot, numbers as robustly scaled logarithms.

The scaler is fitted on training plans alone: values of a category that it never saw go to a slot of their own, numbers
outside the fitted range are not cut off. Three numbers are ours: ``demand``, the rate that reaches an operator when the
event rates are carried through the DAG by the selectivities, ``demand_per_instance``, and ``arrived_share``, below 1
where a source was asked for more than arrived. ``known_jobs`` adds the identity of operators: right for jobs that run
again and again, of no use for jobs never seen.

Where a selectivity is not known (before the first run), the estimate of OptiSample stands in, marked ``is_estimated``.
Filter functions and literals are not in our job specs and so not here; the node identifier is the node itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from streamtune.dataflow.hosts import Cluster, Host
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen
from streamtune.models.costmodel.columns import CATEGORIES, HOST_NUMBERS, PlanColumns
from streamtune.models.costmodel.graphs import GROUPS, PlanGraphs, group_of
from streamtune.models.costmodel.settings import FeatureSet
from streamtune.readings.demand import demanded_rates

Floats = npt.NDArray[np.float64]

NUMBERS = (
    "window_seconds",
    "slide_seconds",
    "window_tuples",
    "slide_tuples",
    "tuple_width_in",
    "tuple_width_out",
    "selectivity",
    "event_rate",
    "arrived_share",
    "demand",
    "parallelism",
    "grouping",
    "demand_per_instance",
)
FLAGS = ("is_estimated",)
UNKNOWN = "unknown"
FEATURES_VERSION = 2
_PARALLELISM = frozenset({"partitioning", "parallelism", "grouping", "demand_per_instance"})
_DERIVED = frozenset({"demand", "demand_per_instance", "arrived_share"})
_IDENTITY = frozenset({"id"})
# Selectivities and seconds are below 1: logarithms with a floor instead of log(1 + x), which would flatten them.
_FLOOR = 1e-4
# Quartiles closer than this share of the standard deviation do not measure spread.
_FLAT = 0.1


class PlanEncoder(Frozen):
    """A fitted encoder."""

    version: int = FEATURES_VERSION
    feature_set: FeatureSet = Field(
        default="all", description="which features are used; others are left out (ablation)"
    )
    categories: dict[str, tuple[str, ...]]
    centre: dict[str, float] = Field(description="median of each logarithm in the training plans")
    spread: dict[str, float] = Field(description="distance of their quartiles")
    low: dict[str, float] = Field(description="smallest value in the training plans")
    high: dict[str, float] = Field(description="largest value in the training plans")
    selectivities: dict[str, float] = Field(description="geometric mean by operator type in the training plans")
    most_hosts: int = Field(ge=1, description="hosts of the largest cluster in the training plans")

    @classmethod
    def fit(cls, columns: PlanColumns, feature_set: FeatureSet = "all") -> Self:
        """From training plans, and nothing else."""
        selectivities = _usual_selectivities(columns)
        values = {**_operator_numbers(columns, selectivities)[0], **columns.hosts}
        centre, spread, low, high = {}, {}, {}, {}
        for name in (*NUMBERS, *HOST_NUMBERS):
            known = values[name][np.isfinite(values[name])]
            logs = _log(known) if len(known) else np.zeros(1)
            quartiles = np.percentile(logs, [25, 50, 75])
            centre[name] = float(quartiles[1])
            # Where more than half of the values are (almost) the same the quartiles say nothing: real selectivities
            # are 0.999999 or 7, and a spread of 0.000001 would throw the 7 out of every network's reach.
            apart, deviation = float(quartiles[2] - quartiles[0]), float(logs.std())
            spread[name] = (apart if apart > _FLAT * deviation else deviation) or 1.0
            low[name], high[name] = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        return cls(
            feature_set=feature_set,
            categories={
                name: tuple(sorted({column.values[i] for i in np.unique(column.positions) if i >= 0}))
                for name, column in columns.categories.items()
                if name not in _IDENTITY or feature_set == "known_jobs"
            },
            centre=centre,
            spread=spread,
            low=low,
            high=high,
            selectivities=selectivities,
            most_hosts=int(columns.host_counts.max()),
        )

    @property
    def usual_cluster(self) -> Cluster:
        """The most hosts that a training plan had, each at the median: for jobs whose hosts are not known."""
        usual = {name: float(np.exp(self.centre[name]) - _FLOOR) for name in HOST_NUMBERS}
        host = Host(kind="usual", cores=max(1, round(usual.pop("cores"))), **usual)
        return Cluster((host,) * self.most_hosts)

    @property
    def names(self) -> list[str]:
        """What each feature of an operator means."""
        slots = [f"{name}={value}" for name in self._used(CATEGORIES) for value in (*self.categories[name], UNKNOWN)]
        return [*slots, *self._used(NUMBERS), *self._used(FLAGS)]

    @property
    def width(self) -> int:
        return len(self.names)

    @property
    def host_width(self) -> int:
        return len(self.host_names)

    @property
    def host_names(self) -> tuple[str, ...]:
        return () if self.feature_set == "operator" else HOST_NUMBERS

    def _used(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if self.feature_set != "known_jobs":
            names = tuple(name for name in names if name not in _IDENTITY)
        match self.feature_set:
            case "operator":
                return tuple(name for name in names if name not in _PARALLELISM)
            case "parallelism_and_resource":
                # The event rate stays: without any load there is nothing to be parallel about.
                return tuple(name for name in names if name in _PARALLELISM | {"type", "event_rate"})
            case "table_one":
                return tuple(name for name in names if name not in _DERIVED)
            case _:
                return names

    def transform(self, columns: PlanColumns) -> PlanGraphs:
        """Plans as graphs with features."""
        values, is_estimated = _operator_numbers(columns, self.selectivities)
        blocks = [self._one_hot(columns, name) for name in self._used(CATEGORIES)]
        blocks += [self._scaled(values[name], name)[:, None] for name in self._used(NUMBERS)]
        if self._used(FLAGS):
            blocks.append(is_estimated[:, None].astype(np.float32))
        hosts = [self._scaled(columns.hosts[name], name)[:, None] for name in self.host_names]
        types = columns.categories["type"]
        groups = np.array([*(group_of(kind) for kind in types.values), len(GROUPS) - 1])[types.positions]
        return PlanGraphs.of(
            columns,
            np.concatenate(blocks, axis=1).astype(np.float32),
            np.concatenate(hosts, axis=1) if hosts else np.zeros((len(columns.hosts["cores"]), 0), dtype=np.float32),
            groups,
        )

    def _one_hot(self, columns: PlanColumns, name: str) -> npt.NDArray[np.float32]:
        column, known = columns.categories[name], self.categories[name]
        slots = np.array([*(known.index(v) if v in known else len(known) for v in column.values), -1])[column.positions]
        block = np.zeros((len(slots), len(known) + 1), dtype=np.float32)
        has = slots >= 0
        block[np.flatnonzero(has), slots[has]] = 1.0
        return block

    def _scaled(self, values: Floats, name: str) -> npt.NDArray[np.float32]:
        scaled = (_log(values) - self.centre[name]) / self.spread[name]
        return np.nan_to_num(scaled, nan=0.0).astype(np.float32)

    def outside(self, columns: PlanColumns) -> list[str]:
        """What lies outside the training range, in words: where the model has to extrapolate."""
        values = {**_operator_numbers(columns, self.selectivities)[0], **columns.hosts}
        found = []
        for name in (*self._used(NUMBERS), *self.host_names):
            known = values[name][np.isfinite(values[name])]
            if len(known) and (known.min() < self.low[name] * 0.999 or known.max() > self.high[name] * 1.001):
                found.append(
                    f"{name.replace('_', ' ')} {known.min():g} … {known.max():g} "
                    f"(trained on {self.low[name]:g} … {self.high[name]:g})"
                )
        for name in self._used(CATEGORIES):
            column = columns.categories[name]
            present = {column.values[i] for i in np.unique(column.positions) if i >= 0}
            found += [
                f"{name.replace('_', ' ')} '{v}' (never seen)" for v in sorted(present - {*self.categories[name]})
            ]
        return found

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            encoder = cls.model_validate_json(text)
        except ValidationError as error:
            raise StreamTuneError(f"this is not an encoder of plans: {error.errors()[0]['msg']}") from error
        if encoder.version != FEATURES_VERSION:
            raise StreamTuneError(f"the encoder of plans has version {encoder.version}, not {FEATURES_VERSION}")
        return encoder


def _log(values: Floats) -> Floats:
    logs: Floats = np.log(np.maximum(values, 0.0) + _FLOOR)
    return logs


def _usual_selectivities(columns: PlanColumns) -> dict[str, float]:
    types, seen = columns.categories["type"], columns.numbers["selectivity"]
    usual = {}
    for position, kind in enumerate(types.values):
        known = seen[(types.positions == position) & (seen > 0)]
        if len(known):
            usual[kind] = float(np.exp(np.log(known).mean()))
    return dict(sorted(usual.items()))


def _operator_numbers(
    columns: PlanColumns, usual: Mapping[str, float]
) -> tuple[dict[str, Floats], npt.NDArray[np.bool_]]:
    """``NUMBERS`` of N operators, and which of their selectivities are estimates."""
    raw = columns.numbers
    length = raw["window_length"]
    slide = np.where(np.isnan(raw["window_slide"]), length, raw["window_slide"])  # a tumbling window moves on whole
    policy = _is(columns, "window_policy", "count")
    types = columns.categories["type"]
    estimate = np.array([*(usual.get(kind, 1.0) for kind in types.values), 1.0])[types.positions]
    counts_groups = _is(columns, "type", "window_aggregate") & policy & (slide > 0)
    estimate = np.where(counts_groups, 1.0 / np.where(counts_groups, slide, 1.0), estimate)
    is_estimated = ~np.isfinite(raw["selectivity"])
    selectivity = np.where(is_estimated, estimate, raw["selectivity"])
    offset = np.repeat(np.concatenate(([0], np.cumsum(columns.sizes)[:-1])), columns.edge_counts)
    demand = demanded_rates(raw["event_rate"], selectivity, columns.edges[0] + offset, columns.edges[1] + offset)
    values = {
        "window_seconds": np.where(policy, np.nan, length),
        "slide_seconds": np.where(policy, np.nan, slide),
        "window_tuples": np.where(policy, length, np.nan),
        "slide_tuples": np.where(policy, slide, np.nan),
        "tuple_width_in": raw["tuple_width_in"],
        "tuple_width_out": raw["tuple_width_out"],
        "selectivity": selectivity,
        "event_rate": np.where(raw["event_rate"] > 0, raw["event_rate"], np.nan),
        "arrived_share": _share(raw["event_rate"], raw["nominal_rate"]),
        "demand": demand,
        "parallelism": raw["parallelism"],
        "grouping": raw["grouping"],
        "demand_per_instance": demand / raw["parallelism"],
    }
    return values, is_estimated


def _share(arrived: Floats, asked: Floats) -> Floats:
    """Of sources; NaN elsewhere."""
    share: Floats = np.divide(arrived, asked, out=np.full_like(arrived, np.nan), where=(arrived > 0) & (asked > 0))
    return share


def _is(columns: PlanColumns, name: str, value: str) -> npt.NDArray[np.bool_]:
    column = columns.categories[name]
    places = [place for place, known in enumerate(column.values) if known == value]
    return np.isin(column.positions, places)
