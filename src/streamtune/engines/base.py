"""``Engine``: where jobs run. Deploy, observe, rescale, stop; everything else is up to the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from streamtune.clock import Steps
from streamtune.dataflow import Job, Observation, Plan
from streamtune.dataflow.plan import PlanPart
from streamtune.errors import EngineError
from streamtune.settings import Settings

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


class MeasurementWindow(Settings):
    """Wait ``settle_s`` after the last change, then measure for ``length_s``.

    >>> MeasurementWindow(10, 0)
    Traceback (most recent call last):
    streamtune.settings.SettingsError: MeasurementWindow.length_s must be at least 1, but got 0
    """

    settle_s: float = Field(default=120.0, ge=0, le=604_800, description="wait after the last change before measuring")
    length_s: float = Field(default=60.0, ge=1, le=86_400, description="how long to measure")

    if TYPE_CHECKING:  # both by position too, as windows are written everywhere

        def __init__(self, settle_s: float = ..., length_s: float = ...) -> None: ...


@dataclass(frozen=True)
class NotReady:
    """The metrics cannot be trusted yet: why, and when to ask again. Never reported as zeros.

    ``is_unhealthy`` says that the job itself is in trouble: it restarts, or not all of its tasks run.
    """

    reason: str
    retry_after_s: float = 5.0
    is_unhealthy: bool = False


class JobCrashedError(EngineError):
    """A running job crashed. The engine has started it again on its last good plan, as ``deployment`` says."""

    def __init__(self, problem: str, deployment: Deployment) -> None:
        super().__init__(problem)
        self.deployment = deployment


class JobEndedError(EngineError):
    """A job that does not run any more. ``is_done`` says that it finished by itself, with nothing wrong."""

    def __init__(self, message: str, *, is_done: bool = False) -> None:
        super().__init__(message)
        self.is_done = is_done


class JobNotYetRunningError(EngineError):
    """A job that starts or restarts: it may run in a while, by itself."""


class RescaleRefusedError(EngineError):
    """A rescale that was refused before anything was changed: it may be tried again."""


class RescaleFailedError(EngineError):
    """A rescale that did not work out. ``is_running`` says whether the job runs all the same, on its last good plan."""

    def __init__(self, message: str, *, is_running: bool) -> None:
        super().__init__(message)
        self.is_running = is_running


class Engine(ABC):
    """The interface every engine implements; ``streamtune.testing.engine_contract`` is its law.

    Four methods and its capabilities make an engine (``examples/own_engine.py`` is a whole one):

    >>> sorted(Engine.__abstractmethods__)
    ['capabilities', 'deploy', 'observe', 'rescale', 'stop']

    ``observing`` and ``rescaling`` are the same as ``observe`` and ``rescale`` in steps, for callers that look after
    many jobs at once. An engine that waits should implement the steps; by default they do all in one.
    """

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

    def observing(self, deployment: Deployment, window: MeasurementWindow) -> Steps[Observation | NotReady]:
        """``observe`` in steps."""
        yield from ()
        return self.observe(deployment, window)

    def rescaling(self, deployment: Deployment, plan: Plan) -> Steps[Deployment]:
        """``rescale`` in steps."""
        yield from ()
        return self.rescale(deployment, plan)

    def slots_in_reach(self, deployment: Deployment) -> int | None:  # noqa: ARG002
        """The highest parallelism that there is room for now; None where an engine has no such limit."""
        return None

    def slots_needed(self, deployment: Deployment, plan: Plan) -> int:  # noqa: ARG002 - engines look at it
        """How many of the slots in reach a plan takes; by default one slot holds an instance of every operator."""
        return max(plan.values())

    def excluded(self, deployment: Deployment) -> frozenset[str]:  # noqa: ARG002
        """Operators that this engine was told never to touch."""
        return frozenset()

    def successor(self, deployment: Deployment) -> Deployment | None:  # noqa: ARG002
        """The job that runs in the place of one that has ended, as after a resubmission; None where none does."""
        return None

    def state_of(self, deployment: Deployment) -> Mapping[str, object]:  # noqa: ARG002
        """Where a job stands, for the audit trail after a failure; asks the engine, and may fail itself."""
        return {}

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:  # noqa: ARG002
        """Change the rates offered, on engines that drive their own sources."""
        raise EngineError(f"{self.capabilities.name} does not drive its sources: rates come from outside")
