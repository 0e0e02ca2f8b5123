"""The Timely engine: a real dataflow system without backpressure. Needs the extra ``streamtune[timely]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.engines.timely.engine import TimelyEngine, run_to_the_end
    from streamtune.engines.timely.latency import EpochLatencies
    from streamtune.engines.timely.placement import Placement
    from streamtune.engines.timely.settings import TimelySettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "engine": ["TimelyEngine", "run_to_the_end"],
            "latency": ["EpochLatencies"],
            "placement": ["Placement"],
            "settings": ["TimelySettings"],
        },
    )

__all__ = ["EpochLatencies", "Placement", "TimelyEngine", "TimelySettings", "run_to_the_end"]
