"""Laws of the simulator: nothing is lost, shares add up, seeds repeat, and backpressure means what it says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strategies import EmulatedJob, emulated_jobs
from streamtune.dataflow import Dataflow, Edge, Job, Operator, Plan, Window
from streamtune.dataflow.physics import OperatorPhysics
from streamtune.engines import MeasurementWindow
from streamtune.engines.simulator import MeasurementError, Simulator, SimulatorSettings, find_oracle, simulate_once
from streamtune.engines.simulator.kernel import EMITTED, TAKEN
from streamtune.engines.simulator.model import Simulation


def chain(*physics: OperatorPhysics, rate: float, window: Window | None = None) -> EmulatedJob:
    """source → op1 → op2 → … with the given physics, the source first."""
    operators = [Operator(id="source", type="source", rate=rate, parallelism=8)]
    for position in range(1, len(physics)):
        is_last = position == len(physics) - 1
        operators.append(Operator(id=f"op{position}", type="map", window=window if is_last else None))
    edges = tuple(Edge(a.id, b.id) for a, b in pairwise(operators))
    job = Job("chain", Dataflow(tuple(operators), edges))
    return EmulatedJob(job, {operator.id: truth for operator, truth in zip(operators, physics, strict=True)})


def plans(job: Job) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({key: st.integers(1, 12) for key in job.dataflow.index}).map(Plan)


@given(emulated_jobs(), st.data(), st.integers(0, 2**32))
def test_no_record_is_lost_or_made_up(emulated: EmulatedJob, data: st.DataObject, seed: int) -> None:
    """On every edge: sent = taken + waiting; in every window: taken = fired + held; across a rescale too."""
    simulation = Simulation(
        emulated.job, emulated.physics, data.draw(plans(emulated.job)), SimulatorSettings(), seed=seed
    )
    simulation.advance(30)
    simulation.rescale(data.draw(plans(emulated.job)), downtime_s=5)
    simulation.advance(30)
    sums, topology = simulation.totals.sums, simulation.topology
    for edge, (a, b) in enumerate(topology.edges):
        sent = sums[a, EMITTED]
        assert sent == pytest.approx(simulation.totals.flow[edge] + simulation.queue[edge], rel=1e-9, abs=1e-6)
        assert simulation.queue[edge] >= 0
        del b
    for v in range(len(simulation.truth)):
        held = simulation.gathered[v] + simulation.to_fire[v]
        passed = (sums[v, TAKEN] - held) * simulation.selectivity[v]
        assert sums[v, EMITTED] == pytest.approx(passed, rel=1e-9, abs=1e-6)
        incoming = topology.in_edges[topology.in_start[v] : topology.in_start[v + 1]]
        if len(incoming):
            assert sums[v, TAKEN] == pytest.approx(simulation.totals.flow[incoming].sum(), rel=1e-9, abs=1e-6)


@given(emulated_jobs(), st.data(), st.integers(0, 2**32))
def test_times_add_up_to_a_second(emulated: EmulatedJob, data: st.DataObject, seed: int) -> None:
    seen = simulate_once(
        emulated.job,
        emulated.physics,
        data.draw(plans(emulated.job)),
        emulated.job.source_rates,
        window=MeasurementWindow(10, 20),
        settings=SimulatorSettings(error=MeasurementError(bias_sigma=0.2, noise_sigma=0.1)),
        seed=seed,
    )
    for m in seen.operators.values():
        assert m.busy_ms_per_s + m.idle_ms_per_s + m.backpressured_ms_per_s == pytest.approx(1000, abs=1e-6)
        assert min(m.busy_ms_per_s, m.idle_ms_per_s, m.backpressured_ms_per_s) >= -1e-6
        assert m.busy_max_ms_per_s is not None
        assert m.busy_ms_per_s - 1e-6 <= m.busy_max_ms_per_s <= 1000 + 1e-6


@given(emulated_jobs(), st.data(), st.integers(0, 2**32))
def test_same_seed_same_numbers(emulated: EmulatedJob, data: st.DataObject, seed: int) -> None:
    plan = data.draw(plans(emulated.job))
    window = MeasurementWindow(5, 10)
    args = (emulated.job, emulated.physics, plan, emulated.job.source_rates)
    first = simulate_once(*args, window=window, seed=seed)
    assert simulate_once(*args, window=window, seed=seed) == first
    assert simulate_once(*args, window=window, seed=seed + 1) != first


@settings(max_examples=60)
@given(emulated_jobs())
def test_the_oracles_plan_is_clean_and_minimal(emulated: EmulatedJob) -> None:
    """At the oracle: no backpressure. One below it on a limiting operator: backpressure, once the buffers are full.

    An operator counts as limiting if one instance less leaves it at least 2 % short; a plan that is 2 % short fills
    buffers of 3.5 s in 3.5 / 0.02 = 175 s per hop, so 30 minutes are enough for the deepest job here.
    """
    job, physics, rates = emulated.job, emulated.physics, emulated.job.source_rates
    oracle = find_oracle(job, physics, rates)
    assume(not oracle.unreachable)
    settled = MeasurementWindow(settle_s=1800, length_s=120)
    exact = SimulatorSettings.exact()
    assert not simulate_once(job, physics, oracle.plan, rates, window=settled, settings=exact).has_backpressure
    for key, degree in oracle.plan.items():
        if degree == 1:
            continue
        short_by = 1 - physics[key].capacity_per_s(degree - 1) / oracle.demand_per_s[key]
        if short_by < 0.02 or job.dataflow.operator(key).is_source:
            continue
        below = oracle.plan.replace({key: degree - 1})
        seen = simulate_once(job, physics, below, rates, window=settled, settings=exact)
        assert seen.has_backpressure, f"{key} at {degree - 1} is {short_by:.1%} short, but nothing shows"


@settings(max_examples=40)
@given(emulated_jobs(), st.integers(0, 1000))
def test_the_oracles_plan_is_clean_with_all_variation_on(emulated: EmulatedJob, seed: int) -> None:
    """With 3 % in hand the default variation does not cause backpressure."""
    rates = emulated.job.source_rates
    oracle = find_oracle(emulated.job, emulated.physics, {key: rate * 1.03 for key, rate in rates.items()})
    assume(not oracle.unreachable)
    assert not simulate_once(emulated.job, emulated.physics, oracle.plan, rates, seed=seed).has_backpressure


def test_backpressure_sets_in_gradually() -> None:
    """The share of a job's most backpressured operator against load: a plan 2 % short is not one 20 % short."""
    emulated = chain(
        OperatorPhysics(service_us=10), OperatorPhysics(service_us=100), OperatorPhysics(service_us=1000), rate=1
    )
    plan = Plan({"source": 1, "op1": 2, "op2": 10})  # op2 serves 10,000/s

    def share(load: float) -> float:
        shares = []
        for seed in range(8):
            seen = simulate_once(emulated.job, emulated.physics, plan, {"source": 10_000 * load}, seed=seed)
            shares.append(max(m.backpressured_share for m in seen.operators.values()))
        return float(np.mean(shares))

    curve = {load: share(load) for load in (0.9, 0.98, 1.02, 1.04, 1.2)}
    assert curve[0.9] == curve[0.98] == 0
    assert curve[1.02] < 0.25 < curve[1.04]
    assert curve[1.04] < 0.7 < curve[1.2]


