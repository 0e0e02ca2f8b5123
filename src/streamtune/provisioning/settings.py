"""What can be set about sampling, models and plans."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from streamtune.settings import LARGEST_SEED, Settings

# Of a minute in all: the command itself has to start, and to print what was found.
_LARGE_S = 52.0


class DriftSettings(Settings):
    """How much change to look for, and how sure to be."""

    slack: float = Field(default=0.5, ge=0, description="deviations below so many standard deviations are ignored")
    threshold: float = Field(default=5.0, gt=0, description="sum of deviations at which the model no longer fits")
    least_sd: float = Field(default=0.05, gt=0, description="no model is trusted to less than this relative error")


class SolverSettings(Settings):
    """How long to work, and what is good enough."""

    seconds: float | None = Field(
        default=None, gt=0, description="time to spend; by default 8 s, and 52 s above 2,000 epochs × sizes"
    )
    gap: float = Field(default=0.001, ge=0, lt=1, description="stop early at this proven gap")
    exact_steps: float = Field(
        default=4e9, gt=0, description="largest dynamic programme tried whole, in elementary steps (about 1 ns each)"
    )
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="draws the blocks of the descent")

    def time_for(self, cells: int) -> float:
        """For a problem of so many epochs × sizes."""
        if self.seconds is not None:
            return self.seconds
        return 8.0 if cells <= 2000 else _LARGE_S


class AheadSettings(Settings):
    """How to weigh safety, changes and instances."""

    changes: str = Field(
        default="job", pattern="^(job|instance)$", description="what a change stops: the whole job, or one instance"
    )
    headroom: float = Field(default=0.0, ge=0, lt=10, description="share added to every rate")
    hold_s: float = Field(
        default=0.0, ge=0, description="never plan below the last observed rate for so long: the anchor of the plan"
    )
    within_step_sd: float = Field(
        default=0.05,
        ge=0,
        lt=2,
        description="how much the rate varies within a step of the forecast (standard deviation of its logarithm); "
        "counts where the price list has a price for being short",
    )
    downtime_s: float = Field(
        default=0.0,
        ge=0,
        description="how long a change stops a job: so much input waits then and is worked off; counts where the price "
        "list has a price for being short",
    )
    behind_epochs: float | None = Field(
        default=None,
        ge=1,
        description="an epoch below what the median of the forecast needs counts as so many of being short; none: "
        "never plan one, since a job that costs more than that is worth would be let fall behind for good",
    )
    largest: int | None = Field(default=None, ge=1, description="most instances of an operator, where limited")
    cover: float = Field(
        default=0.99, gt=0, le=1, description="share of epochs that a learnt level has to cover on the job's own past"
    )
    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.5, 0.9, 0.95, 0.98, 0.995), min_length=1, description="levels of the forecast to learn from"
    )


class DsaSettings(Settings):
    """The constants of Algorithm 1, of which the paper prints no values."""

    largest_step: int = Field(default=4, ge=1, description="step.max, in minimum steps")
    up: float = Field(default=0.2, gt=0, description="delta.up: a relative gain per minimum step above it is refined")
    stop: float = Field(default=0.02, gt=0, description="delta.stop: a gain below it counts towards stopping")
    stop_count: int = Field(default=3, ge=1, description="maxStopCount: so many small gains in a row end the walk")


class SamplingSettings(Settings):
    """When to stop sampling."""

    least: int = Field(default=4, ge=3, description="samples at least")
    share: float = Field(default=1 / 3, gt=0, le=1, description="of the ladder's provisions to sample at most")
    regret: float = Field(default=0.01, gt=0, description="stop when the choice loses no more than this by ignorance")
    spread: float = Field(default=0.03, gt=0, description="and when performance is known this well everywhere")
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED, description="of the curves drawn from the belief")
