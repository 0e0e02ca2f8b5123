"""What can be set about the Timely engine, with its default and its reason."""

from __future__ import annotations

from pydantic import Field

from streamtune.engines.base import MeasurementWindow
from streamtune.readings.settings import LabelSettings
from streamtune.settings import LARGEST_SEED, Settings, with_default


class TimelySettings(Settings):
    """How jobs run on Timely, and how they are judged."""

    max_workers: int = Field(
        default=48,
        ge=1,
        description="most Timely workers (threads) of one job; a plan with more instances shares workers. "
        "An idle worker costs about one percent of a core",
    )
    epoch_s: float = Field(
        default=0.5, ge=0.05, description="length of an epoch: the event-time interval whose latency is measured"
    )
    quantum_ms: float = Field(
        default=20.0, gt=0, le=200, description="longest time an instance keeps its worker before others get a turn"
    )
    poll_ms: float = Field(default=10.0, gt=0, le=1000, description="how often a source looks for records that are due")
    sample_s: float = Field(
        default=0.5, gt=0, description="how often backlogs are read while observing, for their trend"
    )
    join_life_s: float = Field(
        default=5.0, gt=0, description="an incremental join matches records at most this far apart in event time"
    )
    start_timeout_s: float = Field(default=20.0, gt=0, description="longest wait until a job's first records flow")
    restarts: int = Field(
        default=1, ge=0, description="how often in a row a crashed job is started again on its last good plan"
    )
    labels: LabelSettings = Field(
        default_factory=LabelSettings, description="the rule by which an observation names bottlenecks"
    )
    seed: int = Field(
        default=0, ge=0, le=LARGEST_SEED, description="draws the records and the variation of service times"
    )


class TimelyWindow(MeasurementWindow):
    """When a Timely job is measured.

    Time passes for real here: enough for a few windows of the workloads to fire, and for the history to accept the run.
    """

    settle_s: float = with_default(MeasurementWindow, "settle_s", 4.0)
    length_s: float = with_default(MeasurementWindow, "length_s", 10.1)