def test_backpressure_spreads_upstream_because_buffers_fill() -> None:
    """With op2 at half the rate, op1 is blocked first; the source follows once op1's own buffer is full."""
    emulated = chain(
        OperatorPhysics(service_us=10), OperatorPhysics(service_us=100), OperatorPhysics(service_us=1000), rate=1000
    )
    plan = Plan({"source": 1, "op1": 1, "op2": 1})
    simulation = Simulation(emulated.job, emulated.physics, plan, SimulatorSettings.exact(), seed=0)
    simulation.set_rates({"source": 2000})

    def blocked_s(seconds: float) -> tuple[float, float]:
        simulation.reset_totals()
        simulation.advance(seconds)
        return float(simulation.totals.sums[0, 1]), float(simulation.totals.sums[1, 1])

    # op2's buffer holds 3.5 s · 1,000/s = 3,500 records and fills at 1,000/s: full after about 3.5 s.
    assert blocked_s(3.0) == (0.0, 0.0)
    source, op1 = blocked_s(5.0)
    assert op1 > 2.0
    assert source == 0.0
    # op1's buffer holds 3.5 s · 10,000/s and fills at 1,000/s: full after another 35 s.
    source, op1 = blocked_s(60.0)
    assert source > 10.0


def test_capacity_follows_the_universal_scalability_law() -> None:
    """p = 10, contention 0.02, coherency 0.001: 10 / (1 + 0.18 + 0.09) = 7.874 instances' worth of 1,000/s."""
    truth = OperatorPhysics(service_us=1000, contention=0.02, coherency=0.001)
    assert truth.capacity_per_s(10) == pytest.approx(7874.0, rel=1e-4)
    emulated = chain(OperatorPhysics(service_us=1), truth, rate=20_000)
    plan = Plan({"source": 1, "op1": 10})
    seen = simulate_once(emulated.job, emulated.physics, plan, {"source": 20_000}, settings=SimulatorSettings.exact())
    assert seen.operators["op1"].records_in_per_s == pytest.approx(7874.0, rel=1e-3)


def test_the_hottest_subtask_limits_a_skewed_operator() -> None:
    """skew 0.5 at p = 5: the hottest gets 1 + 0.5·0.8 = 1.4 times the mean: 5,000/1.4 = 3,571/s, busy 71 %."""
    emulated = chain(OperatorPhysics(service_us=1), OperatorPhysics(service_us=1000, skew=0.5), rate=6000)
    plan = Plan({"source": 1, "op1": 5})
    seen = simulate_once(emulated.job, emulated.physics, plan, {"source": 6000}, settings=SimulatorSettings.exact())
    m = seen.operators["op1"]
    assert m.records_in_per_s == pytest.approx(5000 / 1.4, rel=1e-3)
    assert m.busy_share == pytest.approx(1 / 1.4, rel=1e-3)
    assert m.busy_max_ms_per_s == pytest.approx(1000, rel=1e-3)


