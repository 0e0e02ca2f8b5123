"""What an observation says: bottleneck labels, selectivity, demand and capacity, by one kernel for Spark and online."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.readings.labels import BOTTLENECK, FINE, UNLABELLED, OperatorBatch, label_batch
    from streamtune.readings.online import label_observation
    from streamtune.readings.settings import LabelSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "labels": ["BOTTLENECK", "FINE", "UNLABELLED", "OperatorBatch", "label_batch"],
            "online": ["label_observation"],
            "settings": ["LabelSettings"],
        },
    )

__all__ = [
    "BOTTLENECK",
    "FINE",
    "UNLABELLED",
    "LabelSettings",
    "OperatorBatch",
    "label_batch",
    "label_observation",
]
