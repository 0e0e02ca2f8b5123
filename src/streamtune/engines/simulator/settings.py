"""What can be set about the simulator, with its default and its reason."""

from __future__ import annotations

import math
import zlib
from functools import cache

from pydantic import Field

from streamtune.engines.base import MeasurementWindow
from streamtune.placement.wire import HopCost
from streamtune.settings import LARGEST_SEED, Settings


class MeasurementError(Settings):
    """The error of measured useful time, which StreamTune Section V-C names as the weakness of DS2 and ContTune.

    Reported busy time = true busy time · (1 + bias of the operator's type) · (1 + noise of the window), cut at what
    the window leaves after backpressure. The bias of a type is one draw from N(0, ``bias_sigma``), the same in every
    window and every job under one ``seed``; the noise is drawn anew. Rates and backpressured time carry no error.
    """

    bias_sigma: float = Field(default=0.03, ge=0, lt=1, description="spread of the bias over operator types")
    noise_sigma: float = Field(default=0.02, ge=0, lt=1, description="spread of the noise over windows")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="which draw of the biases")

    @classmethod
    def none(cls) -> MeasurementError:
        return cls(bias_sigma=0.0, noise_sigma=0.0)

    def bias(self, operator_type: str) -> float:
        """The relative bias of an operator type; clipped at ±2.5 σ so that no draw is absurd."""
        return self.bias_sigma * _bias_draw(self.seed, operator_type)


@cache
def _bias_draw(seed: int, operator_type: str) -> float:
    import numpy as np  # here, so that settings can be read without it

    draw = np.random.default_rng([seed, zlib.crc32(operator_type.encode())]).standard_normal()
    return float(np.clip(draw, -2.5, 2.5))


class HostSettings(Settings):
    """The costs of exchanges between instances; the defaults of times and sizes are Flink's."""

    exchange_share: float = Field(default=0.25, ge=0, lt=1, description="part of a service time that chaining saves")
    flush_s: float = Field(default=0.1, ge=0, description="longest that a record waits for its network buffer to fill")
    buffer_bytes: float = Field(default=32768.0, gt=0, description="size of a network buffer")
    hop_s: float = Field(default=0.0003, ge=0, description="time on the wire between two hosts")
    wire: HopCost = Field(
        default_factory=HopCost, description="bytes on the wire between two hosts, under a plan with a placement"
    )


class SimulatorSettings(Settings):
    """The platform that the simulator pretends to be."""

    step_s: float = Field(default=0.1, gt=0, le=0.5, description="length of one discrete time step")
    buffer_s: float = Field(
        default=3.5, gt=0, description="what the buffer of an edge holds, in seconds of the reader's capacity"
    )
    backlog_s: float = Field(
        default=0.5,
        ge=0,
        allow_inf_nan=True,
        description="how many seconds of input a source keeps while it cannot emit: below 1 it is a rate-limited "
        "generator, as in the paper's experiments; inf is a replayable log such as Kafka",
    )
    startup_s: float = Field(default=5.0, ge=0, description="from deployment until records flow")
    restart_s: float = Field(default=10.0, ge=0, description="downtime of a stop-and-restart rescale")
    warmup_s: float = Field(default=3.0, ge=0, description="time constant of the warm-up after a start")
    warmup_slowdown: float = Field(default=0.2, ge=0, lt=1, description="capacity missing at the first moment")
    hiccup_cv: float = Field(default=0.10, ge=0, le=1, description="variation of an operator's speed from step to step")
    drift_cv: float = Field(default=0.015, ge=0, le=1, description="slow variation of an operator's speed")
    drift_s: float = Field(default=10.0, gt=0, description="correlation time of the slow variation")
    rate_cv: float = Field(default=0.05, ge=0, le=1, description="variation of a source's rate from step to step")
    error: MeasurementError = Field(default_factory=MeasurementError, description="the error of measured busy time")
    hosts: HostSettings = Field(
        default_factory=HostSettings, description="the costs of exchanges, where a job runs on simulated hosts"
    )

    @classmethod
    def exact(cls) -> SimulatorSettings:
        """No variation and no measurement error: what the fluid model alone says."""
        return cls(hiccup_cv=0, drift_cv=0, rate_cv=0, error=MeasurementError.none())

    @property
    def is_replayable(self) -> bool:
        return math.isinf(self.backlog_s)


class SimulatorWindow(MeasurementWindow):
    """When the simulator is measured: simulated seconds cost next to nothing."""
