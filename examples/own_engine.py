"""Write your own engine: deploy, rescale, observe, stop. All tuners then work on it.

python examples/own_engine.py

The engine here is a toy that needs no time: every instance of every operator serves 10,000 records/s. The laws of
``streamtune.testing`` say whether it behaves as tuners expect; ``own_engine_case`` is what they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from streamtune import Controller, Engine, Job, MeasurementWindow, Observation, Plan, load_spec, make_tuner
from streamtune.dataflow import OperatorMetrics
from streamtune.engines import Capabilities, Deployment
from streamtune.errors import EngineError
from streamtune.testing import ENGINE_LAWS, EngineCase

JOB = Path(__file__).with_name("job.yaml")
PER_INSTANCE = 10_000.0


@dataclass
class Running:
    """A job that runs: under which plan, at which source rates."""

    plan: Plan
    rates: dict[str, float]


class ToyEngine(Engine):
    """Records flow at the pace of the slowest operator; what stands before it is held up, what comes after it idles."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._started = 0

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="toy", reports_backpressure=True, live_rescale=True, drives_sources=True)

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        job.check_plan(plan)
        self._started += 1
        deployment = Deployment(f"{job.name}-{self._started}", job, plan)
        self._running[deployment.id] = Running(plan, dict(job.source_rates))
        return deployment

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        deployment.job.check_plan(plan)
        self._find(deployment).plan = plan
        return replace(deployment, plan=plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        running, flow = self._find(deployment), deployment.job.dataflow
        demand: dict[str, float] = {}
        for key in flow.order:
            demand[key] = running.rates.get(key, 0.0) + sum(demand[before] for before in flow.predecessors(key))
        load = {key: demand[key] / (PER_INSTANCE * running.plan[key]) for key in flow.order}
        slowest = max(flow.order, key=load.__getitem__)
        pace = min(1.0, 1 / load[slowest]) if load[slowest] else 1.0
        held = _before(deployment.job, slowest) if pace < 1 else set()
        operators = {}
        for key in flow.index:
            busy, rate = 1000 * load[key] * pace, demand[key] * pace
            operators[key] = OperatorMetrics(
                parallelism=running.plan[key],
                records_in_per_s=rate,
                records_out_per_s=rate,
                busy_ms_per_s=busy,
                idle_ms_per_s=0.0 if key in held else 1000 - busy,
                backpressured_ms_per_s=1000 - busy if key in held else 0.0,
            )
        return Observation(
            observed_at=datetime.now(UTC),
            window_s=window.length_s,
            source_rates=dict(running.rates),
            operators=operators,
        )

    def stop(self, deployment: Deployment) -> None:
        self._find(deployment)
        del self._running[deployment.id]

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:
        deployment.job.check_rates(rates)
        self._find(deployment).rates = dict(rates)

    def _find(self, deployment: Deployment) -> Running:
        if deployment.id not in self._running:
            raise EngineError(f"no running deployment '{deployment.id}': it was stopped, or never started here")
        return self._running[deployment.id]


def _before(job: Job, operator: str) -> set[str]:
    """All operators from which records reach this one."""
    found: set[str] = set()
    waiting = [operator]
    while waiting:
        for key in job.dataflow.predecessors(waiting.pop()):
            if key not in found:
                found.add(key)
                waiting.append(key)
    return found


def own_engine_case() -> EngineCase:
    """A job at 20,000 lines/s: one instance of ``words`` is too few, six of everything are enough."""
    job = load_spec(JOB).job
    short = Plan({"lines": 4, "words": 1, "count": 4, "sink": 4})
    return EngineCase(ToyEngine(), job, short, Plan(dict.fromkeys(job.dataflow.index, 6)))


def main() -> None:
    for law in ENGINE_LAWS:  # in your tests: one test per law
        law(own_engine_case())
    case = own_engine_case()
    controller = Controller(case.engine, make_tuner("ds2", case.job))
    outcome = controller.tune(case.engine.deploy(case.job, case.short_plan))
    plan, steps = dict(outcome.deployment.plan), outcome.reconfigurations
    print(f"{plan} after {steps} reconfiguration(s) ({outcome.stop_reason})")


if __name__ == "__main__":
    main()
