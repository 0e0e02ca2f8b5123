"""First plans of held-out jobs, on the simulator in place of a Flink: what is judged, in which order, against what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from streamtune.dataflow import Job, Observation, Plan
from streamtune.engines.base import Capabilities, Deployment, Engine, MeasurementWindow
from streamtune.engines.simulator import Simulator, find_oracle
from streamtune.experiments.flink_cold import ONE, Asked, Trial, by_optisample, pilot, pilot_and_past, table
from streamtune.experiments.flink_instruments import observed
from streamtune.experiments.flink_jobs import LIMIT, small_workload
from streamtune.experiments.flink_transfer import model_of, simulated_runs
from streamtune.labs.histories import true_needs
from streamtune.models.costmodel.optisample import OptiSample
from streamtune.models.transfer.model import TransferModel

WINDOW, DRAIN = MeasurementWindow(60.0, 60.0), MeasurementWindow(10.0, 10.0)
WORKLOAD = small_workload("nexmark-q3")
JOB = WORKLOAD.spec.job
INNER = [operator.id for operator in JOB.dataflow.operators if not operator.is_source]


@dataclass
class Noting(Engine):
    """A simulator that notes what it is told."""

    inner: Simulator
    told: list[str] = field(default_factory=list)

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def deploy(self, job: Job, plan: Plan) -> Deployment:
        return self.inner.deploy(job, plan)

    def rescale(self, deployment: Deployment, plan: Plan) -> Deployment:
        self.told.append(f"plan {plan.total}")
        return self.inner.rescale(deployment, plan)

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        self.told.append("drain" if window == DRAIN else "look")
        seen = self.inner.observe(deployment, window)
        assert isinstance(seen, Observation)
        return seen

    def stop(self, deployment: Deployment) -> None:
        self.told.append("stop")
        self.inner.stop(deployment)

    def set_source_rates(self, deployment: Deployment, rates: Mapping[str, float]) -> None:
        self.told.append("full" if sum(rates.values()) > sum(WORKLOAD.rates_at(4).values()) else "tenth")
        self.inner.set_source_rates(deployment, rates)


def oracle(multiple: float) -> Plan:
    return find_oracle(JOB, WORKLOAD.physics, WORKLOAD.rates_at(multiple)).plan


def trial() -> tuple[Noting, Trial]:
    engine = Noting(Simulator.of(WORKLOAD.spec))
    return engine, Trial(engine, WORKLOAD, WINDOW, observed, DRAIN)


@pytest.fixture(scope="module")
def model() -> TransferModel:
    return model_of(simulated_runs(60, {"nexmark-q3"}))


def test_a_backlog_is_worked_off_before_the_next_plan_is_judged_and_a_plan_runs_once() -> None:
    enough = oracle(5)
    engine, judging = trial()
    ways = {
        "short": lambda asked: asked.job.initial_plan,
        "enough": lambda _asked: enough,
        "the same": lambda _asked: Plan(dict(enough)),
    }
    short, clean, same = judging.judge(ways, 5)
    assert (short.clean, clean.clean, same.clean) == (False, True, True)
    assert same.total == clean.total == sum(enough[key] for key in INNER)
    first = engine.told.index(f"plan {enough.total}")
    assert engine.told[:first] == ["tenth", "look", "full", "look"]
    assert engine.told[first : first + 3] == [f"plan {enough.total}", "tenth", "drain"]
    assert engine.told[-3:] == ["full", "look", "stop"]


def test_plans_and_needs_have_the_same_bounds() -> None:
    _, judging = trial()
    (found,) = judging.judge({"far too much": lambda asked: Plan(dict.fromkeys(asked.job.initial_plan, 50))}, 10)
    assert found.total == LIMIT * len(INNER)
    assert max(true_needs(WORKLOAD, WORKLOAD.rates_at(10))[key] for key in INNER) <= LIMIT
    assert found.needed == sum(true_needs(WORKLOAD, WORKLOAD.rates_at(10))[key] for key in INNER)


def test_a_pilot_with_the_past_is_clean_within_the_target_where_one_instance_each_is_not(model: TransferModel) -> None:
    _, judging = trial()
    ways = {"with the past": pilot_and_past(model), "by DS2": pilot, ONE: lambda asked: asked.job.initial_plan}
    past, _, one = judging.judge(ways, 10)
    assert past.clean
    assert past.total <= 1.3 * past.needed
    assert not one.clean


def test_sources_keep_the_parallelism_of_their_spec() -> None:
    _, judging = trial()
    rule = OptiSample({operator.type: 1.0 for operator in JOB.dataflow.operators})
    (found,) = judging.judge({"OptiSample": by_optisample(rule)}, 5)
    assert {found.plan[source.id] for source in JOB.dataflow.sources} == {1}
    assert found.total == LIMIT * len(INNER)


def test_ways_that_know_no_more_than_rates_are_told_no_more() -> None:
    deployment_of = Simulator.of(WORKLOAD.spec)
    deployment = deployment_of.deploy(JOB, JOB.initial_plan)
    tried = deployment_of.observe(deployment, WINDOW)
    assert isinstance(tried, Observation)
    untried = Asked(JOB, WORKLOAD.rates_at(10), tried).untried
    assert dict(untried.source_rates) == WORKLOAD.rates_at(10)
    assert all(metrics.records_in_per_s != metrics.records_in_per_s for metrics in untried.operators.values())  # NaN


def test_the_table_counts_jobs_and_sums_before_it_compares() -> None:
    _, judging = trial()
    rows = list(judging.judge({ONE: lambda asked: asked.job.initial_plan}, 5))
    rows.append(rows[0].model_copy(update={"clean": True, "total": rows[0].needed}))
    over = (rows[0].total + rows[0].needed) / (2 * rows[0].needed)
    assert table(rows)[-1] == f"| {ONE} | 1 of 2 clean at {over:.2f} × |"
