"""The embedded engine: a fluid model over bounded buffers that behaves like Flink where it matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamtune.lazy import lazily

if TYPE_CHECKING:
    from streamtune.engines.simulator.engine import Simulator, simulate_once
    from streamtune.engines.simulator.oracle import OraclePlan, find_oracle
    from streamtune.engines.simulator.settings import MeasurementError, SimulatorSettings
else:
    __getattr__ = lazily(
        __name__,
        {
            "engine": ["Simulator", "simulate_once"],
            "oracle": ["OraclePlan", "find_oracle"],
            "settings": ["MeasurementError", "SimulatorSettings"],
        },
    )

__all__ = [
    "MeasurementError",
    "OraclePlan",
    "Simulator",
    "SimulatorSettings",
    "find_oracle",
    "simulate_once",
]
