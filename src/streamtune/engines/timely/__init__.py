"""The Timely engine: a real dataflow system without backpressure. Needs the extra ``streamtune[timely]``."""

from streamtune.engines.timely.engine import TimelyEngine, run_to_the_end
from streamtune.engines.timely.latency import EpochLatencies
from streamtune.engines.timely.placement import Placement
from streamtune.engines.timely.settings import TimelySettings

__all__ = ["EpochLatencies", "Placement", "TimelyEngine", "TimelySettings", "run_to_the_end"]
