"""The features of Table I: fitted once on the training part of a history, reapplied unchanged online."""

from streamtune.features.demand import seen_selectivity
from streamtune.features.encoder import (
    CATEGORIES,
    NUMBERS,
    STATIC_NUMBERS,
    CategoryColumn,
    FeatureEncoder,
    OperatorColumns,
)

__all__ = [
    "CATEGORIES",
    "NUMBERS",
    "STATIC_NUMBERS",
    "CategoryColumn",
    "FeatureEncoder",
    "OperatorColumns",
    "seen_selectivity",
]
