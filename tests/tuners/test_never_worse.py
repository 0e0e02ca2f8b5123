"""Never worse: whatever a history says, the tuner ends clean, one reconfiguration later at most."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from streamtune.control.controller import Controller, Outcome
from streamtune.engines.simulator import Simulator
from streamtune.tuners import StreamTune
from streamtune.workloads import load
from tuners.misleading import Misleading

JOBS = ("nexmark-q1", "nexmark-q5", "nexmark-q8", "pqp-linear-0", "pqp-2way-0", "pqp-3way-0", "random-3", "random-11")
MULTIPLES = (2.0, 5.0, 10.0)


def tuned(name: str, multiple: float, model: Misleading | None, seed: int) -> Outcome:
    workload = load(name)
    engine = Simulator.of(workload.spec, seed=seed)
    job = workload.spec.job
    deployment = engine.deploy(job, job.initial_plan)
    engine.set_source_rates(deployment, workload.rates_at(multiple))
    return Controller(engine, StreamTune(job, model=model)).tune(deployment)


@cache
def without_past(name: str, multiple: float, seed: int) -> Outcome:
    return tuned(name, multiple, None, seed)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(JOBS),
    st.sampled_from(MULTIPLES),
    st.integers(0, 2**31),
    st.sampled_from([0.02, 0.1, 0.3, 1.0]),
    st.integers(0, 3),
)
def test_a_misleading_history_costs_one_reconfiguration_at_most(
    name: str, multiple: float, drawn: int, sureness: float, seed: int
) -> None:
    alone = without_past(name, multiple, seed)
    misled = tuned(name, multiple, Misleading(load(name).spec.job, drawn, sureness), seed)
    assert not misled.backpressure
    assert misled.reconfigurations <= alone.reconfigurations + 1


def test_the_history_of_the_test_does_mislead() -> None:
    """Before anything is seen, its plans are far off: otherwise the law above would show nothing."""
    workload = load("nexmark-q5")
    job, rates = workload.spec.job, workload.rates_at(10.0)
    far_off = 0
    for drawn in range(10):
        found = StreamTune(job, model=Misleading(job, drawn, 0.1)).first_plan(rates)
        assert found is not None
        truth = workload.needs_at(10.0)["bids_per_auction"]
        assert truth is not None
        degree = found.degrees["bids_per_auction"]
        far_off += not truth / 2 <= degree <= 2 * truth
    assert far_off >= 5
