"""Static features of operators and their rates as numbers (StreamTune Section IV-A and Table I).

Categories become one-hot blocks with a last slot for values that the training part did not have; an operator without
the feature (no window, say) has zeros there. Numbers are min-max scaled logarithms; a missing one is 0. Values outside
the fitted range are not cut off: a rate above all known ones must still look higher. Parallelism is not a feature:
it is what tuning decides (the paper fuses it in later). ``demand`` is ours: see ``streamtune.readings.demand``.

An operator is kept in two compact rows, ``codes`` and ``numbers``; ``dense`` expands them for a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from streamtune.dataflow import Dataflow
from streamtune.dataflow.features import CATEGORIES, STATIC_NUMBERS, table_one
from streamtune.errors import StreamTuneError
from streamtune.frozen import Frozen
from streamtune.readings.demand import demanded_rates, per_edge

NUMBERS = (*STATIC_NUMBERS, "source_rate", "demand")
UNKNOWN = "unknown"
ENCODER_VERSION = 2

Codes = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]


class FeatureError(StreamTuneError):
    """A feature encoder that cannot be read or fitted."""


@dataclass(frozen=True, slots=True)
class CategoryColumn:
    """One category of N operators: positions in ``values``, −1 where an operator does not have it."""

    positions: npt.NDArray[np.int64]
    values: Sequence[str]

    @classmethod
    def of(cls, texts: Iterable[str | None]) -> CategoryColumn:
        column = list(texts)
        values = sorted({text for text in column if text is not None})
        where = {value: position for position, value in enumerate(values)}
        return cls(np.array([where.get(text, -1) if text else -1 for text in column], dtype=np.int64), values)


@dataclass(frozen=True, slots=True)
class FeatureColumns:
    """Table I of N operators, column by column; ``categories`` has their ids as well."""

    categories: Mapping[str, CategoryColumn]
    numbers: Mapping[str, npt.NDArray[np.float64]]


def feature_columns(dataflow: Dataflow) -> FeatureColumns:
    """Table I of one dataflow's operators; numbers are NaN where an operator does not have them."""
    rows = [table_one(operator) for operator in dataflow.operators]
    texts = {name: [row[name] for row in rows] for name in ("id", *CATEGORIES)}
    return FeatureColumns(
        {name: CategoryColumn.of(None if v is None else str(v) for v in values) for name, values in texts.items()},
        {
            name: np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)
            for name in STATIC_NUMBERS
        },
    )


@dataclass(frozen=True, slots=True)
class OperatorColumns:
    """The raw features of N operators, column by column; numbers are NaN where an operator does not have them.

    The two rates are made from ``offered`` (the rate of a source, 0 elsewhere), ``selectivity`` (as seen, NaN where
    not) and the E edges, with ``edge_ratio`` records over an edge per record into its writer (NaN where not counted).
    """

    categories: Mapping[str, CategoryColumn]
    numbers: Mapping[str, npt.NDArray[np.float64]]
    offered: npt.NDArray[np.float64]
    selectivity: npt.NDArray[np.float64]
    edge_source: npt.NDArray[np.int64]
    edge_target: npt.NDArray[np.int64]
    edge_ratio: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        dataflow: Dataflow,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float] | None = None,
        edge_ratios: Mapping[tuple[str, str], float] | None = None,
    ) -> OperatorColumns:
        """The operators of one dataflow, with the selectivities seen while it ran, as far as it ran."""
        operators, seen = dataflow.operators, selectivities or {}
        edges = np.array(dataflow.edge_indices, dtype=np.int64).reshape(-1, 2)
        columns = feature_columns(dataflow)
        return cls(
            categories={name: columns.categories[name] for name in CATEGORIES},
            numbers={name: columns.numbers[name] for name in STATIC_NUMBERS},
            offered=np.array([source_rates.get(operator.id, 0.0) for operator in operators], dtype=np.float64),
            selectivity=np.array([seen.get(operator.id, np.nan) for operator in operators], dtype=np.float64),
            edge_source=edges[:, 0],
            edge_target=edges[:, 1],
            edge_ratio=per_edge(dataflow, edge_ratios),
        )

    def rates(self, usual_selectivity: Mapping[str, float]) -> dict[str, npt.NDArray[np.float64]]:
        """``source_rate``, above 0 for the first operators behind a source alone, and ``demand``."""
        first = np.bincount(self.edge_target, weights=self.offered[self.edge_source], minlength=len(self.offered))
        kinds = self.categories["type"]
        usual = np.array([*(usual_selectivity.get(kind, 1.0) for kind in kinds.values), 1.0])[kinds.positions]
        selectivity = np.where(np.isfinite(self.selectivity), self.selectivity, usual)
        return {
            "source_rate": first.astype(np.float64),
            "demand": demanded_rates(self.offered, selectivity, self.edge_source, self.edge_target, self.edge_ratio),
        }


