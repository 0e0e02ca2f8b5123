"""Forks on the simulator: a reader gets its share of the output, and every tuner sees what goes over each edge."""

from __future__ import annotations

import pytest

from streamtune.control.controller import Controller
from streamtune.dataflow import Observation
from streamtune.dataflow.spec import JobSpec, parse_spec
from streamtune.engines.base import MeasurementWindow
from streamtune.engines.simulator import Simulator
from streamtune.engines.simulator.oracle import find_oracle
from streamtune.engines.simulator.settings import SimulatorSettings
from streamtune.errors import StreamTuneError
from streamtune.tuners import make_tuner


def fork(share: float) -> JobSpec:
    return parse_spec(
        {
            "name": "fork",
            "operators": [
                {"id": "in", "type": "source", "rate": 1000},
                {"id": "all", "type": "map", "inputs": ["in"]},
                {"id": "few", "type": "map", "inputs": ["in"]},
            ],
            "physics": {
                "in": {"service_us": 10, "shares": {"few": share}},
                "all": {"service_us": 3000},
                "few": {"service_us": 3000},
            },
        }
    )


def test_a_reader_gets_its_share() -> None:
    spec = fork(0.1)
    engine = Simulator.of(spec, settings=SimulatorSettings.exact())
    plan = spec.job.initial_plan.replace({"all": 4})
    seen = engine.observe(engine.deploy(spec.job, plan), MeasurementWindow())
    assert isinstance(seen, Observation)
    assert seen.edge_rates == {("in", "all"): pytest.approx(1000), ("in", "few"): pytest.approx(100)}
    assert seen.operators["few"].records_in_per_s == pytest.approx(100, rel=0.02)
    assert not seen.has_backpressure


@pytest.mark.parametrize("name", ["streamtune", "ds2"])
def test_tuners_reach_the_oracle_on_a_fork(name: str) -> None:
    spec = fork(0.05)
    engine = Simulator.of(spec)
    outcome = Controller(engine, make_tuner(name, spec.job)).tune(engine.deploy(spec.job, spec.job.initial_plan))
    best = find_oracle(spec.job, spec.physics or {}, {"in": 1000.0})
    assert best.plan["few"] == outcome.deployment.plan["few"] == 1
    assert not outcome.backpressure


def test_a_share_is_a_share() -> None:
    with pytest.raises(StreamTuneError, match=r"share of 'few' must be above 0 and at most 1, but got 1.5"):
        fork(1.5)
