"""The embedded engine: a fluid model over bounded buffers that behaves like Flink where it matters."""

from streamtune.engines.simulator.engine import Simulator, simulate_once
from streamtune.engines.simulator.oracle import OraclePlan, find_oracle
from streamtune.engines.simulator.settings import MeasurementError, SimulatorSettings

__all__ = [
    "MeasurementError",
    "OraclePlan",
    "Simulator",
    "SimulatorSettings",
    "find_oracle",
    "simulate_once",
]
