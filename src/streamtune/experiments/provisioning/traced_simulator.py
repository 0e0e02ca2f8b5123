"""The simulator living through a trace, whoever looks, with the books of what really happened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from streamtune.dataflow import BACKPRESSURE_SHARE, Observation, Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings
from streamtune.engines.simulator.kernel import BLOCKED
from streamtune.engines.simulator.metrics import EPOCH, observation_of

Floats = npt.NDArray[np.float64]
_WAITING_S = 1.0  # a minute counts when more than so many seconds of input wait at its end


@dataclass
class Ledger:
    """What really happened, minute by minute."""

    minutes: int = 0
    backpressured: int = 0
    instance_s: float = 0.0  # of what can be tuned: sources run all the time
    changes: int = 0


class TracedSimulator(Simulator):
    """The simulator with sources that follow a trace, whoever looks; it keeps the books as well.

    Each rate holds for ``minute_s`` seconds: 60, or fewer where the trace runs faster than it was recorded.
    """

    def __init__(
        self, spec: JobSpec, rates: Floats, settings: SimulatorSettings, seed: int, minute_s: float = 60.0
    ) -> None:
        super().__init__({spec.job.name: spec.physics or {}}, settings, seed=seed)
        offered = spec.job.source_rates
        self._shares = {key: rate / sum(offered.values()) for key, rate in offered.items()}
        self._tuned = [one.id for one in spec.job.dataflow.operators if not one.is_source]
        self._rates, self._minute_s, self.ledger = rates, minute_s, Ledger()
        self.now_s = 0.0

    @property
    def is_over(self) -> bool:
        return self.now_s >= self._minute_s * len(self._rates)

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.ledger.changes += 1
        return super().rescale(deployment, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        running = self._find(deployment)
        simulation = running.simulation
        self._live(deployment, max(0.0, running.changed_s + window.settle_s - simulation.now_s))
        simulation.reset_totals()
        begun = simulation.now_s
        self._live(deployment, window.length_s)
        seen = observation_of(simulation, running.random)
        # What the sources were offered in the mean, as an engine measures it.
        first, last = int(begun // self._minute_s), int(simulation.now_s // self._minute_s)
        minutes = self._rates[first : max(first + 1, last)]
        mean = float(minutes.mean()) if len(minutes) else float(self._rates[-1])
        return seen.model_copy(update={"source_rates": {key: mean * share for key, share in self._shares.items()}})

    def _live(self, deployment: Deployment, seconds: float) -> None:
        simulation = self._find(deployment).simulation
        end = simulation.now_s + seconds
        while end - simulation.now_s > 1e-6:
            minute = int((simulation.now_s + 1e-6) // self._minute_s)
            rate = float(self._rates[min(minute, len(self._rates) - 1)])
            simulation.set_rates({key: rate * share for key, share in self._shares.items()})
            before = simulation.totals.sums[:, BLOCKED].copy()
            # Downtimes end between two steps: a rest shorter than one is lived through whole.
            step_s = max(min(end, self._minute_s * (minute + 1)) - simulation.now_s, self._settings.step_s)
            simulation.advance(step_s)
            blocked = (simulation.totals.sums[:, BLOCKED] - before).max() > BACKPRESSURE_SHARE * step_s
            self.ledger.instance_s += sum(deployment.plan[key] for key in self._tuned) * step_s
            self.now_s = simulation.now_s
            if simulation.now_s >= self._minute_s * (minute + 1) - 1e-6:
                self.ledger.minutes += 1
                waiting = float(simulation.lag.sum()) > _WAITING_S * rate
                self.ledger.backpressured += bool(blocked or waiting)


class EngineClock:
    """The simulator's own time, as the supervisor wants to know it."""

    def __init__(self, engine: TracedSimulator) -> None:
        self._engine = engine

    def now(self) -> datetime:
        return datetime.fromtimestamp(EPOCH.timestamp() + self._engine.now_s, UTC)

    def steady(self) -> float:
        return self._engine.now_s

    def sleep(self, seconds: float) -> None:
        """Time passes inside ``observe``."""
