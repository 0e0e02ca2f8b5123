"""``Engine``: where jobs run. Deploy, observe, rescale, stop; everything else is up to the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from streamtune.dataflow import Job, Observation, Plan
from streamtune.dataflow.plan import PlanPart
from streamtune.errors import EngineError

PARALLELISM_ALONE: frozenset[PlanPart] = frozenset({"parallelism"})
# What an observation may hold beyond rates and times of operators.
ObservedPart = Literal["latency", "lag", "edges", "instance_pairs", "hosts", "resources"]


@dataclass(frozen=True)
class Capabilities:
    """What an engine can do and report, so that nothing has to be guessed from its name."""

    name: str
    reports_backpressure: bool
    live_rescale: bool
    drives_sources: bool
    max_parallelism: int | None = None
    applies: frozenset[PlanPart] = PARALLELISM_ALONE
    observes: frozenset[ObservedPart] = frozenset()

    def check(self, plan: Plan) -> None:
        """Refuse the parts of a plan that this engine cannot apply.

        >>> from streamtune.dataflow import Plan
        >>> flink = Capabilities("flink", reports_backpressure=True, live_rescale=True, drives_sources=False)
        >>> flink.check(Plan({"map": 2}, configuration={"object-reuse": True}))
        Traceback (most recent call last):
        streamtune.errors.EngineError: flink cannot apply the configuration of a plan, it applies parallelism: ...
        """
        for part in ("resources", "placement", "configuration"):
            if part in plan.parts and part not in self.applies:
                raise EngineError(
                    f"{self.name} cannot apply the {part} of a plan, it applies {', '.join(sorted(self.applies))}: "
                    f"leave the {part} out"
                )


@dataclass(frozen=True)
class Deployment:
    """A handle on a running job. A rescale keeps the id and changes the plan."""

    id: str
    job: Job
    plan: Plan


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
    """The metrics cannot be trusted yet: why, and when to ask again. Never reported as zeros."""

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
    def deploy(self, job: Job, plan: Plan) -> Deployment:
        """Start a job under a plan; refuses a plan that does not fit the job."""

    @abstractmethod
    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        """Give a running job another plan; no record is lost."""

    @abstractmethod
    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation | NotReady:
        """Measure a running job over one window."""

    @abstractmethod
    def stop(self, deployment: Deployment) -> None:
        """End a job. Stopping it twice is an error, as is any other call on a stopped job."""

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:  # noqa: ARG002
        """Change the rates offered, on engines that drive their own sources."""
        raise EngineError(f"{self.capabilities.name} does not drive its sources: rates come from outside")
