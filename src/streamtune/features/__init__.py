"""The features of Table I: fitted once on the training part of a history, reapplied unchanged online."""

from streamtune.features.encoder import CATEGORIES, NUMBERS, CategoryColumn, FeatureEncoder, OperatorColumns

__all__ = ["CATEGORIES", "NUMBERS", "CategoryColumn", "FeatureEncoder", "OperatorColumns"]