def test_windows_fire_in_bursts_that_grow_with_their_period() -> None:
    """At 1,000/s a tumbling window of w seconds emits w·1,000 records at once."""
    largest = {}
    for length in (1.0, 5.0):
        window = Window(type="tumbling", policy="time", length=length)
        emulated = chain(
            OperatorPhysics(service_us=1), OperatorPhysics(service_us=100, fire_share=0.0), rate=1000, window=window
        )
        plan = Plan({"source": 1, "op1": 1})
        simulation = Simulation(emulated.job, emulated.physics, plan, SimulatorSettings.exact(), seed=0)
        bursts = []
        for _ in range(200):
            simulation.reset_totals()
            simulation.advance(0.1)
            bursts.append(float(simulation.totals.sums[1, EMITTED]))
        largest[length] = max(bursts)
        assert bursts.count(0.0) > 150
    assert largest[1.0] == pytest.approx(1000, rel=0.01)
    assert largest[5.0] == pytest.approx(5000, rel=0.01)


def test_a_replayable_source_keeps_the_backlog_of_a_restart() -> None:
    """10 s of downtime at 1,000/s: a log source has 10,000 records to catch up on, a generator 500."""
    emulated = chain(OperatorPhysics(service_us=1), OperatorPhysics(service_us=100), rate=1000)
    plan = Plan({"source": 1, "op1": 1})
    for backlog_s, expected in ((float("inf"), 10_000), (0.5, 500)):
        settings_ = SimulatorSettings.exact().model_copy(update={"backlog_s": backlog_s})
        simulation = Simulation(emulated.job, emulated.physics, plan, settings_, seed=0)
        simulation.advance(20)
        simulation.rescale(plan, downtime_s=10)
        simulation.advance(simulation.down_until_s - simulation.now_s)
        assert simulation.lag[0] == pytest.approx(expected, rel=0.02)
        simulation.advance(20)
        assert simulation.lag[0] == pytest.approx(0, abs=1e-6)


def test_nothing_flows_while_a_job_starts() -> None:
    emulated = chain(OperatorPhysics(service_us=1), OperatorPhysics(service_us=100), rate=1000)
    engine = Simulator({"chain": emulated.physics}, SimulatorSettings.exact())
    deployment = engine.deploy(emulated.job, Plan({"source": 1, "op1": 1}))
    seen = engine.observe(deployment, MeasurementWindow(settle_s=0, length_s=5))
    assert seen.operators["op1"].records_in_per_s == 0


def test_measurement_error_is_a_bias_per_type_plus_noise() -> None:
    """op1 is 50 % busy; with a bias alone every window is off by the same factor, the one of its type."""
    emulated = chain(OperatorPhysics(service_us=1), OperatorPhysics(service_us=500), rate=1000)
    plan = Plan({"source": 1, "op1": 1})
    error = MeasurementError(bias_sigma=0.1, noise_sigma=0.0, seed=3)
    biased = SimulatorSettings.exact().model_copy(update={"error": error})
    shares = {
        simulate_once(emulated.job, emulated.physics, plan, {"source": 1000}, settings=biased, seed=seed)
        .operators["op1"]
        .busy_share
        for seed in range(3)
    }
    assert len(shares) == 1
    assert shares.pop() == pytest.approx(0.5 * (1 + error.bias("map")), rel=1e-3)
    assert MeasurementError(bias_sigma=0.1, seed=4).bias("map") != error.bias("map")
    noisy = biased.model_copy(update={"error": MeasurementError(bias_sigma=0.0, noise_sigma=0.05)})
    drawn = [
        simulate_once(emulated.job, emulated.physics, plan, {"source": 1000}, settings=noisy, seed=seed)
        .operators["op1"]
        .busy_share
        for seed in range(60)
    ]
    assert np.std(drawn) == pytest.approx(0.5 * 0.05, rel=0.35)


def test_results_scale_with_the_rate() -> None:
    """A fluid has no grain: a job with k times the rate and 1/k the service time has the same shares."""
    shares = []
    for k in (1, 1000):
        emulated = chain(
            OperatorPhysics(service_us=10 / k),
            OperatorPhysics(service_us=500 / k),
            OperatorPhysics(service_us=1000 / k),
            rate=1,
        )
        plan = Plan({"source": 1, "op1": 4, "op2": 5})
        seen = simulate_once(
            emulated.job, emulated.physics, plan, {"source": 5500 * k}, settings=SimulatorSettings.exact()
        )
        shares.append([m.backpressured_share for m in seen.operators.values()])
    assert shares[0] == pytest.approx(shares[1], rel=1e-6)


def test_latency_grows_with_load() -> None:
    emulated = chain(OperatorPhysics(service_us=10), OperatorPhysics(service_us=1000), rate=1)
    plan = Plan({"source": 1, "op1": 10})
    latencies = [
        simulate_once(emulated.job, emulated.physics, plan, {"source": rate}).latency_ms or 0.0
        for rate in (5000, 9900, 12000)
    ]
    assert latencies[0] < latencies[1] < latencies[2]
    assert latencies[2] > 3000  # a full buffer of 3.5 s
