"""What can be set about generated histories and plans; loads neither Spark nor NumPy."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from streamtune.engines.simulator.settings import MeasurementError
from streamtune.settings import LARGEST_SEED, Settings
from streamtune.workloads.settings import PARAMETERS, SEEN_STRUCTURES, STRUCTURES

Enumeration = Literal["optisample", "random"]


class PlanDataSettings(Settings):
    """Which plans are drawn."""

    plans: int = Field(default=24_000, ge=1, description="how many plans, each of a query of its own")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws everything")
    structures: tuple[str, ...] = Field(default=SEEN_STRUCTURES, description="structures, in turn")
    enumeration: Enumeration = Field(default="optisample", description="how parallelism is chosen")
    explore: bool = Field(default=True, description="stretch half of OptiSample's plans at random, to see bad ones too")
    ranges: str = Field(
        default="seen", description="seen, unseen, or the one parameter that is drawn from the testing range"
    )
    first: int = Field(default=0, ge=0, description="number of the first query: other numbers, other queries")
    settle_s: float = Field(default=60.0, ge=0, description="simulated wait before measuring")
    window_s: float = Field(default=60.0, gt=0, description="simulated measuring window (the paper: 60 s)")

    @field_validator("structures")
    @classmethod
    def _known_structures(cls, structures: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [name for name in structures if name not in STRUCTURES]
        if unknown or not structures:
            got = f"'{unknown[0]}'" if unknown else "none"
            raise ValueError(f"must be some of {', '.join(STRUCTURES)}, but got {got}")
        return structures

    @field_validator("ranges")
    @classmethod
    def _known(cls, ranges: str) -> str:
        if ranges not in ("seen", "unseen", *PARAMETERS):
            raise ValueError(f"must be seen, unseen or one of {', '.join(PARAMETERS)}, but got '{ranges}'")
        return ranges


class GenerateSettings(Settings):
    """What is generated."""

    runs: int = Field(default=10_000, ge=1, description="how many runs")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws everything")
    near_share: float = Field(default=0.5, ge=0, le=1, description="share of the runs with plans near the optimum")
    random_share: float = Field(default=0.5, ge=0, le=1, description="share of the runs of random jobs")
    random_jobs: int = Field(default=200, ge=1, description="how many different random jobs there are")
    relatives_share: float = Field(
        default=0.0, ge=0, le=1, description="share of the runs whose job is a relative: another tenant, or edited"
    )
    relatives: int = Field(default=1, ge=1, description="how many relatives of each kind a job may have")
    max_parallelism: int = Field(default=60, ge=1, description="largest parallelism of a random plan")
    exclude: tuple[str, ...] = Field(default=(), description="workloads of the catalogue to leave out")
    error: MeasurementError = Field(default_factory=MeasurementError, description="of measured busy time")
    settle_s: float = Field(default=120.0, ge=0, description="simulated wait before measuring")
    window_s: float = Field(default=60.0, gt=0, description="simulated measuring window")
