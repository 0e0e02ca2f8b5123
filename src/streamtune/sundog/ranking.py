"""Phase 3: features and counts merged, a score per pair, and the top k of every entity.

Without a model the score is p(related | entity) by users, the thesis' remedy against fans who search all day. Ties go
by users, then events, then the related entity's id, so that a ranking never depends on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamtune.sundog.features import FEATURES, PairCounts, compute_features
from streamtune.sundog.kernels.compilation import read_only
from streamtune.sundog.kernels.ordering import first_of_groups

if TYPE_CHECKING:
    from streamtune.sundog.windows import Catalogue, Totals

FEATURE_TABLE, RANKING_TABLE = "features", "rankings"
COUNTS = ("events", "users", "entity_events", "entity_users", "related_events", "related_users")
_CODES = ("entity_type", "related_type", "relation_type", "reverse_relation_type", "relations")


class Scorer(Protocol):
    """Scores pairs by their features (one row each, columns as in ``FEATURES``); the same on every worker."""

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]: ...


@dataclass(frozen=True)
class OneFeature:
    """The score is one of the features."""

    name: str = "conditional_users"

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return features[:, FEATURES.index(self.name)]


@dataclass(frozen=True)
class DirectedCounts(PairCounts):
    """Counts with the numbers of the two entities."""

    entity: NDArray[np.int32]
    related: NDArray[np.int32]


def pair_counts(
    directed: NDArray[np.int64],
    events: NDArray[np.int64],
    users: NDArray[np.int64],
    catalogue: Catalogue,
    totals: Totals,
) -> DirectedCounts:
    """Counts of directed pairs, sorted by entity and related entity."""
    pair, back = directed >> 1, (directed & 1).astype(bool)
    low, high = catalogue.low[pair], catalogue.high[pair]
    entity, related = np.where(back, high, low), np.where(back, low, high)
    order = np.argsort(entity.astype(np.int64) << 32 | related.astype(np.int64))
    pair, back, entity, related = pair[order], back[order], entity[order], related[order]
    forward, backward = catalogue.forward_type[pair], catalogue.backward_type[pair]
    return DirectedCounts(
        events=events[order],
        users=users[order],
        entity_events=totals.events[entity + 1],
        entity_users=totals.users[entity + 1],
        related_events=totals.events[related + 1],
        related_users=totals.users[related + 1],
        entity_type=catalogue.entity_type[entity],
        related_type=catalogue.entity_type[related],
        relation_type=np.where(back, backward, forward),
        reverse_relation_type=np.where(back, forward, backward),
        relations=catalogue.relations[pair],
        entity=entity,
        related=related,
    )


def tables(
    counts: DirectedCounts, ids: pa.StringArray, totals: Totals, scorer: Scorer, top: int
) -> tuple[pa.Table, pa.Table]:
    """The rows of ``features`` and of ``rankings`` for these pairs."""
    matrix = compute_features(counts, int(totals.events[0]), int(totals.users[0]))
    score = scorer.score(matrix)
    place, rank = top_rows(counts, score, top)
    numbers = [getattr(counts, name) for name in COUNTS]
    features = [matrix[:, number] for number, name in enumerate(FEATURES) if name not in _CODES]
    codes = [getattr(counts, name) for name in _CODES]
    entity, related = _named(ids, counts.entity), _named(ids, counts.related)
    chosen = pa.array(place)
    columns = [rank.astype(np.int32), score[place].astype(np.float32), *(column[place] for column in numbers)]
    return (
        _table(FEATURE_TABLE, [entity, related], [*numbers, *features, *codes]),
        _table(RANKING_TABLE, [entity.take(chosen), related.take(chosen)], columns),
    )


def _named(ids: pa.StringArray, numbers: NDArray[np.int32]) -> pa.DictionaryArray:
    """Ids as a column that names each of them once: millions of texts need not be made to be written."""
    is_used = np.zeros(len(ids), np.bool_)
    is_used[numbers] = True
    place = np.cumsum(is_used, dtype=np.int32) - 1
    return pa.DictionaryArray.from_arrays(pa.array(place[numbers]), ids.take(pa.array(np.flatnonzero(is_used))))


def _table(kind: str, names: list[pa.DictionaryArray], columns: list[NDArray[Any]]) -> pa.Table:
    """To be written without Arrow's own schema (``store_schema``): then readers get ids as plain texts."""
    named = [field.name for field in _schema(kind)]
    return pa.Table.from_arrays([*names, *map(pa.array, columns)], names=named)


def top_rows(
    counts: DirectedCounts, score: NDArray[np.float32], top: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the first ``top`` of every entity in order, and their ranks from 1."""
    scores = read_only(np.ascontiguousarray(score))
    return first_of_groups(read_only(counts.entity), scores, read_only(counts.users), read_only(counts.events), top)


def _schema(table: str) -> pa.Schema:
    pair = [("entity", pa.string()), ("related", pa.string())]
    numbers = [(name, pa.int64()) for name in COUNTS]
    if table == RANKING_TABLE:
        return pa.schema([*pair, ("rank", pa.int32()), ("score", pa.float32()), *numbers])
    plain = [(name, pa.float32()) for name in FEATURES if name not in _CODES]
    return pa.schema([*pair, *numbers, *plain, *((name, pa.int16()) for name in _CODES)])


def empty_table(table: str) -> pa.Table:
    """No rows, but the columns."""
    return _schema(table).empty_table()
