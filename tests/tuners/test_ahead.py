"""A tuner that acts before the rate does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.control.settings import SupervisorSettings
from streamtune.control.supervisor import Supervisor
from streamtune.dataflow import Observation, Plan
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.base import Deployment, MeasurementWindow
from streamtune.engines.simulator import Simulator, SimulatorSettings
from streamtune.engines.simulator.metrics import EPOCH
from streamtune.engines.simulator.oracle import find_oracle
from streamtune.forecasts.series import RateSeries
from streamtune.provisioning.prices import PriceList
from streamtune.provisioning.settings import AheadSettings
from streamtune.tuners import DS2
from streamtune.tuners.ahead import Ahead
from streamtune.tuners.base import Tuner
from streamtune.tuners.streamtune import StreamTune
from streamtune.workloads import load

WINDOW = 300.0


class Told:
    """What is coming, told beforehand as factors of the last rate."""

    step_s = WINDOW

    def __init__(self, *factors: float) -> None:
        self.factors = factors

    def coming(self, past: RateSeries) -> np.ndarray:
        return past.values[-1] * np.array(self.factors)


def spec() -> JobSpec:
    return load("nexmark-q1").spec


def observed(job: JobSpec, plan: Plan, windows: int = 2) -> list[Observation]:
    engine = Simulator.of(job, settings=SimulatorSettings.exact())
    deployment = engine.deploy(job.job, plan)
    return [engine.observe(deployment, MeasurementWindow(0, WINDOW)) for _ in range(windows)]


def ahead_of(job: JobSpec, told: Told, change: float = 0.0) -> tuple[Ahead, Observation]:
    tuner = Ahead(DS2(job.job), told, prices=PriceList(change=change), settings=AheadSettings())
    enough = Plan(dict.fromkeys(job.job.dataflow.index, 40))
    seen = observed(job, enough)
    for one in seen:
        tuner.learn(one)
    return tuner, seen[-1]


def test_it_asks_for_what_the_inner_tuner_says_about_the_coming_rate() -> None:
    job = spec()
    tuner, seen = ahead_of(job, Told(2.0, 2.0))
    doubled = seen.model_copy(update={"source_rates": {key: 2 * rate for key, rate in seen.source_rates.items()}})
    inner = DS2(job.job).recommend(doubled).plan
    wanted = tuner.recommend(seen).plan
    # Rates are rounded up to steps of a hundredth, so one instance more may come out.
    assert all(inner[key] <= wanted[key] <= inner[key] + 1 for key in inner)


def test_a_rise_that_is_still_far_away_can_wait() -> None:
    job = spec()
    tuner, seen = ahead_of(job, Told(1.0, 1.0, 1.0, 3.0))
    now = tuner.recommend(seen).plan
    later = tuner.planned(seen)
    assert later is not None
    assert later.counts[3].sum() > later.counts[0].sum()
    assert now.total < ahead_of(job, Told(3.0))[0].recommend(seen).plan.total


def test_a_dip_that_is_not_worth_two_changes_is_ridden_out() -> None:
    job = spec()
    tuner, seen = ahead_of(job, Told(0.5, 1.0, 1.0), change=100.0)
    first = tuner.planned(seen)
    assert first is not None
    assert len({tuple(row) for row in first.counts.tolist()}) == 1


def test_without_a_past_it_is_the_inner_tuner() -> None:
    job = spec()
    seen = observed(job, Plan(dict.fromkeys(job.job.dataflow.index, 40)), 1)[0]
    tuner = Ahead(DS2(job.job), Told(2.0))
    assert tuner.recommend(seen).plan == DS2(job.job).recommend(seen).plan


class Rising(Simulator):
    """A simulator whose sources are offered three times as much from a given moment on."""

    def __init__(self, job: JobSpec, rise_s: float) -> None:
        super().__init__({job.job.name: job.physics or {}}, SimulatorSettings(restart_s=10.0))
        self.rise_s, self.rates, self.now_s = rise_s, job.job.source_rates, 0.0
        self.plans: list[tuple[float, int]] = []

    def observe(self, deployment: Deployment, window: MeasurementWindow) -> Observation:
        simulation = self._find(deployment).simulation
        factor = 1.0 if simulation.now_s < self.rise_s else 3.0
        simulation.set_rates({key: rate * factor for key, rate in self.rates.items()})
        seen = super().observe(deployment, window)
        self.now_s = simulation.now_s
        self.plans.append((self.now_s, deployment.plan.total))
        return seen

    def now(self) -> datetime:
        return datetime.fromtimestamp(EPOCH.timestamp() + self.now_s, UTC)

    def steady(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None: ...


class Knows:
    """Knows when the rate will rise."""

    step_s = WINDOW

    def __init__(self, job: JobSpec, rise_s: float) -> None:
        self.total, self.rise_s = sum(job.job.source_rates.values()), rise_s
        self.now_s = 0.0

    def coming(self, past: RateSeries) -> np.ndarray:
        now_s = len(past) * WINDOW
        return self.total * np.array([3.0 if now_s + k * WINDOW >= self.rise_s else 1.0 for k in range(4)])


def supervised(tuner_of: str, rise_s: float = 6 * WINDOW) -> Rising:
    job = spec()
    engine = Rising(job, rise_s)
    tuner: Tuner = DS2(job.job)
    if tuner_of == "ahead":
        tuner = Ahead(tuner, Knows(job, rise_s), prices=PriceList(change=0.001))
    deployment = engine.deploy(job.job, Plan(dict.fromkeys(job.job.dataflow.index, 20)))
    controller = Controller(engine, tuner, Guards(max_reconfigurations=3), MeasurementWindow(0, WINDOW))
    supervisor = Supervisor(SupervisorSettings(watch_s=12 * WINDOW), clock=engine)
    job_under = supervisor.add(controller, deployment)
    supervisor.run()
    assert job_under.error is None
    return engine


def around_the_rise(engine: Rising) -> tuple[int, int, int]:
    """Instances in the last window before the rise, in the first one after it, and in the end."""
    before = [total for when, total in engine.plans if when < engine.rise_s + 0.5 * WINDOW]
    after = [total for when, total in engine.plans if when > engine.rise_s + 0.5 * WINDOW]
    return before[-1], after[0], after[-1]


def test_the_supervisor_changes_the_job_before_the_rise() -> None:
    before, at, end = around_the_rise(supervised("ahead"))
    assert before < at
    assert end <= at + 1  # what was measured at the lower rate is not exact


def test_a_reactive_tuner_changes_it_after_the_rise() -> None:
    before, at, end = around_the_rise(supervised("ds2"))
    assert before == at < end


def test_means_of_steps_hold_where_nothing_was_seen() -> None:
    job = spec()
    tuner = Ahead(DS2(job.job), Told(1.0))
    seen = observed(job, Plan(dict.fromkeys(job.job.dataflow.index, 40)), 1)[0]
    for steps in (0, 1, 4):
        tuner.learn(seen.model_copy(update={"observed_at": seen.observed_at + timedelta(seconds=steps * WINDOW)}))
    past = tuner._past()
    assert past is not None
    assert len(past) == 5
    assert past.values == pytest.approx([past.values[0]] * 5)


def test_the_price_of_being_short_leads_from_the_cheapest_plan_to_the_safest() -> None:
    """StreamTune's belief is weighed: at least what the median needs, and the more the dearer being short is."""
    job = spec()
    seen = observed(job, Plan(dict.fromkeys(job.job.dataflow.index, 40)))
    plans = []
    for short_hour in (0.01, 1.0, 100.0):
        prices = PriceList(short_hour=short_hour, change=0.0)
        tuner = Ahead(StreamTune(job.job), Told(2.0, 2.0), prices=prices, settings=AheadSettings(within_step_sd=0.2))
        for one in seen:
            tuner.learn(one)
        plans.append(tuner.recommend(seen[-1]).plan)
    assert plans[0].total < plans[1].total < plans[2].total
    doubled = {key: 2 * rate for key, rate in job.job.source_rates.items()}
    least = find_oracle(job.job, job.physics or {}, doubled).plan
    tuned = [one.id for one in job.job.dataflow.operators if not one.is_source]
    assert all(plans[2][key] >= least[key] for key in tuned)
