"""A blocked source without a lag metric: the guess is bounded, told, and corrected downwards in the same process."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engines.flink.fake_dag import FakeDag, FakeVertex
from streamtune.control.controller import Controller
from streamtune.control.guards import Guards
from streamtune.dataflow import Observation, Run
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.flink import FlinkClient, FlinkEngine
from streamtune.tuners import make_tuner

WINDOW = MeasurementWindow(settle_s=10.0, length_s=20.0)


def chain(per_subtask: float) -> dict[str, FakeVertex]:
    return {
        "in": FakeVertex("Source: in", 50_000.0),
        "work": FakeVertex("Map", per_subtask, {"in": 1.0}),
        "out": FakeVertex("Sink: out", 10_000.0, {"work": 1.0}),
    }


def engine_of(fake: FakeDag) -> FlinkEngine:
    return FlinkEngine(FlinkClient(fake.url, sleep=fake.clock.sleep, retries=1), clock=fake.clock)


def seen_of(fake: FakeDag) -> tuple[FlinkEngine, Observation]:
    engine = engine_of(fake)
    seen = engine.observe(engine.attach(), WINDOW)
    assert isinstance(seen, Observation)
    return engine, seen


def test_a_source_that_catches_up_is_not_read_as_ten_times_its_rate() -> None:
    """1,000/s offered, 500/s taken, blocked whenever it does not emit: the share says 50,000/s, a guess at most 4 ×."""
    with FakeDag(chain(500.0), {"in": 1000.0}) as fake:
        engine, seen = seen_of(fake)
        assert seen.operators["in"].backpressured_share > 0.95
        assert seen.source_rates["in"] == pytest.approx(1000, rel=0.05)  # 500 · √4
        assert seen.guessed_rates == ("in",)
        assert seen.rate_sds["in"] == pytest.approx(0.4, abs=0.01)
        run = Run.of("r", engine.attach().job, "flink", seen)
    assert run.to_record()["rate_origins"] == {"in": "estimated"}


@pytest.mark.parametrize("name", ["streamtune", "ds2"])
@pytest.mark.parametrize("needed", [2, 3, 5, 8, 12])
def test_the_plan_settles_in_three_steps_and_is_not_too_large(name: str, needed: int) -> None:
    with FakeDag(chain(100.0), {"in": 100.0 * needed - 20}, slots=32) as fake:
        engine = engine_of(fake)
        deployment = engine.attach()
        controller = Controller(engine, make_tuner(name, deployment.job), Guards(), WINDOW, clock=fake.clock)
        outcome = controller.tune(deployment)
        assert not outcome.backpressure
        assert needed <= outcome.deployment.plan["Map"] <= 1.3 * needed + 1
        if name == "streamtune":
            assert outcome.reconfigurations <= 3


def test_no_step_on_a_guess_takes_the_whole_cluster() -> None:
    """The largest step while a rate is a guess is a setting: from 1 to 4, never from 1 to 30 of 32 slots."""
    plans = []
    with FakeDag(chain(10.0), {"in": 10_000.0}, slots=32) as fake:
        engine = engine_of(fake)
        deployment = engine.attach()
        controller = Controller(engine, make_tuner("streamtune", deployment.job), Guards(), WINDOW, clock=fake.clock)
        controller.watch = lambda moment: plans.append(moment.plan["Map"])
        controller.tune(deployment)
    assert max(after / before for before, after in pairwise(plans)) <= 4


def test_a_lag_in_time_is_used_before_a_guess() -> None:
    """Event time falls behind by half a second each second: twice what was taken is offered."""
    with FakeDag(chain(500.0), {"in": 1000.0}) as fake:
        sleep = fake.clock.sleep

        def behind(seconds: float) -> None:
            sleep(seconds)
            fake.gauges["in"] = {"Source__in.currentEmitEventTimeLag": 500.0 * fake.now_s}

        fake.gauges["in"] = {"Source__in.currentEmitEventTimeLag": 0.0}
        fake.clock.sleep = behind  # type: ignore[method-assign]
        _, seen = seen_of(fake)
        assert seen.rate_origins == {"in": "lag"}
        assert seen.source_rates["in"] == pytest.approx(1000, rel=0.05)


def test_a_time_lag_that_has_no_value_is_no_lag() -> None:
    """Flink reports −1 for a generator, whose records carry no time: half of what is offered waits all the same."""
    with FakeDag(chain(500.0), {"in": 1000.0}) as fake:
        fake.gauges["in"] = {"Source__in.currentEmitEventTimeLag": -1.0}
        _, seen = seen_of(fake)
        assert seen.rate_origins == {"in": "estimated"}
        assert seen.source_rates["in"] > 550


def test_a_source_that_waits_for_input_takes_what_it_is_offered() -> None:
    with FakeDag(chain(2000.0), {"in": 1000.0}) as fake:
        _, seen = seen_of(fake)
        assert seen.source_rates["in"] == pytest.approx(1000, rel=0.01)
        assert seen.rate_origins == {}


def test_settings_bound_steps_up_and_down() -> None:
    with FakeDag(chain(2000.0), {"in": 1000.0}) as fake:
        fake.degrees["work"], fake.bounds["work"] = 20, (1, 20)
        engine = engine_of(fake)
        deployment = engine.attach()
        guards = Guards(largest_step_down=0.5)
        outcome = Controller(engine, make_tuner("ds2", deployment.job), guards, WINDOW, clock=fake.clock).tune(
            deployment
        )
        assert outcome.deployment.plan["Map"] == 2  # 20 → 10 → 5 → 3 → 2; one less is not worth a restart
        assert outcome.reconfigurations == 4