class FeatureEncoder(Frozen):
    """A fitted encoder: which values a category had, and the range of each number, in the training part."""

    version: int = ENCODER_VERSION
    categories: dict[str, tuple[str, ...]]
    ranges: dict[str, tuple[float, float]] = Field(description="smallest and largest value, before the logarithm")
    selectivities: dict[str, float] = Field(
        default_factory=dict, description="geometric mean by operator type, for operators that were not seen running"
    )

    @classmethod
    def fit(
        cls,
        values: Mapping[str, Iterable[str]],
        ranges: Mapping[str, tuple[float, float]],
        selectivities: Mapping[str, float] | None = None,
    ) -> Self:
        """From a summary: all values of each category, smallest and largest of each number (absent: never given).

        >>> encoder = FeatureEncoder.fit({"type": ["sink", "map"]}, {"tuple_width_in": (1, 9)})
        >>> encoder.categories["type"], encoder.ranges["source_rate"]
        (('map', 'sink'), (0.0, 0.0))
        """
        for name in (*values, *ranges):
            if name not in (*CATEGORIES, *NUMBERS):
                raise FeatureError(f"'{name}' is not a feature: Table I has {', '.join((*CATEGORIES, *NUMBERS))}")
        fitted = {name: ranges.get(name, (0.0, 0.0)) for name in NUMBERS}
        return cls(
            categories={name: tuple(sorted(set(values.get(name, ())) - {UNKNOWN})) for name in CATEGORIES},
            ranges={name: (float(low), float(high)) for name, (low, high) in fitted.items()},
            selectivities=dict(sorted((selectivities or {}).items())),
        )

    @property
    def names(self) -> list[str]:
        """What each of the dense columns means."""
        slots = [f"{name}={value}" for name in CATEGORIES for value in (*self.categories[name], UNKNOWN)]
        return [*slots, *NUMBERS]

    @property
    def width(self) -> int:
        return len(self.names)

    def codes(self, columns: OperatorColumns) -> Codes:
        """N × 8: the slot of each category, −1 where an operator does not have it."""
        result = np.empty((len(columns.categories["type"].positions), len(CATEGORIES)), dtype=np.int16)
        for place, name in enumerate(CATEGORIES):
            column, known = columns.categories[name], self.categories[name]
            where = {value: slot for slot, value in enumerate(known)}
            slots = [where.get(value, len(known)) for value in column.values]
            result[:, place] = np.array([*slots, -1], dtype=np.int16)[column.positions]
        return result

    def numbers(self, columns: OperatorColumns) -> Floats:
        """N × 6: scaled logarithms."""
        values = {**columns.numbers, **columns.rates(self.selectivities)}
        result = np.empty((len(columns.offered), len(NUMBERS)), dtype=np.float32)
        for place, name in enumerate(NUMBERS):
            low, high = np.log1p(self.ranges[name])
            scaled = (np.log1p(values[name]) - low) / (high - low if high > low else 1.0)
            result[:, place] = np.nan_to_num(scaled, nan=0.0)
        return result

    def dense(self, codes: npt.NDArray[np.integer], numbers: npt.NDArray[np.floating]) -> Floats:
        """N × ``width``: one-hot categories, then numbers."""
        codes, numbers = np.asarray(codes).reshape(-1, len(CATEGORIES)), np.asarray(numbers).reshape(-1, len(NUMBERS))
        sizes = [len(self.categories[name]) + 1 for name in CATEGORIES]
        starts = np.cumsum([0, *sizes[:-1]])
        result = np.zeros((len(codes), sum(sizes) + len(NUMBERS)), dtype=np.float32)
        rows, places = np.nonzero(codes >= 0)
        result[rows, starts[places] + codes[rows, places]] = 1.0
        result[:, sum(sizes) :] = numbers
        return result

    def transform(self, columns: OperatorColumns) -> Floats:
        return self.dense(self.codes(columns), self.numbers(columns))

    def encode(
        self,
        dataflow: Dataflow,
        source_rates: Mapping[str, float],
        selectivities: Mapping[str, float] | None = None,
        edge_ratios: Mapping[tuple[str, str], float] | None = None,
    ) -> Floats:
        """The operators of a running job, in the order of ``dataflow.operators``."""
        return self.transform(OperatorColumns.of(dataflow, source_rates, selectivities, edge_ratios))

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            encoder = cls.model_validate_json(text)
        except ValidationError as error:
            raise FeatureError(f"this is not a feature encoder: {error.errors()[0]['msg']}") from error
        if encoder.version != ENCODER_VERSION:
            raise FeatureError(
                f"the feature encoder has version {encoder.version}, this release reads {ENCODER_VERSION}"
            )
        return encoder

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise FeatureError(f"the feature encoder '{path}' cannot be read: {error.strerror}") from error
