"""``Engine``: where jobs run. Deploy, observe, rescale, stop; everything else is the engine's own business."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from streamtune.dataflow import Job, Observation, ParallelismPlan
from streamtune.errors import EngineError


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do and report, so that nobody has to guess from its name."""

    name: str
    reports_backpressure: bool
    live_rescale: bool
    drives_sources: bool
    max_parallelism: int | None = None


@dataclass(frozen=True)
class Deployment:
    """A handle on a running job. A rescale keeps the id and changes the plan."""

    id: str
    job: Job
    plan: ParallelismPlan


@dataclass(frozen=True)
class MeasurementWindow:
    """Wait ``settle_s`` after the last change, then measure for ``length_s``."""

    settle_s: float = 120.0
    length_s: float = 60.0

    def __post_init__(self) -> None:
        if self.settle_s < 0 or self.length_s <= 0:
            raise EngineError(
                f"a window needs settle_s ≥ 0 and length_s > 0, but got {self.settle_s:g} and {self.length_s:g}"
            )


@dataclass(frozen=True)
class NotReady:
    """The metrics cannot be trusted yet: why, and when to ask again. Never zeros in disguise."""

    reason: str
    retry_after_s: float = 5.0


class JobCrashedError(EngineError):
    """A running job crashed. The engine has started it again on its last good plan, as ``deployment`` says."""

    def __init__(self, problem: str, deployment: Deployment) -> None:
        super().__init__(problem)
        self.deployment = deployment


class Engine(ABC):
    """The interface every engine implements; ``streamtune.testing.engine_contract`` is its law."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def deploy(self, job: Job, plan: ParallelismPlan) -> Deployment:
        """Start a job under a plan; refuses a plan that does not fit the job."""

    @abstractmethod
    def rescale(self, deployment: Deployment, plan: ParallelismPlan) -> Deployment:
        """Give a running job another plan; no record is lost."""

    @abstractmethod
    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:
        """Measure a running job over one window."""

    @abstractmethod
    def stop(self, deployment: Deployment) -> None:
        """End a job. Stopping twice is an error, as is anything else asked of a stopped job."""

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:  # noqa: ARG002
        """Change the rates offered, on engines that drive their own sources."""
        raise EngineError(f"{self.capabilities.name} does not drive its sources: rates come from outside")
