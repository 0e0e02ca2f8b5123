"""A real Flink: attach to its jobs, watch them, rescale them."""

from streamtune.engines.flink.client import FlinkClient
from streamtune.engines.flink.engine import FlinkEngine, FlinkSettings
from streamtune.engines.flink.overrides import Overrides, load_overrides
from streamtune.engines.flink.rescaling import Program, RescaleSettings

__all__ = [
    "FlinkClient",
    "FlinkEngine",
    "FlinkSettings",
    "Overrides",
    "Program",
    "RescaleSettings",
    "load_overrides",
]
