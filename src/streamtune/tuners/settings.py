"""What can be set about the tuners, one class each; the defaults are as published. Loads none of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from streamtune.models.costmodel.settings import AdviceSettings
from streamtune.settings import Settings, with_default
from streamtune.tuners.streamtune.settings import PaperStreamTuneSettings, StreamTuneSettings

Suspension = Literal["held_back", "backpressured_time"]


class GreedySettings(Settings):
    """How far Greedy goes."""

    budget: int | None = Field(
        default=None,
        ge=1,
        description="largest total parallelism, sources included; none: only the job's limit per operator",
    )


class DS2Settings(Settings):
    """What can be set about DS2; the defaults are as published."""

    scaling_factor: float = Field(
        default=0.0, ge=0, lt=10, description="head room: share of instances beyond what is needed"
    )
    ignored_drop: int = Field(default=1, ge=0, description="the largest drop that is not worth a restart")
    calibration: Mapping[str, float] = Field(
        default_factory=dict,
        description="per operator type, the busy share that an operator reports when it is truly busy all the time "
        "(streamtune.training.capacity); types that are not named count as exact",
    )

    @field_validator("calibration")
    @classmethod
    def _above_zero(cls, calibration: Mapping[str, float]) -> Mapping[str, float]:
        for kind, factor in calibration.items():
            if not (math.isfinite(factor) and factor > 0):
                raise ValueError(f"'{kind}' must be finite and above 0, but got {factor!r}")
        return calibration


class CalibratedDS2Settings(DS2Settings):
    """DS2 with 10 % head room; without a calibration of its own it takes the model's."""

    scaling_factor: float = with_default(DS2Settings, "scaling_factor", 0.10)


class ContTuneSettings(Settings):
    """``alpha`` and ``remembered`` (K) are as published; the limits are not published, these are ours.

    A job is under-provisioned when there is backpressure and an operator is busier than ``upper_limit`` (the threshold
    T = 60 % of StreamTune's Algorithm 1); it is over-provisioned when there is no backpressure and an operator that
    could give up an instance is less busy than ``lower_limit``.
    """

    alpha: int = Field(default=3, ge=0, description="how far from a parallelism that was tried the process is trusted")
    remembered: int = Field(default=5, ge=1, description="K: readings kept per operator and parallelism")
    upper_limit: float = Field(
        default=0.60, ge=0, le=1, description="busy share above which an operator has too few instances"
    )
    lower_limit: float = Field(
        default=0.80, ge=0, le=1, description="busy share below which an operator has too many instances"
    )


class DhalionSettings(Settings):
    """Dhalion's thresholds.

    Pending packets are near zero when the backlog of every source is below ``near_zero_lag_s`` seconds of its rate,
    and those of an operator when it idles for more than a scale-down would take away.
    """

    scale_down_factor: float = Field(
        default=0.8, gt=0, lt=1, description="what a scale-down leaves of an operator's instances, as share"
    )
    near_zero_lag_s: float = Field(default=1.0, ge=0, description="backlog of a source that still counts as none")
    skew_ratio: float = Field(
        default=1.5, ge=1, description="load of the hottest subtask over the mean from which the diagnosis is skew"
    )
    suspension: Suspension = Field(default="held_back", description="how the time under backpressure is measured")


def _option(key: str, default: float, description: str, **limits: Any) -> Any:
    """A setting with the autoscaler's own key (below ``job.autoscaler.``)."""
    extra: dict[str, Any] = {"flink_key": f"job.autoscaler.{key}"}
    return Field(default=default, description=description, json_schema_extra=extra, **(limits or {"ge": 0}))


class FlinkAutoscalerSettings(Settings):
    """The published options and defaults of the autoscaler of the Flink Kubernetes operator.

    ``scale_down_interval_s`` delays every scale-down by an hour as published. An experiment in which each rate is one
    tuning process, observed once or twice, must set it to 0, or it measures nothing but that delay.
    """

    utilization_target: float = _option("utilization.target", 0.7, "busy share that is aimed at", gt=0, le=1)
    utilization_boundary: float = _option("utilization.target.boundary", 0.3, "distance from it that is tolerated")
    catch_up_s: float = _option("catch-up.duration", 1800.0, "time in which a backlog is to be worked off", gt=0)
    restart_s: float = _option("restart.time", 300.0, "expected downtime of a rescale")
    scale_down_max_factor: float = _option("scale-down.max-factor", 0.6, "largest share taken away in one step")
    scale_up_max_factor: float = _option("scale-up.max-factor", 100_000.0, "largest share added in one step")
    vertex_min_parallelism: int = _option("vertex.min-parallelism", 1, "never scaled below", ge=1)
    vertex_max_parallelism: int = _option("vertex.max-parallelism", 200, "never scaled above", ge=1)
    scale_down_interval_s: float = _option("scale-down.interval", 3600.0, "how long every scale-down waits")
    lag_threshold_s: float = _option(
        "observed-true-processing-rate.lag-threshold", 30.0, "seconds of input that make a source count as lagging"
    )
    switch_threshold: float = _option(
        "observed-true-processing-rate.switch-threshold", 0.15, "excess of the busy-time rate over the observed one"
    )
    tune_sources: bool = Field(
        default=False,
        description="let sources be scaled; false: they are excluded, as in all experiments",
        json_schema_extra={"flink_key": "job.autoscaler.vertex.exclude.ids"},
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.utilization_target - self.utilization_boundary > 0:
            raise ValueError(
                "utilization_target must be in (0, 1] and above utilization_boundary, "
                f"but got {self.utilization_target!r} and {self.utilization_boundary!r}"
            )
        if self.vertex_min_parallelism > self.vertex_max_parallelism:
            raise ValueError(
                "vertex_min_parallelism must be from 1 to vertex_max_parallelism, "
                f"but got {self.vertex_min_parallelism!r} and {self.vertex_max_parallelism!r}"
            )
        return self


class ZeroTuneSettings(AdviceSettings):
    """The published objective: no term for resources, and at least 100 plans to compare."""

    resource_weight: float = with_default(AdviceSettings, "resource_weight", 0.0)
    candidates: int = Field(default=512, ge=100, description="plans that are compared")


TUNER_SETTINGS: dict[str, type[Settings]] = {
    "streamtune": StreamTuneSettings,
    "streamtune-paper": PaperStreamTuneSettings,
    "ds2": DS2Settings,
    "ds2-calibrated": CalibratedDS2Settings,
    "conttune": ContTuneSettings,
    "flink-autoscaler": FlinkAutoscalerSettings,
    "dhalion": DhalionSettings,
    "greedy": GreedySettings,
    "zerotune": ZeroTuneSettings,
}
