"""What can be set about Flink; loads no HTTP client."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamtune.engines.base import MeasurementWindow
from streamtune.settings import Settings, with_default


class RescaleSettings(Settings):
    """How a job is rescaled."""

    mode: Literal["auto", "live", "restart"] = Field(
        default="auto", description="auto is live where Flink can, else by savepoint and restart"
    )
    timeout_s: float = Field(default=120.0, gt=0, description="how long a rescale may take")
    savepoint_timeout_s: float = Field(default=300.0, gt=0, description="how long a savepoint may take")
    savepoint_folder: str | None = Field(default=None, description="where savepoints go; None: as Flink is configured")
    poll_s: float = Field(default=0.5, gt=0, description="seconds between two looks")


class FlinkSettings(Settings):
    """Where Flink is, and how patient the engine is."""

    url: str = Field(default="http://127.0.0.1:8081", description="address of the JobManager's REST endpoint")
    poll_s: float = Field(default=1.0, gt=0, description="seconds between two looks at a job that is changing")
    start_timeout_s: float = Field(default=60.0, gt=0, description="how long a job may take until it runs")
    fetch_patience_s: float = Field(
        default=25.0, gt=0, description="how long to wait for the JobManager to fetch new metrics (10 s by default)"
    )
    rescale: RescaleSettings = Field(default_factory=RescaleSettings, description="how a job is rescaled")


class CollectSettings(Settings):
    """What becomes a record of the history."""

    window_s: float = Field(default=60.0, gt=0, description="seconds that one record covers")
    settle_s: float = Field(default=60.0, ge=0, description="how long a job must have run unchanged before")
    poll_s: float = Field(default=5.0, gt=0, description="seconds between two looks at the cluster")


class FlinkWindow(MeasurementWindow):
    """When a Flink job is measured: its metrics are real some ten seconds after a start, half a minute evens out."""

    settle_s: float = with_default(MeasurementWindow, "settle_s", 20.0)
    length_s: float = with_default(MeasurementWindow, "length_s", 30.0)
