"""Laws over all tuners: the unit of records does not matter, odd jobs and lost metrics do no harm."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import EmulatedJob, emulated_jobs
from streamtune.dataflow import Dataflow, Edge, Job, Observation, Operator, Plan
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.dataflow.spec import JobSpec
from streamtune.engines.simulator import simulate_once
from streamtune.labs.simulator import tune_on_simulator
from streamtune.tuners import (
    DS2,
    TUNERS,
    CalibratedDS2,
    ContTune,
    Dhalion,
    DS2Settings,
    FlinkAutoscaler,
    FlinkAutoscalerSettings,
    Greedy,
    Tuner,
)
from tuners.sightings import chain, metrics, sighting

RIVALS = (DS2, CalibratedDS2, ContTune, Dhalion, Greedy)
every_tuner = pytest.mark.parametrize("tuner", TUNERS.values(), ids=lambda tuner: tuner.name)


def in_other_units(seen: Observation, factor: float) -> Observation:
    """The same job, its records counted in other units."""
    operators = {}
    for key, one in seen.operators.items():
        lag = None if one.lag_records is None else one.lag_records * factor
        rates = {"records_in_per_s": one.records_in_per_s * factor, "records_out_per_s": one.records_out_per_s * factor}
        operators[key] = one.model_copy(update={**rates, "lag_records": lag})
    rates = {source: rate * factor for source, rate in seen.source_rates.items()}
    edges = tuple(
        edge.model_copy(update={"records_per_s": edge.records_per_s * factor})
        for edge in seen.edges
        if edge.records_per_s is not None
    )
    return seen.model_copy(update={"operators": operators, "source_rates": rates, "edges": edges})


def observe(emulated: EmulatedJob, degree: int) -> Observation:
    job = emulated.job
    plan = {key: 1 if job.dataflow.operator(key).is_source else degree for key in job.dataflow.index}
    return simulate_once(job, emulated.physics, Plan(plan), job.source_rates)


@settings(max_examples=25)
@given(emulated_jobs(), st.integers(1, 12), st.sampled_from((-3, -1, 2, 5)))
def test_the_unit_of_records_does_not_matter(emulated: EmulatedJob, degree: int, exponent: int) -> None:
    """Powers of two, so that scaling is exact in floating point."""
    seen = observe(emulated, degree)
    other = in_other_units(seen, 2.0**exponent)
    for make in RIVALS:
        plans = []
        for one in (seen, other):
            tuner = make(emulated.job)
            tuner.learn(one)
            plans.append(tuner.recommend(one).plan)
        assert plans[0] == plans[1], make.name


@settings(max_examples=25)
@given(emulated_jobs(), st.integers(1, 12))
def test_the_autoscaler_rounds_to_records_and_no_more(emulated: EmulatedJob, degree: int) -> None:
    """It rounds capacities to whole records/s: half a record of what is needed, before and after scaling."""
    seen = observe(emulated, degree)
    small, large = (
        FlinkAutoscaler(emulated.job, FlinkAutoscalerSettings(scale_down_interval_s=0)).recommend(one).figures
        for one in (seen, in_other_units(seen, 1024.0))
    )
    for key in small:
        assert large[key]["needed_per_s"] / 1024 == pytest.approx(small[key]["needed_per_s"], abs=0.502)


@settings(max_examples=25)
@given(emulated_jobs(), st.integers(1, 12), st.floats(1, 4))
def test_ds2_asks_for_no_less_at_a_higher_offered_rate(emulated: EmulatedJob, degree: int, more: float) -> None:
    seen = observe(emulated, degree)
    higher = seen.model_copy(update={"source_rates": {key: rate * more for key, rate in seen.source_rates.items()}})
    tuner = DS2(emulated.job, DS2Settings(ignored_drop=0))
    low, high = tuner.recommend(seen).plan, tuner.recommend(higher).plan
    assert all(low[key] <= high[key] for key in low)


def tuned_once(job: Job, physics: dict[str, OperatorPhysics], tuner: type[Tuner]) -> tuple[bool, str, Plan]:
    story = tune_on_simulator(JobSpec(job, physics), tuner, [job.source_rates], with_oracle=False)
    change = story.changes[0]
    return change.backpressure, change.stop_reason, Plan(dict(change.plan))


@every_tuner
def test_a_job_that_is_only_a_source(tuner: type[Tuner]) -> None:
    job = Job("alone", Dataflow((Operator(id="source", type="source", rate=100, parallelism=3),), ()))
    assert tuned_once(job, {"source": OperatorPhysics(service_us=100)}, tuner) == (
        False,
        "unchanged",
        Plan({"source": 3}),
    )


@every_tuner
def test_a_job_of_sixty_operators_of_a_type_never_heard_of(tuner: type[Tuner]) -> None:
    operators = [Operator(id="op0", type="source", rate=1000)]
    operators += [Operator(id=f"op{n}", type="quantum_fold") for n in range(1, 60)]
    job = Job("long", Dataflow(tuple(operators), tuple(Edge(a.id, b.id) for a, b in pairwise(operators))))
    physics = {operator.id: OperatorPhysics(service_us=100) for operator in operators}
    backpressure, _, plan = tuned_once(job, physics, tuner)
    assert not backpressure
    assert plan.total >= 60


@every_tuner
def test_a_rate_of_zero(tuner: type[Tuner]) -> None:
    job = chain("map", "sink")
    physics = {key: OperatorPhysics(service_us=1000) for key in job.dataflow.index}
    story = tune_on_simulator(JobSpec(job, physics), tuner, [{"source": 900.0}, {"source": 0.0}], with_oracle=False)
    assert not story.changes[-1].backpressure


@every_tuner
def test_a_job_that_can_never_keep_up(tuner: type[Tuner]) -> None:
    """10,000/s at 1 ms each would need ten instances, the limit is four: it ends, within the limit."""
    job = chain("map", "sink", max_parallelism=4)
    physics = {key: OperatorPhysics(service_us=1000 if key == "op1" else 1) for key in job.dataflow.index}
    spec = JobSpec(job, physics)
    story = tune_on_simulator(spec, tuner, [{"source": 10_000.0}], with_oracle=False)
    change = story.changes[0]
    assert change.backpressure
    assert change.plan["op1"] == 4


@every_tuner
def test_an_operator_without_metrics_keeps_what_was_asked_for(tuner: type[Tuner]) -> None:
    """op2 is seen at 9, then its metrics are lost while op1 holds up the source: nobody may set op2 back to 1."""
    job = chain("map", "map")
    made = tuner(job)
    whole = sighting({"source": metrics(1, 500, 90), "op1": metrics(5, 500, 850), "op2": metrics(9, 500, 850)})
    made.learn(whole)
    asked = made.recommend(whole).plan
    lost = sighting({"source": metrics(1, 500, 90, blocked=500), "op1": metrics(5, 500, 1000)}, offered=1000)
    made.learn(lost)
    plan = made.recommend(lost).plan
    job.check_plan(plan)
    assert plan["op2"] >= asked["op2"]
