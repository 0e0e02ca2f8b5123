"""Pre-trained encoders: a graph neural network per cluster that sees operator-level bottlenecks.

Importing this room loads torch; nothing else in StreamTune does unless it is asked for a learned model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.models.encoder.graphs import Batch, GraphSet, scaled_log
    from streamtune.models.encoder.network import BottleneckNetwork
    from streamtune.models.encoder.settings import NetworkSettings, TrainingSettings
    from streamtune.models.encoder.training import Trained, train
else:
    __getattr__ = lazily(
        __name__,
        {
            "graphs": ["Batch", "GraphSet", "scaled_log"],
            "network": ["BottleneckNetwork"],
            "settings": ["NetworkSettings", "TrainingSettings"],
            "training": ["Trained", "train"],
        },
    )

__all__ = [
    "Batch",
    "BottleneckNetwork",
    "GraphSet",
    "NetworkSettings",
    "Trained",
    "TrainingSettings",
    "scaled_log",
    "train",
]
