"""The nouns of a session: what was asked, what one run measured, and what became of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import fmean, stdev

from pydantic import Field

from streamtune.autoconfig.space import Configuration, Value
from streamtune.frozen import Frozen


class OperatorReading(Frozen):
    """What a running job tells about one operator: the way to begin with knowledge instead of a guess."""

    rate: float = Field(ge=0, allow_inf_nan=False, description="Records/s that all instances together process.")
    busy: float = Field(ge=0, allow_inf_nan=False, description="Mean share of time an instance is busy, 0 to 1.")
    parallelism: int = Field(ge=1, description="Instances it ran with.")


class Measurement(Frozen):
    """One run of one configuration."""

    value: float | None = Field(default=None, allow_inf_nan=False, description="What the objective gave.")
    failed: bool = False
    reason: str = Field(default="", description="Why it failed.")
    seconds: float = Field(default=0.0, ge=0)
    figures: dict[str, float] = Field(default_factory=dict, description="Other numbers the run reported.")
    operators: dict[str, OperatorReading] = Field(default_factory=dict, description="What a running job told.")


class Suggestion(Frozen):
    """What a strategy wants to see next."""

    knobs: Configuration
    why: str = ""


class Trial(Frozen):
    """One configuration with what its runs measured; ``value`` is their mean."""

    number: int = Field(ge=0)
    knobs: Configuration
    why: str = ""
    measurements: tuple[Measurement, ...] = ()

    @cached_property
    def values(self) -> list[float]:
        return [one.value for one in self.measurements if one.value is not None and not one.failed]

    @cached_property
    def failed(self) -> bool:
        return any(one.failed for one in self.measurements) or not self.values

    @cached_property
    def value(self) -> float | None:
        return None if self.failed else fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Standard deviation over the repeats."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def reason(self) -> str:
        return next((one.reason for one in self.measurements if one.failed), "")

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.measurements)

    @property
    def operators(self) -> dict[str, OperatorReading]:
        """The last readings of the running job, if it gave any."""
        return next((one.operators for one in reversed(self.measurements) if one.operators), {})

    def to_record(self) -> dict[str, object]:
        """The trial as the command line shows it."""
        record: dict[str, object] = {
            "number": self.number,
            "knobs": dict(self.knobs),
            "value": self.value,
            "failed": self.failed,
            "seconds": round(self.seconds, 4),
            "values": self.values,
            "spread": self.spread,
            "why": self.why,
        }
        return {**record, "reason": self.reason} if self.failed else record


def scores(trials: Sequence[Trial], maximise: bool, worst_if_none: float = 0.0) -> list[float]:
    """Larger is better, whatever the direction; a failed trial counts as the worst that was seen."""
    sign = 1.0 if maximise else -1.0
    seen = [sign * trial.value for trial in trials if trial.value is not None]
    worst = min(seen, default=worst_if_none)
    return [worst if trial.value is None else sign * trial.value for trial in trials]


__all__ = ["Configuration", "Measurement", "OperatorReading", "Suggestion", "Trial", "Value", "scores"]
