"""The contract of engines: every ``Engine`` passes every function in ``ENGINE_LAWS``.

@pytest.mark.parametrize("law", ENGINE_LAWS)
def test_my_engine(law):
    law(EngineCase(my_engine, job, short_plan, ample_plan))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from streamtune.dataflow import Job, Observation, Plan
from streamtune.engines.base import Deployment, Engine, MeasurementWindow
from streamtune.errors import StreamTuneError


@dataclass(frozen=True)
class EngineCase:
    """An engine and a job on it: ``short_plan`` cannot keep up with the job's rates, ``ample_plan`` can."""

    engine: Engine
    job: Job
    short_plan: Plan
    ample_plan: Plan
    window: MeasurementWindow = field(default_factory=MeasurementWindow)

    def observe(self, deployment: Deployment) -> Observation:
        """The next usable observation."""
        for _ in range(50):
            seen = self.engine.observe(deployment, self.window)
            if isinstance(seen, Observation):
                return seen
        raise AssertionError("the engine was never ready")


def refuses(action: Callable[[], object]) -> bool:
    """Whether an action ends in one of our errors."""
    try:
        action()
    except StreamTuneError:
        return True
    return False


def observation_names_every_operator(case: EngineCase) -> None:
    deployment = case.engine.deploy(case.job, case.ample_plan)
    try:
        seen = case.observe(deployment)
    finally:
        case.engine.stop(deployment)
    assert set(seen.operators) == set(case.job.dataflow.index)
    assert seen.plan == case.ample_plan
    assert dict(seen.source_rates) == case.job.source_rates


def time_shares_add_up(case: EngineCase) -> None:
    deployment = case.engine.deploy(case.job, case.short_plan)
    try:
        seen = case.observe(deployment)
    finally:
        case.engine.stop(deployment)
    for key, m in seen.operators.items():
        parts = (m.busy_ms_per_s, m.idle_ms_per_s, m.backpressured_ms_per_s)
        assert all(part >= -1e-6 for part in parts), f"{key}: {parts}"
        assert math.isclose(sum(parts), 1000, abs_tol=20), f"{key}: {parts} add up to {sum(parts)}"
        assert m.records_in_per_s >= 0
        assert m.records_out_per_s >= 0


def short_plan_shows_and_ample_plan_does_not(case: EngineCase) -> None:
    if not case.engine.capabilities.reports_backpressure:
        return
    deployment = case.engine.deploy(case.job, case.short_plan)
    try:
        assert case.observe(deployment).has_backpressure
        deployment = case.engine.rescale(deployment, case.ample_plan)
        assert not case.observe(deployment).has_backpressure
    finally:
        case.engine.stop(deployment)


def rescale_keeps_the_deployment(case: EngineCase) -> None:
    deployment = case.engine.deploy(case.job, case.short_plan)
    rescaled = case.engine.rescale(deployment, case.ample_plan)
    try:
        assert rescaled.id == deployment.id
        assert rescaled.plan == case.ample_plan
        assert case.observe(rescaled).plan == case.ample_plan
    finally:
        case.engine.stop(rescaled)


def bad_plans_are_refused(case: EngineCase) -> None:
    first = next(iter(case.job.dataflow.index))
    too_high = case.ample_plan.replace({first: case.job.max_parallelism + 1})
    incomplete = Plan({key: degree for key, degree in case.ample_plan.items() if key != first})
    foreign = case.ample_plan.replace({"no-such-operator": 1})
    for plan in (too_high, incomplete, foreign):
        assert refuses(lambda plan=plan: case.engine.deploy(case.job, plan)), plan  # type: ignore[misc]
    deployment = case.engine.deploy(case.job, case.ample_plan)
    try:
        assert refuses(lambda: case.engine.rescale(deployment, too_high))
        assert case.observe(deployment).plan == case.ample_plan
    finally:
        case.engine.stop(deployment)


def a_stopped_job_is_gone(case: EngineCase) -> None:
    deployment = case.engine.deploy(case.job, case.ample_plan)
    case.engine.stop(deployment)
    assert refuses(lambda: case.engine.stop(deployment))
    assert refuses(lambda: case.engine.observe(deployment, case.window))
    assert refuses(lambda: case.engine.rescale(deployment, case.ample_plan))


def source_rates_can_be_changed_where_promised(case: EngineCase) -> None:
    doubled = {source: 2 * rate for source, rate in case.job.source_rates.items()}
    deployment = case.engine.deploy(case.job, case.ample_plan)
    try:
        if not case.engine.capabilities.drives_sources:
            assert refuses(lambda: case.engine.set_source_rates(deployment, doubled))
            return
        case.engine.set_source_rates(deployment, doubled)
        assert dict(case.observe(deployment).source_rates) == doubled
        assert refuses(lambda: case.engine.set_source_rates(deployment, {"no-such-source": 1.0}))
    finally:
        case.engine.stop(deployment)


ENGINE_LAWS: tuple[Callable[[EngineCase], None], ...] = (
    observation_names_every_operator,
    time_shares_add_up,
    short_plan_shows_and_ample_plan_does_not,
    rescale_keeps_the_deployment,
    bad_plans_are_refused,
    a_stopped_job_is_gone,
    source_rates_can_be_changed_where_promised,
)
